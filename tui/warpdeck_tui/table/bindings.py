"""Pure functions that turn the table of actions into key bindings and help texts.

They produce Textual bindings, the key line, and the last lines of the dialogs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingType

from .actions import ACTIONS, MEETINGS, NO_KEY, Action

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
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "ampersand": "&",
    "plus": "+",
    "minus": "-",
    "at": "@",
    "tilde": "~",
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
    """Return the keys as the help prints them, such as "?", "Tab" or "^d"."""
    if keys == NO_KEY:
        return ""
    return " ".join(_KEY_WORDS.get(key, key).replace("ctrl+", "^") for key in keys.split(","))


def bindings(*places: str) -> list[BindingType]:
    """Return the Textual bindings of these contexts. `keymap` overrides them by their ids."""
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
    """Return the actions of these contexts, in the given order of contexts."""
    return [action for place in places for action in ACTIONS if action.where == place]


def keys_of(action: Action, keymap: Mapping[str, str]) -> str:
    """Return the keys of the action, with the user's own key bindings applied."""
    return keymap.get(f"{action.where}.{action.id}", action.keys)


def looks_only(where: str, action_id: str) -> str:
    """Return the message for an action that --readonly switches off, or "" if the action changes nothing."""
    titles = {(action.where, action.id): action.title for action in ACTIONS if action.changes}
    title = titles.get((where, action_id), "")
    return f"{title} is disabled: the app was started with --readonly" if title else ""


class KeyHint(NamedTuple):
    """A key, its label, and the Textual action `command` that a click on it runs.

    If the scheduler cannot do the action, `is_possible` is false. The key then only shows the reason.
    """

    key: str
    words: str
    command: str
    is_possible: bool = True


TARGETS = {"app": "app"} | dict.fromkeys(("log", "grid", "list", "moves", "filter"), "focused")
"""Maps a context to the Textual namespace of its actions. The actions of all other contexts belong to the
screen.
"""


def key_line(
    actions: Iterable[Action], keymap: Mapping[str, str], width: int, *, impossible: Collection[Action] = ()
) -> list[KeyHint]:
    """Return the hints of the key line that fit into `width` columns.

    If there is too little space, the last hints are dropped first: those of actions that the scheduler cannot do, then the
    others. Help and Quit are never dropped.
    """
    hints = [
        KeyHint(
            key_words(keys_of(action, keymap).split(",", 1)[0]),
            action.short,
            command_of(action),
            action not in impossible,
        )
        for action in actions
        if action.short
    ]
    while 1 + sum(len(hint.key) + len(hint.words) + 3 for hint in hints) > width + 2:
        spare = [hint for hint in hints if hint.command not in ("app.help", "app.quit")]
        if not spare:
            break
        hints.remove(next((hint for hint in reversed(spare) if not hint.is_possible), spare[-1]))
    return hints


def command_of(action: Action) -> str:
    """Return the action with its Textual namespace, as a click or the palette needs it."""
    named = "." in action.runs.partition("(")[0]
    return action.runs if named else f"{TARGETS.get(action.where, 'screen')}.{action.runs}"


def dialog_keys(places: Iterable[str], keymap: Mapping[str, str], *, opens: str = "") -> list[KeyHint]:
    """Return the key hints for the last line of a dialog with these contexts, such as "Enter Submit" and "Esc Cancel".

    If `opens` is given, it describes the effect of the key that opens a row of a list, and this hint is added
    in front.
    """
    shown = [(action, action.short) for action in actions_at(*places) if action.short]
    if opens:
        shown = [(action, opens) for action in actions_at("list") if action.id == "select"] + shown
    return [
        KeyHint(key_words(keys_of(action, keymap).split(",", 1)[0]), words, command_of(action))
        for action, words in shown
    ]


def clashes(actions: Iterable[Action]) -> list[str]:
    """Return a message for each key that would have two meanings in contexts active at the same time."""
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
