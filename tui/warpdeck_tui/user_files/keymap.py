"""The user's own keys: keys.toml in the configuration folder, on top of a preset.

    preset = "k9s"

    [queue]
    cancel = "x"
    mark = ""
    [app]
    show_nodes = "2,f2"

Places and ids are those of the table of actions; keys stand as Textual names them, or as the character itself ("?"), several
with commas between them ("comma" is the comma). "" takes an action's key away; the palette still finds it. A preset only moves
keys: what it does not name stays as it is. A file with a mistake counts not at all, and the mistake is one sentence.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key

from warpdeck.base.errors import UserError
from warpdeck_tui.table.actions import ACTIONS, NO_KEY, PLACES
from warpdeck_tui.table.bindings import clashes, key_words, keys_of

KEYS_FILE = "keys.toml"
MAX_KEYS_BYTES = 64 * 1024
"""A keymap is 1 kB; a larger file is something else by mistake."""
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
        "job.code": "S",
        "queue.sort": "O",
        "history.sort": "O",
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
"""The keys of people's hands: what each moves."""
_MODIFIERS = ("ctrl+", "shift+", "alt+", "super+")
_NAMED = {key.value for key in Keys} | set(KEY_NAME_REPLACEMENTS.values())


class Keymap(NamedTuple):
    """`keys`: binding id -> keys, what differs from the table. `preset`: its name."""

    keys: dict[str, str]
    preset: str


NO_KEYMAP = Keymap({}, DEFAULT_PRESET)


def read_keymap(path: Path) -> Keymap:
    """The file's keys on its preset; NO_KEYMAP if there is no file. Raises UserError naming the file and what is wrong."""
    try:
        text = _read(path)
        chosen = msgspec.toml.decode(text, type=dict[str, str | dict[str, str]])
    except FileNotFoundError:
        return NO_KEYMAP
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise UserError(
            f"{path} cannot be used: {error}", 'write [queue] and below it cancel = "x"'
        ) from error
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
            raise UserError(f"{name} stands in no place", f'write [queue] above {name} = "{value}"')
        elif value not in PRESETS:
            raise UserError(f"there is no preset {value}", f"there are {', '.join(PRESETS)}")
        else:
            preset = value
    keys = PRESETS[preset] | own
    wrong = clashes(action._replace(keys=keys_of(action, keys)) for action in ACTIONS)
    if wrong:
        raise UserError(wrong[0], "choose another key")
    return Keymap(keys, preset)


def _known(place: str, name: str) -> str:
    """The binding's id. Raises UserError with what comes nearest."""
    if place not in PLACES:
        raise UserError(f"there is no place [{place}]", f"there are {', '.join(PLACES)}")
    there = [action.id for action in ACTIONS if action.where == place]
    if name in there:
        return f"{place}.{name}"
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"did you mean {near[0]}?" if near else "K shows the names of all actions"
    raise UserError(f"there is no action {place}.{name}", hint)


def _keys(text: str) -> str:
    """Keys as Textual has them. Raises UserError naming the one that no terminal sends."""
    return ",".join(_key(word.strip()) for word in text.split(",")) if text.strip() else NO_KEY


def _key(word: str) -> str:
    bare = word
    while (modifier := next((each for each in _MODIFIERS if bare.startswith(each)), "")) and bare != modifier:
        bare = bare.removeprefix(modifier)
    if len(bare) == 1 and bare.isprintable() and bare != " ":
        return word[: -len(bare)] + _character_to_key(bare)
    if bare in _NAMED or bare in _characters():
        return word
    raise UserError(f'there is no key "{word}"', 'keys are written like "x", "f2", "ctrl+x" or "pagedown"')


def _characters() -> set[str]:
    """What Textual calls the keys of ASCII's signs."""
    return {_character_to_key(chr(code)) for code in range(33, 127)} | {"space"}


def keymap_lines(keymap: Keymap, path: Path) -> list[tuple[str, str, str]]:
    """The page of `:keys` as (keys, title, explanation): where the file is, and every id that it may name.

    A key that differs from the table's is followed by that one.
    """
    shown = [
        ("", f"{path}   preset {keymap.preset}", ""),
        (
            "",
            f'it says  preset = "vim"  (there are {", ".join(PRESETS)}) and, below  [queue]  cancel = "x"',
            "",
        ),
    ]
    for place, title in PLACES.items():
        shown.append(("", f"[{place}]   {title}", ""))
        for action in ACTIONS:
            if action.where == place:
                keys = keys_of(action, keymap.keys)
                before = f" (was {key_words(action.keys)})" if keys != action.keys else ""
                shown.append((key_words(keys), action.id, f"{action.help}{before}"))
    return shown
