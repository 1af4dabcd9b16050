"""What is made of the table of actions: Textual's bindings, the key line, the dialogs' last lines, the help page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingType

from .actions import ACTIONS, MEETINGS, NO_KEY, PLACES, Action

_KEY_WORDS = {
    "question_mark": "?",
    "slash": "/",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "full_stop": ".",
    "colon": ":",
    "escape": "Esc",
    "equals_sign": "=",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "ampersand": "&",
    "plus": "+",
    "minus": "-",
    "at": "@",
    "shift+tab": "S-Tab",
    "tab": "Tab",
    "enter": "Enter",
    "space": "Space",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "home": "Home",
    "end": "End",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
}


def key_words(keys: str) -> str:
    """Keys as the help prints them: "?", "Tab", "^d"."""
    if keys == NO_KEY:
        return ""
    return " ".join(_KEY_WORDS.get(key, key).replace("ctrl+", "^") for key in keys.split(","))


def bindings(*places: str) -> list[BindingType]:
    """These places' bindings for Textual. Their ids are what `keymap` overrides."""
    return [
        Binding(
            action.keys,
            action.runs,
            action.short or action.title,
            id=f"{action.where}.{action.id}",
        )
        for action in ACTIONS
        if action.where in places
    ]


def actions_at(*places: str) -> list[Action]:
    """What can be done in these places, in their order."""
    return [action for place in places for action in ACTIONS if action.where == place]


def keys_of(action: Action, keymap: Mapping[str, str]) -> str:
    """The action's keys, as the user has them."""
    return keymap.get(f"{action.where}.{action.id}", action.keys)


def looks_only(where: str, action_id: str) -> str:
    """What --readonly says to the key of an action that changes something; "" of any other."""
    titles = {(action.where, action.id): action.title for action in ACTIONS if action.changes}
    title = titles.get((where, action_id), "")
    return f"{title} is switched off: the app was started with --readonly" if title else ""


class KeyHint(NamedTuple):
    """A key that works now; `command` is what a click on it runs."""

    key: str
    words: str
    command: str


TARGETS = {"app": "app"} | dict.fromkeys(("log", "grid", "list", "moves", "filter"), "focused")
"""Whose action it is, in Textual's words; of every other place the screen's."""


def key_line(actions: Iterable[Action], keymap: Mapping[str, str], width: int) -> list[KeyHint]:
    """The key line: what fits into `width` columns. Help and Quit stay, the last of the others go first."""
    hints = [
        KeyHint(
            key_words(keys_of(action, keymap).split(",", 1)[0]),
            action.short,
            command_of(action),
        )
        for action in actions
        if action.short
    ]
    while 1 + sum(len(hint.key) + len(hint.words) + 3 for hint in hints) > width + 2:
        spare = [hint for hint in hints if hint.command not in ("app.help", "app.quit")]
        if not spare:
            break
        hints.remove(spare[-1])
    return hints


def command_of(action: Action) -> str:
    """With the one whose it is, as a click and the palette need it."""
    named = "." in action.runs.partition("(")[0]
    return action.runs if named else f"{TARGETS.get(action.where, 'screen')}.{action.runs}"


def dialog_keys(place: str, keymap: Mapping[str, str], *, opens: str = "") -> list[KeyHint]:
    """A dialog's keys for its last line: "Enter submits", "Esc goes back". `opens`: what the key does that opens a list's row."""
    shown = [(action, action.short) for action in actions_at(place) if action.short]
    if opens:
        shown = [(action, opens) for action in actions_at("list") if action.id == "select"] + shown
    return [
        KeyHint(key_words(keys_of(action, keymap).split(",", 1)[0]), words, command_of(action))
        for action, words in shown
    ]


def clashes(actions: Iterable[Action]) -> list[str]:
    """Keys that would mean two things where places meet, in words."""
    found: dict[tuple[str, str, str], str] = {}
    table = list(actions)
    for meeting in MEETINGS:
        taken: dict[str, Action] = {}
        for action in table:
            if action.where not in meeting:
                continue
            for key in set(action.keys.split(",")) - {NO_KEY}:
                other = taken.setdefault(key, action)
                if other.runs != action.runs or other.where != action.where:
                    words = f"{key_words(key)} means both {other.id} and {action.id} in {meeting[0]}"
                    found.setdefault((key, other.id, meeting[0]), words)
    return list(found.values())


def help_lines(where: Iterable[str], keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The help page as (keys, title, explanation), these places first; a line with only a title begins a place."""
    lines: list[tuple[str, str, str]] = []
    for place in dict.fromkeys((*where, "app", "moves", *PLACES)):
        lines += [("", PLACES[place], "")]
        for action in actions_at(place):
            lines.append((key_words(keys_of(action, keymap)), action.title, action.help))
    return lines
