"""Finds the themes, applies the chosen one, and applies it again when its file changes.

The user's own themes are in the folder "themes" of the configuration. One of them replaces a shipped theme
with the same name. The files are checked while the app runs: a changed file is applied at once. A file that
cannot be used is reported once, and its previous content stays in use. The theme chosen with the picker is
stored in the file "theme"; `--theme` takes precedence over it. The default is FALLBACK_THEME, or on a
terminal with 16 colors the theme that is made for these.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rich.style import Style

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir
from warpdeck_tui.table.palette import FEW_COLOURS, MANY_COLOURS
from warpdeck_tui.terminal.library_caches import empty_caches
from warpdeck_tui.user_files.theme_file import ThemeFile, for_256_colors
from warpdeck_tui.user_files.themes import (
    ANSI_THEME,
    load_theme,
    shipped_folder,
    text_styles,
    to_textual,
)

from .terminal.terminal_app import TerminalApp

FALLBACK_THEME = "deck-dark"
LOOK_S = 3.0
"""Seconds between two checks of the theme files, so that a theme's author sees changes soon. A check reads
the status of a folder and of a few files, in a thread, which costs an idle app more than anything else.
"""
MAX_NAME_BYTES = 200
OWN_PREFIX = "deck-"


class _Kept(NamedTuple):
    """A theme file with the status it had when it was last read. `theme` is its last usable content."""

    stamp: tuple[int, int]
    theme: ThemeFile | None


class ThemeManager:
    """The themes of one app. `wanted` is the theme to begin with, or "" for the stored one."""

    def __init__(self, app: TerminalApp, *, wanted: str) -> None:
        self._app = app
        self._wanted = wanted
        self._kept: dict[Path, _Kept] = {}
        self._themes: dict[str, ThemeFile] = {}
        self._styles: dict[str, Style] = {}
        self._styled = ""
        self._is_whole = False
        """True once all files were read. The first frame needs only one of them."""
        self._notices: list[str] = []

    @property
    def themes(self) -> list[ThemeFile]:
        """All themes: the dark ones, then the light ones, each with our own first."""
        self._complete()
        return sorted(self._themes.values(), key=lambda each: (not each.dark, not is_ours(each), each.name))

    @property
    def now(self) -> str:
        """The name of the current theme."""
        return str(self._app.theme)

    @property
    def names(self) -> list[str]:
        """The names of all themes, in the same order."""
        return [theme.name for theme in self.themes]

    @property
    def palette(self) -> dict[str, Style]:
        """Map style names of the line widgets to their styles in the current theme."""
        if self._styled != self._app.theme:
            chosen = self._themes.get(self._app.theme)
            self._styled, self._styles = (
                self._app.theme,
                (text_styles(self.in_terminal_colors(chosen)) if chosen else {}),
            )
        return self._styles

    @property
    def _few_colours(self) -> bool:
        return self._app.console.color_system in FEW_COLOURS

    def in_terminal_colors(self, theme: ThemeFile) -> ThemeFile:
        """Return the theme in the colors that the terminal has."""
        return for_256_colors(theme) if self._app.console.color_system == MANY_COLOURS else theme

    @property
    def _fallback(self) -> str:
        return ANSI_THEME if self._few_colours else FALLBACK_THEME

    def begin(self) -> None:
        """Apply the first theme before the style sheets are read.

        A later change of theme makes Textual read them again.
        """
        if self._few_colours:
            # This applies to every theme. Otherwise Textual turns the terminal's own 16 colors into RGB
            # colors, and the nearest of the 16 to these may be different ones.
            self._app.set_reactive(type(self._app).ansi_color, True)
        colourless = ANSI_THEME if os.environ.get("NO_COLOR") else ""
        wanted = [name for name in (self._wanted, colourless, _kept_name(), self._fallback) if name]
        if not self._read_one(wanted[0]):
            self._complete()
        if self._wanted and self._wanted not in self._themes:
            there = ", ".join(sorted(self._themes))
            self._notices.append(f"No such theme: {self._wanted}. Available: {there}")
        for name in wanted:
            if name in self._themes:
                self._wear(name)
                break

    def _read_one(self, name: str) -> bool:
        """Read only the shipped theme with this name, and return whether it was found.

        Does nothing if the user has any themes, because one of them may have this name.
        """
        paths = [path for path in _files(shipped_folder()) if path.stem == name]
        if _files(_own_folder()):
            return False
        self._notices += self._take(_read_files(paths, {}))
        return name in self._themes

    def _complete(self) -> None:
        """Read the files that the first frame did not need."""
        if not self._is_whole:
            self._notices += self._take(_read(self._kept))
            self._is_whole = True

    def _wear(self, name: str) -> None:
        """Do the same as Textual does when the theme changes, but without restyling widgets.

        No widgets exist yet.
        """
        app = self._app
        app.set_reactive(type(app).theme, name)
        app.set_class(True, f"-theme-{name}", update=False)
        app.set_class(app.current_theme.dark, "-dark-mode", update=False)
        app.set_class(not app.current_theme.dark, "-light-mode", update=False)
        app.refresh_theme_filter()
        app.stylesheet.set_variables(app.get_css_variables())

    def tell(self) -> None:
        """Show the messages about files that were read."""
        notices, self._notices = self._notices, []
        for notice in notices:
            self._app.notify(notice, severity="warning", markup=False)

    async def look_again(self) -> None:
        """Apply all changes of the theme files since the last check."""
        self.tell()
        found = await asyncio.to_thread(_read, self._kept)
        if found.keys() == self._kept.keys() and all(
            kept is self._kept[path] for path, (kept, _) in found.items()
        ):
            return
        worn = self._themes.get(self._app.theme)
        self._notices += self._take(found)
        self._is_whole = True
        if self._app.theme not in self._themes:
            self.use(self._fallback)
        elif self._themes[self._app.theme] is not worn:
            self.use(self._app.theme)
        self.tell()

    def _take(self, found: Mapping[Path, tuple[_Kept, str]]) -> list[str]:
        """Replace all themes by those that were read, and return the messages about them."""
        self._kept = {path: kept for path, (kept, _) in found.items()}
        self._themes = {kept.theme.name: kept.theme for kept in self._kept.values() if kept.theme is not None}
        for theme in self._themes.values():
            self._app.register_theme(to_textual(self.in_terminal_colors(theme)))
        return [notice for _, notice in found.values() if notice]

    def use(self, name: str) -> None:
        """Apply this theme, with the present content of its file."""
        if name not in self._themes:
            self._complete()
        if name == self._app.theme:
            self._app.mutate_reactive(type(self._app).theme)
        else:
            self._app.theme = name
        self._styled = ""
        empty_caches()
        self._app.recolour()

    def recolor_for_terminal(self) -> None:
        """Apply the current theme again, because the terminal turned out to have other colors."""
        for theme in self._themes.values():
            self._app.register_theme(to_textual(self.in_terminal_colors(theme)))
        self.use(self._app.theme)

    def use_next(self) -> None:
        names = self.names
        at = names.index(self._app.theme) if self._app.theme in names else -1
        self.use(names[(at + 1) % len(names)])

    def keep(self, name: str) -> None:
        """Store this theme for the next start. Raises UserError."""
        path = Path(config_dir()) / "theme"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(f"{name}\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror}", "Check its permissions") from error


def is_ours(theme: ThemeFile) -> bool:
    """Return whether the theme was made for this app, and not for many programs."""
    return theme.name.startswith(OWN_PREFIX)


def _kept_name() -> str:
    try:
        with (Path(config_dir()) / "theme").open("rb") as file:
            return file.read(MAX_NAME_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _own_folder() -> Path:
    return Path(config_dir()) / "themes"


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml"))


def _read(before: Mapping[Path, _Kept]) -> dict[Path, tuple[_Kept, str]]:
    """Return every theme file with its content, and a message if it has changed and cannot be used.

    The user's files come last.
    """
    return _read_files([*_files(shipped_folder()), *_files(_own_folder())], before)


def _read_files(paths: Iterable[Path], before: Mapping[Path, _Kept]) -> dict[Path, tuple[_Kept, str]]:
    found: dict[Path, tuple[_Kept, str]] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # the file was just removed
            continue
        old = before.get(path)
        stamp = (status.st_mtime_ns, status.st_size)
        if old is not None and old.stamp == stamp:
            found[path] = (old, "")
            continue
        try:
            found[path] = (_Kept(stamp, load_theme(path)), "")
        except UserError as error:
            found[path] = (_Kept(stamp, old.theme if old is not None else None), error.message)
    return found
