"""The verbs that the palette understands, each with the kind of its object and its synonyms.

    cancel 77      kill 77       the action on the jobs that match the rest
    why 12         tail llama    a part of the job's page
    drain gpu03    resume gpu03  the action on the nodes that match the rest
    theme nord     dark          the themes, or only the dark ones
    filter gpu>4   sort util     the list of jobs, filtered or sorted
    at 03:12                     the map of GPUs at a past time

A verb may be shortened as long as it is unique (`can llm`). A verb without an object finds the objects to which it
applies. `ACTION_SYNONYMS` are further words by which the actions of the screens are found.
"""

from __future__ import annotations

from typing import NamedTuple

JOB, NODE, THEME, TEXT = "job", "node", "theme", "text"
MIN_PREFIX = 2
"""Least number of letters of a shortened verb with an object."""
MIN_BARE = 3
"""Least number of letters of a shortened verb without an object, because other words begin with these letters, too."""


class Verb(NamedTuple):
    """A verb of the palette. `title` is the text of a result, with the object's name in place of {}."""

    name: str
    kind: str
    title: str
    synonyms: tuple[str, ...] = ()


VERBS = (
    Verb("cancel", JOB, "Cancel job {}", ("kill", "scancel", "stop", "delete")),
    Verb("hold", JOB, "Hold job {}"),
    Verb("release", JOB, "Release job {}", ("unhold",)),
    Verb("requeue", JOB, "Requeue job {}", ("restart",)),
    Verb("pause", JOB, "Pause job {}", ("checkpoint",)),
    Verb("limit", JOB, "Time limit of job {}", ("time", "extend")),
    Verb("priority", JOB, "Priority of job {}", ("nice", "renice")),
    Verb("attach", JOB, "Attach to job {}", ("join", "reattach")),
    Verb("log", JOB, "Log of job {}", ("tail", "output", "logs")),
    Verb("why", JOB, "Why: job {}", ("reason", "explain")),
    Verb("metrics", JOB, "Metrics of job {}", ("plot", "loss", "curve")),
    Verb("code", JOB, "Code of job {}", ("snapshot", "diff")),
    Verb("rerun", JOB, "Run job {} again", ("again", "resubmit")),
    Verb("copy", JOB, "Copy job {} to the form", ("edit", "clone")),
    Verb("drain", NODE, "Drain {}", ("down", "cordon")),
    Verb("resume", NODE, "Resume {}", ("up", "undrain", "uncordon")),
    Verb("theme", THEME, "Theme {}", ("colors", "colour")),
    Verb("dark", THEME, "Theme {}"),
    Verb("light", THEME, "Theme {}"),
    Verb("filter", TEXT, "Filter the queue: {}", ("find", "search", "grep")),
    Verb("sort", TEXT, "Sort the queue by {}", ("order",)),
    Verb("at", TEXT, "GPU map at {}", ("goto",)),
)
BY_NAME = {verb.name: verb for verb in VERBS}
VIEWS = ("log", "why", "metrics", "code", "rerun", "copy")
"""Verbs that also apply to jobs that are no longer in the queue."""
PANES = {"log": "log", "why": "details", "metrics": "metrics", "code": "code"}
"""Maps a verb that opens the job's page to the pane of the page."""

ACTION_SYNONYMS: dict[tuple[str, str], str] = {
    ("app", "quit"): "exit bye leave",
    ("app", "help"): "keys shortcuts manual",
    ("app", "show_overview"): "dashboard summary home",
    ("app", "show_queue"): "jobs squeue list ls",
    ("app", "show_nodes"): "gpus sinfo map machines nvidia-smi",
    ("app", "show_history"): "sacct past ended finished",
    ("app", "show_sessions"): "terminals ports notebooks forwards",
    ("app", "show_admin"): "events partitions qos accounts reservations priorities sprio sshare",
    ("app", "shell"): "srun salloc bash terminal",
    ("app", "pick_theme"): "dark light colors appearance",
    ("app", "undo"): "revert back",
    ("app", "done"): "changes actions",
    ("queue", "new_job"): "submit sbatch run",
    ("nodes", "new_job"): "submit sbatch run",
    ("queue", "cancel"): "kill scancel stop delete",
    ("job", "cancel"): "kill scancel stop delete",
    ("sessions", "cancel"): "kill scancel stop cancel",
    ("queue", "requeue"): "restart",
    ("queue", "log"): "tail output",
    ("queue", "again"): "rerun resubmit repeat",
    ("queue", "priority"): "nice renice",
    ("queue", "limit"): "extend",
    ("queue", "filter"): "search find grep",
    ("queue", "sort"): "order",
    ("nodes", "drain"): "down cordon up",
    ("node", "drain"): "down cordon up",
    ("nodes", "idle"): "wasted unused",
    ("nodes", "at"): "time travel past",
}
"""Further words by which an action is found, by context and id."""


def verb_of(query: str) -> tuple[str, str]:
    """Return (verb, object) of a query such as "hold 12" or "can llm". The object is "" if only the verb was typed.

    Returns ("", query) if the query begins with no verb, or if the shortened verb may be one of several.
    """
    first, _, rest = query.strip().partition(" ")
    name = _verb(first.lower(), least=MIN_PREFIX if rest.strip() else MIN_BARE)
    return (name, rest.strip()) if name else ("", query)


def _verb(word: str, *, least: int) -> str:
    """Return the name of the verb that is this word, or the only one that begins with it, or ""."""
    for verb in VERBS:
        if word == verb.name or word in verb.synonyms:
            return verb.name
    if len(word) < least:
        return ""
    names = {verb.name for verb in VERBS if verb.name.startswith(word)}
    names = names or {
        verb.name
        for verb in VERBS
        for synonym in verb.synonyms
        if synonym.startswith(word) and len(word) >= MIN_BARE
    }
    return names.pop() if len(names) == 1 else ""
