"""The one table of what can be done: id, key, words for the palette and the help, and where it applies."""

from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """`where`: app, queue, gpus or job. Keys mean one thing in one place; "app" counts everywhere."""

    id: str
    key: str
    title: str
    help: str
    where: str


ACTIONS = (
    Action("show_queue", "1", "Queue", "the jobs", "app"),
    Action("show_gpus", "2", "GPUs", "the nodes and their GPUs", "app"),
    Action("new_job", "n", "New job", "submit a script", "app"),
    Action("shell", "i", "Interactive shell", "a shell on a GPU, or on a CPU where there is none", "app"),
    Action("next_theme", "t", "Next theme", "change the colours", "app"),
    Action("help", "question_mark", "Help", "the keys", "app"),
    Action("command_palette", "colon", "Palette", "find an action by name (ctrl+p too)", "app"),
    Action("quit", "q", "Quit", "leave; jobs go on", "app"),
    Action("everybody", "u", "Mine or everybody's", "my jobs only, or all", "queue"),
    Action("filter", "slash", "Filter", "narrow the queue to words", "queue"),
    Action("cancel", "c", "Cancel", "end the job", "queue"),
    Action("hold", "H", "Hold", "keep the job from starting", "queue"),
    Action("release", "U", "Release", "let a held job start", "queue"),
    Action("requeue", "R", "Requeue", "end the job and put it back", "queue"),
    Action("attach", "a", "Attach", "join the terminal of an interactive job", "queue"),
    Action("metric", "m", "Metric", "utilisation, memory, power, temperature, owner", "gpus"),
    Action("drain", "d", "Drain or resume", "take no new jobs, or take them again", "gpus"),
    Action("back", "escape", "Back", "to the queue", "job"),
    Action("cancel", "c", "Cancel", "end the job", "job"),
    Action("stream", "o", "stdout or stderr", "the other output", "job"),
    Action("facts", "d", "Details", "details, code and history beside the log", "job"),
    Action("diff", "D", "Code diff", "what has changed since it was submitted", "job"),
    Action("attach", "a", "Attach", "join the terminal of an interactive job", "job"),
)


def bindings(where: str) -> list[tuple[str, str, str]]:
    """(key, action, title) for Textual."""
    return [(action.key, action.id, action.title) for action in ACTIONS if action.where == where]


def help_lines() -> list[str]:
    """The help page."""
    names = {"question_mark": "?", "slash": "/", "colon": ":", "escape": "Esc"}
    lines = ["Move with j k g G, arrows and pages; Enter opens, Esc goes back.", ""]
    for where, title in (("app", "Everywhere"), ("queue", "Queue"), ("gpus", "GPUs"), ("job", "Job")):
        lines.append(title)
        lines += [
            f"  {names.get(action.key, action.key):<4} {action.title:<20} {action.help}"
            for action in ACTIONS
            if action.where == where
        ]
    return lines
