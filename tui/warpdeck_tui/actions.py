"""The one table of what can be done: id, keys, words for the palette and the help, and where it applies.

Bindings, the palette, the help page and the key line are made from it. Keys mean one thing in one place; "app" counts
everywhere. Whoever likes other keys writes them into keys.toml in the configuration folder, by place and id:

    [queue]
    cancel = "x"
    [app]
    show_nodes = "2,f2"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from textual.binding import Binding

from warpdeck.errors import UserError


class Action(NamedTuple):
    """`where`: app, queue, nodes, job or history. `short` stands in the key line ("" keeps it out of it).

    `changes` marks what --readonly switches off.
    """

    where: str
    id: str
    keys: str
    title: str
    help: str
    short: str = ""
    changes: bool = False


PLACES = {
    "queue": "Queue",
    "nodes": "Nodes and GPUs",
    "job": "Job",
    "history": "History",
    "app": "Everywhere",
}
_CHANGES = True

ACTIONS = (
    Action("app", "show_queue", "1", "Queue", "the waiting and running jobs"),
    Action("app", "show_nodes", "2", "Nodes", "nodes and GPUs, live"),
    Action("app", "show_job", "3", "Job", "the job under the cursor, or the last one looked at"),
    Action("app", "show_history", "4", "History", "jobs that have ended"),
    Action("app", "new_job", "n", "New job", "submit a script", "New", _CHANGES),
    Action(
        "app",
        "shell",
        "i",
        "Interactive shell",
        "a shell on a GPU, or on a CPU where there is none",
        "Shell",
        _CHANGES,
    ),
    Action("app", "next_theme", "t", "Next theme", "other colours"),
    Action("app", "start_controller", "ctrl+r", "Start the controller", "if it was stopped", "", _CHANGES),
    Action("app", "help", "question_mark", "Help", "the keys of this screen", "Help"),
    Action("app", "command_palette", "colon", "Palette", "find an action by its name; ctrl+p too", "Palette"),
    Action("app", "quit", "q", "Quit", "leave the app; jobs go on", "Quit"),
    Action("queue", "log", "l", "Log", "the job's page, at its log", "Log"),
    Action("queue", "everybody", "u", "Mine or everybody's", "my jobs only, or all", "Mine/all"),
    Action("queue", "filter", "slash", "Filter", "words, user:bob, state:R, gpu>4, !word", "Filter"),
    Action("queue", "mark", "space", "Mark", "mark the job; the verbs then mean all that are marked"),
    Action("queue", "clear", "escape", "Clear", "take away marks, then the filter"),
    Action("queue", "cancel", "c", "Cancel", "end the job", "Cancel", _CHANGES),
    Action("queue", "hold", "H", "Hold", "keep the job from starting", "Hold", _CHANGES),
    Action("queue", "release", "U", "Release", "let a held job start", "Release", _CHANGES),
    Action("queue", "requeue", "R", "Requeue", "end the job and put it back", "Requeue", _CHANGES),
    Action("queue", "attach", "a", "Attach", "the terminal of an interactive job", "Attach", _CHANGES),
    Action("queue", "copy", "y", "Copy id", "the job's id to the clipboard"),
    Action("nodes", "metric", "m", "Metric", "utilisation, memory, power, temperature, owner", "Metric"),
    Action("nodes", "map_or_list", "v", "Map or list", "GPUs as a map, or nodes as a list", "Map/list"),
    Action("nodes", "holder", "enter", "Open job", "the job that holds the GPU under the cursor"),
    Action(
        "nodes", "drain", "d", "Drain or resume", "take no new jobs, or take them again", "Drain", _CHANGES
    ),
    Action("nodes", "add", "A", "Add node", "a machine, over SSH", "Add", _CHANGES),
    Action(
        "nodes", "remove", "X", "Remove node", "forget the node; refused while jobs run there", "", _CHANGES
    ),
    Action("nodes", "copy", "y", "Copy name", "the node's name to the clipboard"),
    Action("nodes", "back", "escape", "Back", "to the queue"),
    Action("job", "back", "escape", "Back", "to where you came from"),
    Action("job", "next_pane", "tab", "Next pane", "log, details, GPUs, code, events", "Pane"),
    Action("job", "previous_pane", "shift+tab", "Previous pane", "the same, backwards"),
    Action("job", "log", "l", "Log", "what the job writes"),
    Action("job", "stream", "o", "stdout or stderr", "the other output", "Stderr"),
    Action("job", "details", "d", "Details", "all facts and the script"),
    Action("job", "gpus", "p", "GPUs", "the job's GPUs"),
    Action("job", "code", "s", "Code", "the snapshot that it runs"),
    Action("job", "events", "e", "Events", "the job's history"),
    Action(
        "job", "diff", "D", "Diff with now", "what has changed in the folder since it was submitted", "Diff"
    ),
    Action("job", "diff_job", "equals_sign", "Diff with a job", "how its code differs from another job's"),
    Action("job", "cancel", "c", "Cancel", "end the job", "Cancel", _CHANGES),
    Action("job", "hold", "H", "Hold", "keep the job from starting", "Hold", _CHANGES),
    Action("job", "release", "U", "Release", "let a held job start", "Release", _CHANGES),
    Action("job", "requeue", "R", "Requeue", "end the job and put it back", "Requeue", _CHANGES),
    Action("job", "attach", "a", "Attach", "the terminal of an interactive job", "Attach", _CHANGES),
    Action("job", "copy", "y", "Copy id", "the job's id to the clipboard"),
    Action("history", "everybody", "u", "Mine or everybody's", "my jobs only, or all", "Mine/all"),
    Action("history", "filter", "slash", "Filter", "words, user:bob, state:F, gpu>4, !word", "Filter"),
    Action("history", "log", "l", "Log", "the job's page, at its log", "Log"),
    Action("history", "requeue", "R", "Requeue", "put the job back into the queue", "Requeue", _CHANGES),
    Action("history", "copy", "y", "Copy id", "the job's id to the clipboard"),
    Action("history", "clear", "escape", "Back", "take away the filter; then to the queue"),
)
CHANGING = {(action.where, action.id) for action in ACTIONS if action.changes}
_KEY_WORDS = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "escape": "Esc",
    "equals_sign": "=",
    "shift+tab": "S-Tab",
    "tab": "Tab",
    "enter": "Enter",
    "space": "Space",
}


def key_words(keys: str) -> str:
    """Keys as the help prints them: "?", "Tab"."""
    return " ".join(_KEY_WORDS.get(key, key) for key in keys.split(","))


def bindings(where: str) -> list[Binding]:
    """A place's bindings for Textual. Their ids are what `keymap` overrides."""
    return [
        Binding(
            action.keys,
            action.id,
            action.short or action.title,
            id=f"{action.where}.{action.id}",
        )
        for action in ACTIONS
        if action.where == where
    ]


def actions_at(where: str) -> list[Action]:
    """What can be done in a place, the place's own first."""
    return [
        *(action for action in ACTIONS if action.where == where),
        *(action for action in ACTIONS if action.where == "app"),
    ]


def keys_of(action: Action, keymap: Mapping[str, str]) -> str:
    """The action's keys, as the user has them."""
    return keymap.get(f"{action.where}.{action.id}", action.keys)


class KeyHint(NamedTuple):
    """A key that works now; `command` is what a click on it runs."""

    key: str
    words: str
    command: str


def key_line(actions: Iterable[Action], keymap: Mapping[str, str], width: int) -> list[KeyHint]:
    """The key line: what fits into `width` columns. Help and Quit stay, the last of the others go first."""
    hints = [
        KeyHint(
            key_words(keys_of(action, keymap).split(",", 1)[0]),
            action.short,
            f"{'app' if action.where == 'app' else 'screen'}.{action.id}",
        )
        for action in actions
        if action.short
    ]
    while sum(len(hint.key) + len(hint.words) + 3 for hint in hints) > width + 2:
        spare = [hint for hint in hints if hint.command not in ("app.help", "app.quit")]
        if not spare:
            break
        hints.remove(spare[-1])
    return hints


def clashes(actions: Iterable[Action]) -> list[str]:
    """Keys that would mean two things in one place, in words."""
    found: list[str] = []
    table = list(actions)
    for place in PLACES:
        taken: dict[str, str] = {}
        for action in table:
            if action.where not in (place, "app"):
                continue
            for key in action.keys.split(","):
                other = taken.setdefault(key, action.id)
                if other != action.id:
                    found.append(f"{key_words(key)} means both {other} and {action.id} in {place}")
    return list(dict.fromkeys(found))


def help_lines(where: str, keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The help page as (keys, title, explanation); a line with only a title begins a place."""
    lines: list[tuple[str, str, str]] = []
    for place in dict.fromkeys((where, "app", *PLACES)):
        if place not in PLACES:
            continue
        lines += [("", PLACES[place], "")]
        for action in ACTIONS:
            if action.where == place:
                lines.append((key_words(keys_of(action, keymap)), action.title, action.help))
    return lines


def read_keymap(path: Path) -> dict[str, str]:
    """Binding id -> keys, from keys.toml; {} if there is none. Raises UserError naming the file and what is wrong."""
    try:
        chosen = msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, str]])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except msgspec.DecodeError as error:
        raise UserError(
            f"{path} cannot be used: {error}", 'write [queue] and below it cancel = "x"'
        ) from error
    keymap = {f"{place}.{name}": keys for place, names in chosen.items() for name, keys in names.items()}
    known = {f"{action.where}.{action.id}" for action in ACTIONS}
    strange = sorted(set(keymap) - known)
    if strange:
        raise UserError(f"{path}: there is no action {strange[0]}", "see the help page (?) for what there is")
    remapped = [action._replace(keys=keys_of(action, keymap)) for action in ACTIONS]
    wrong = clashes(remapped)
    if wrong:
        raise UserError(f"{path}: {wrong[0]}", "choose another key")
    return keymap
