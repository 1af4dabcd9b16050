"""Colour themes: TOML files, shipped with the app or in the user's configuration, checked before they are used."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.style import Style
from textual.theme import Theme

from warpdeck.errors import UserError
from warpdeck.paths import config_dir


class ThemeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A theme: Textual's base colours, a colour for each role, and eight steps of the heat map from cold to hot."""

    name: str
    dark: bool
    primary: str
    secondary: str
    accent: str
    foreground: str
    background: str
    surface: str
    panel: str
    success: str
    warning: str
    error: str
    muted: str
    cursor: str
    heat: tuple[str, str, str, str, str, str, str, str]
    heat_text: tuple[str, str, str, str, str, str, str, str]


def shipped_folder() -> Path:
    """In the wheel beside this file; in a checkout at the repository's root."""
    packaged = Path(__file__).with_name("themes")
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "themes"


def load_theme(path: Path) -> ThemeFile:
    """Raises UserError that names the file and what is wrong."""
    try:
        theme = msgspec.toml.decode(path.read_bytes(), type=ThemeFile)
        to_textual(theme).to_color_system().generate()
        text_styles(theme)
    except OSError as error:
        raise UserError(f"cannot read the theme {path}: {error.strerror}", "check its permissions") from error
    except Exception as error:  # a colour that Textual or Rich cannot parse has no common error class
        raise UserError(
            f"the theme {path} cannot be used: {error}", "correct it, or remove the file"
        ) from error
    return theme


def all_themes() -> tuple[list[ThemeFile], list[str]]:
    """(themes by name, notices about files that cannot be used). The user's outrank the shipped ones."""
    found: dict[str, ThemeFile] = {}
    notices: list[str] = []
    for folder in (shipped_folder(), Path(config_dir()) / "themes"):
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = load_theme(path)
                found[theme.name] = theme
            except UserError as error:
                notices.append(error.message)
    return [found[name] for name in sorted(found)], notices


def to_textual(theme: ThemeFile) -> Theme:
    """As Textual wants it."""
    return Theme(
        name=theme.name,
        dark=theme.dark,
        primary=theme.primary,
        secondary=theme.secondary,
        accent=theme.accent,
        foreground=theme.foreground,
        background=theme.background,
        surface=theme.surface,
        panel=theme.panel,
        success=theme.success,
        warning=theme.warning,
        error=theme.error,
    )


def text_styles(theme: ThemeFile) -> dict[str, Style]:
    """The styles that the line widgets draw with, by role."""
    states = {
        "RUNNING": theme.success,
        "COMPLETING": theme.success,
        "CONFIGURING": theme.secondary,
        "PENDING": theme.warning,
        "COMPLETED": theme.muted,
        "CANCELLED": theme.muted,
        "FAILED": theme.error,
        "TIMEOUT": theme.error,
        "NODE_FAIL": theme.error,
        "OUT_OF_MEMORY": theme.error,
    }
    styles = {name: Style(color=color) for name, color in states.items()}
    styles |= {
        "muted": Style(color=theme.muted),
        "accent": Style(color=theme.accent),
        "warn": Style(color=theme.error, bold=True),
        "header": Style(color=theme.primary, bold=True),
        "cursor": Style(bgcolor=theme.cursor, bold=True),
    }
    for step, (color, text) in enumerate(zip(theme.heat, theme.heat_text, strict=True)):
        styles[f"heat{step}"] = Style(color=text, bgcolor=color)
    return styles
