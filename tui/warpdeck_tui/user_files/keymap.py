"""The user's own key bindings: keys.toml in the configuration folder, on top of a preset.

    preset = "k9s"

    [queue]
    cancel = "x"
    mark = ""

    [app]
    show_nodes = "2,f2"

Contexts and ids are those of the table of actions. Keys are written with Textual's names or as the character
itself ("?"), and separated by commas ("comma" is the comma itself). An empty string removes the action's key,
but the palette still finds the action. A preset only changes the keys that it names. If the file has a
mistake, the whole file is ignored and one message describes the mistake.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from warpdeck.base.errors import UserError
from warpdeck_tui.table.actions import ACTIONS, NO_KEY, PLACES
from warpdeck_tui.table.bindings import clashes, key_words, keys_of
from warpdeck_tui.terminal.textual_private import key_name

KEYS_FILE = "keys.toml"
MAX_KEYS_BYTES = 64 * 1024
"""Largest size of the file. A keymap takes about 1 kB, so a larger file is there by mistake."""
DEFAULT_PRESET = "warpdeck"
PRESETS: dict[str, dict[str, str]] = {
    DEFAULT_PRESET: {},
    "vim": {
        "moves.page_down": "ctrl+f,pagedown",
        "moves.page_up": "ctrl+b,pageup",
    },
    "k9s": {
        "app.command_palette": "colon,ctrl+p,ctrl+a",
        "app.shell": "s,i",
        "app.show_overview": "ctrl+o",
        "job.code": "S",
        "queue.sort": "O",
        "history.sort": "O",
        "runs.sort": "O",
        "queue.everybody": "0,u",
        "history.everybody": "0,u",
        "queue.cancel": "ctrl+k,c",
        "job.cancel": "ctrl+k,c",
        "moves.page_down": "ctrl+f,pagedown",
        "moves.page_up": "ctrl+b,pageup",
    },
    "less": {
        "log.page_down": "space,f",
        "log.page_up": "b",
        "log.follow": "F",
    },
}
"""Sets of key bindings as in other programs. Each preset lists the actions whose keys differ from the
default.
"""
_MODIFIERS = ("ctrl+", "shift+", "alt+", "super+")
_NAMED = {key.value for key in Keys} | set(KEY_NAME_REPLACEMENTS.values())


class Keymap(NamedTuple):
    """Key bindings.

    `keys` maps binding ids to keys that differ from the default; `preset` is the name of the preset.
    """

    keys: dict[str, str]
    preset: str


NO_KEYMAP = Keymap({}, DEFAULT_PRESET)


def read_keymap(path: Path) -> Keymap:
    """Return the key bindings of the file, on top of its preset, or NO_KEYMAP if there is no file.

    Raises UserError that names the file and the mistake.
    """
    try:
        text = _read(path)
        chosen = msgspec.toml.decode(text, type=dict[str, str | dict[str, str]])
    except FileNotFoundError:
        return NO_KEYMAP
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}", "Check its permissions") from error
    except ValueError as error:  # errors of msgspec are ValueErrors
        raise UserError(f"Cannot use {path}: {error}", 'Write [queue] and, below it, cancel = "x"') from error
    try:
        return _keymap(chosen)
    except UserError as error:
        raise UserError(f"{path}: {error.message}", error.hint) from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        text = file.read(MAX_KEYS_BYTES + 1)
    if len(text) > MAX_KEYS_BYTES:
        raise ValueError(f"larger than {MAX_KEYS_BYTES // 1024} KiB")
    return text


def _keymap(chosen: Mapping[str, str | Mapping[str, str]]) -> Keymap:
    preset = DEFAULT_PRESET
    own: dict[str, str] = {}
    for name, value in chosen.items():
        if not isinstance(value, str):
            own |= {_known(name, action): _keys(keys) for action, keys in value.items()}
        elif name != "preset":
            raise UserError(
                f"{name} is not in a section", f'Write a section such as [queue] above {name} = "{value}"'
            )
        elif value not in PRESETS:
            raise UserError(f"No such preset: {value}", f"Use one of {', '.join(PRESETS)}")
        else:
            preset = value
    keys = PRESETS[preset] | own
    wrong = clashes(action._replace(keys=keys_of(action, keys)) for action in ACTIONS)
    if wrong:
        raise UserError(wrong[0], "Choose another key")
    return Keymap(keys, preset)


def _known(place: str, name: str) -> str:
    """Return the binding id. Raises UserError with a similar name if there is no such action."""
    if place not in PLACES:
        raise UserError(f"No such section: [{place}]", f"Use one of {', '.join(PLACES)}")
    there = [action.id for action in ACTIONS if action.where == place]
    if name in there:
        return f"{place}.{name}"
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"Did you mean {near[0]}?" if near else "Press K to list all actions"
    raise UserError(f"No such action: {place}.{name}", hint)


def _keys(text: str) -> str:
    """Return the keys in Textual's notation. Raises UserError that names a key which no terminal sends."""
    return ",".join(_key(word.strip()) for word in text.split(",")) if text.strip() else NO_KEY


def _key(word: str) -> str:
    bare = word
    while (modifier := next((each for each in _MODIFIERS if bare.startswith(each)), "")) and bare != modifier:
        bare = bare.removeprefix(modifier)
    if len(bare) == 1 and bare.isprintable() and bare != " ":
        return word[: -len(bare)] + key_name(bare)
    if bare in _NAMED or bare in _characters():
        return word
    raise UserError(f'No such key: "{word}"', 'Write keys like "x", "f2", "ctrl+x" or "pagedown"')


def _characters() -> set[str]:
    """Return Textual's names of the keys for printable ASCII characters."""
    return {key_name(chr(code)) for code in range(33, 127)} | {"space"}


def keymap_lines(keymap: Keymap, path: Path) -> list[tuple[str, str, str]]:
    """Return the page of key bindings as (keys, title, explanation).

    It shows the path of the file, and every id that the file may name. A key that differs from the default is
    followed by the default.
    """
    shown = [
        ("", f"{path}   preset {keymap.preset}", ""),
        (
            "",
            f'Example: preset = "vim" ({", ".join(PRESETS)}); below [queue]: cancel = "x"',
            "",
        ),
    ]
    for place, title in PLACES.items():
        shown.append(("", f"[{place}]   {title}", ""))
        for action in ACTIONS:
            if action.where == place:
                keys = keys_of(action, keymap.keys)
                before = f" (default: {key_words(action.keys)})" if keys != action.keys else ""
                shown.append((key_words(keys), action.id, f"{action.help}{before}"))
    return shown
