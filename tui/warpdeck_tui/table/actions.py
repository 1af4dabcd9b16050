"""The table of all actions: id, keys, texts for the palette and the help, and the context of each.

Bindings, palette, help page, key line and the last lines of the dialogs are generated from this table (see
`bindings`). A context (`PLACES`) is a screen, a dialog, or a part of a screen that can have the focus.
Contexts that are active at the same time (`MEETINGS`) never give two meanings to one key. In a text field
(filter, search, form) every key is typed as text, except the keys of the field's own context. Users can
choose other keys (see `keymap`).
"""

from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """One action of the user interface.

    `where` is a context of PLACES. `short` is the label in the key line; "" keeps the action out of it.
    `changes` marks the actions that --readonly switches off. `call` is the Textual action to run if its name
    differs from `id`.
    """

    where: str
    id: str
    keys: str
    title: str
    help: str
    short: str = ""
    changes: bool = False
    call: str = ""

    @property
    def runs(self) -> str:
        """The Textual action that is run."""
        return self.call or self.id


PLACES = {
    "queue": "Queue",
    "nodes": "Nodes and GPUs",
    "node": "Node",
    "job": "Job",
    "history": "History",
    "sessions": "Sessions",
    "admin": "Site",
    "app": "Everywhere",
    "log": "Logs, code and diffs",
    "grid": "Map of GPUs",
    "list": "Lists",
    "moves": "Moving",
    "filter": "Filter line",
    "confirm": "Question",
    "ask": "Question with an answer",
    "form": "New job",
    "script": "Script of a new job",
    "sweep": "Grid of a sweep",
    "add": "Add a node",
    "reserve": "Reservation",
    "rule": "QoS or partition",
    "choose": "Choice of a job",
    "fill": "Presets and jobs",
    "done": "What was done",
    "page": "Help, and texts to read",
    "usage": "Usage of ended jobs",
}
MEETINGS = (
    ("queue", "list", "moves", "app"),
    ("history", "list", "moves", "app"),
    ("sessions", "list", "moves", "app"),
    ("admin", "list", "moves", "app"),
    ("nodes", "grid", "moves", "app"),
    ("nodes", "list", "moves", "app"),
    ("node", "moves", "app"),
    ("job", "log", "moves", "app"),
    ("job", "list", "moves", "app"),
    ("choose", "list", "moves"),
    ("fill", "list", "moves"),
    ("done", "list", "moves"),
    ("page", "log", "moves"),
    ("usage", "log", "moves"),
    ("filter",),
    ("confirm",),
    ("ask",),
    ("form",),
    ("sweep",),
    ("script",),
    ("add",),
    ("reserve",),
    ("rule",),
)
"""Sets of contexts whose keys are active at the same time."""
NO_KEY = "no_key"
"""Key name for an action whose key the user removed. No terminal sends it."""
_CHANGES = True

ACTIONS = (
    Action("app", "show_queue", "1", "Queue", "the waiting and running jobs"),
    Action("app", "show_nodes", "2", "Nodes", "nodes and GPUs, live"),
    Action("app", "show_job", "3", "Job", "the job under the cursor, or the last one looked at"),
    Action("app", "show_history", "4", "History", "jobs that have ended"),
    Action("app", "show_sessions", "5", "Sessions", "shells on the cluster, and forwarded ports"),
    Action(
        "app", "show_admin", "6", "Site", "partitions, reservations, QoS, shares, drains, events, what-if"
    ),
    Action(
        "app",
        "shell",
        "i",
        "Interactive shell",
        "with what the last one had; at first a GPU",
        "Shell",
        _CHANGES,
    ),
    Action("app", "next_theme", "t", "Next theme", "other colours"),
    Action("app", "pick_theme", "T", "Themes", "choose one by its looks, and keep it"),
    Action("app", "start_controller", "ctrl+r", "Start controller", "if it was stopped", "", _CHANGES),
    Action(
        "app", "timing", "ctrl+t", "Time of keys", "in the head line: how long the last one took to be seen"
    ),
    Action("app", "mouse", "M", "Mouse", "the app's, or the terminal's own, to select and copy"),
    Action("app", "suspend_process", "ctrl+z", "To the shell", "the app stops; fg goes on with it"),
    Action("app", "redraw", "ctrl+l", "Draw anew", "everything: something else has written to the terminal"),
    Action("app", "help", "question_mark", "Help", "the keys of this screen", "Help"),
    Action("app", "done", "at", "What was done", "every change with its command line"),
    Action(
        "app",
        "undo",
        "Z",
        "Undo",
        "take back the last hold, drain or change of a job, a reservation or the rules",
        "",
        _CHANGES,
    ),
    Action("app", "keys", "K", "Keys", "the names of all actions, and how to give them other keys"),
    Action(
        "app",
        "command_palette",
        "colon,ctrl+p",
        "Palette",
        "find an action, a job, a node or a user by a few letters",
        "Palette",
    ),
    Action("app", "quit", "q", "Quit", "leave the app; jobs go on", "Quit"),
    Action("queue", "log", "l", "Log", "the job's page, at its log", "Log"),
    Action("queue", "everybody", "u", "Mine or all", "my jobs only, or everybody's", "Mine/all"),
    Action("queue", "new_job", "n", "New job", "submit a script", "New", _CHANGES),
    Action("queue", "new_like", "ctrl+n", "New like this", "the form, filled from this job", "", _CHANGES),
    Action(
        "queue",
        "again",
        "A",
        "Run again",
        "as it was: script, options and the code of its snapshot",
        "",
        _CHANGES,
    ),
    Action(
        "queue",
        "filter",
        "slash",
        "Filter",
        "words, user:me, state:F, gpu>4, name~llm, lr=0.1, !word",
        "Filter",
    ),
    Action("queue", "sort", "s", "Sort", "by the next column; a click on a title sorts too"),
    Action("queue", "reverse", "S", "Turn round", "the order, where a column gives it"),
    Action("queue", "fold", "z", "Open or fold", "an array's tasks below its line, or all in one", "Tasks"),
    Action("queue", "columns", "C", "Columns", "which, and in which order"),
    Action("queue", "next_view", "w", "Next view", "of the saved ones, then the usual one"),
    Action("queue", "save_view", "W", "Save view", "filter, whose jobs, order and columns, under a name"),
    Action("queue", "mark", "space", "Mark", "the verbs then mean all that are marked"),
    Action("queue", "mark_all", "V", "Mark all", "every line that is listed; once more takes the marks away"),
    Action("queue", "clear", "escape", "Clear", "take away marks, then the filter"),
    Action("queue", "cancel", "c", "Cancel", "end the job", "Cancel", _CHANGES),
    Action("queue", "hold", "H", "Hold", "keep the job from starting", "Hold", _CHANGES),
    Action("queue", "release", "U", "Release", "let a held job start", "Release", _CHANGES),
    Action("queue", "requeue", "R", "Requeue", "end the job and put it back", "Requeue", _CHANGES),
    Action("queue", "limit", "L", "Time limit", "another one, or more of it: +2:00:00", "", _CHANGES),
    Action("queue", "priority", "P", "Priority", "nice, or a number in its place", "", _CHANGES),
    Action("queue", "attach", "a", "Attach", "the terminal of an interactive job", "Attach", _CHANGES),
    Action("queue", "copy", "y", "Copy id", "the job's id to the clipboard"),
    Action(
        "queue", "copy_command", "Y", "Copy command", "the command line that shows the job, to the clipboard"
    ),
    Action(
        "sessions", "attach", "a", "Attach", "its terminal is yours; Enter ~d leaves it", "Attach", _CHANGES
    ),
    Action("sessions", "watch", "w", "Watch", "its terminal, to look at only; q leaves it", "Watch"),
    Action("sessions", "cancel", "c", "End", "end the session", "End", _CHANGES),
    Action("sessions", "end_forward", "X", "End forward", "the port is forwarded no more", "", _CHANGES),
    Action("sessions", "copy", "y", "Copy", "the session's id, or the port's URL with its token"),
    Action("sessions", "whole_url", "o", "Whole URL", "with the notebook's token, until you move on", "URL"),
    Action("sessions", "back", "escape", "Back", "to the queue"),
    Action(
        "admin", "next_tab", "tab", "Next table", "partitions, reservations, QoS, shares, and on", "Table"
    ),
    Action("admin", "previous_tab", "shift+tab", "Table before", "the same, backwards"),
    Action("admin", "new", "n", "New", "a reservation, a QoS or a partition, by a form", "New", _CHANGES),
    Action("admin", "change", "e", "Change", "the one under the cursor, by its form", "Change", _CHANGES),
    Action("admin", "remove", "X", "Remove", "the one under the cursor", "Remove", _CHANGES),
    Action(
        "admin", "drain", "d", "Drain or resume", "take no new jobs, or take them again", "Drain", _CHANGES
    ),
    Action("admin", "add", "A", "Add node", "a machine, over SSH", "Add", _CHANGES),
    Action(
        "admin",
        "what_if",
        "w",
        "What if",
        "the past with more GPUs, another policy, other weights",
        "What if",
    ),
    Action(
        "admin",
        "config",
        "E",
        "Edit config.toml",
        "the site's rules; they count when you leave",
        "Rules",
        _CHANGES,
    ),
    Action("admin", "copy", "y", "Copy name", "of what is under the cursor"),
    Action("admin", "copy_command", "Y", "Copy command", "the command line that prints the table"),
    Action("admin", "back", "escape", "Back", "end a what-if that runs, then to the queue"),
    Action("nodes", "metric", "m", "Metric", "utilisation, memory, power, temperature, owner", "Metric"),
    Action("nodes", "page", "p", "Node page", "the node's curves, processes and health", "Node"),
    Action(
        "nodes", "earlier", "less_than_sign", "Earlier", "all of it as it was ten minutes before", "Earlier"
    ),
    Action(
        "nodes",
        "later",
        "greater_than_sign",
        "Later",
        "ten minutes on, up to now",
        "Later",
    ),
    Action("nodes", "now", "N", "Now", "all of it as it is; Esc does it, too", "Now"),
    Action("nodes", "bit_earlier", "comma", "A bit earlier", "as it was one minute before"),
    Action("nodes", "bit_later", "full_stop", "A bit later", "one minute on, up to now"),
    Action("nodes", "at", "a", "At a time", "as it was at 03:12, yesterday or two hours ago"),
    Action("nodes", "idle", "I", "Idle GPUs", "held and not used: whose, and GPU-hours wasted", "Idle"),
    Action("nodes", "map_or_list", "v", "Map or list", "GPUs as a map, or nodes as a list", "Map/list"),
    Action(
        "nodes", "drain", "d", "Drain or resume", "take no new jobs, or take them again", "Drain", _CHANGES
    ),
    Action("nodes", "add", "A", "Add node", "a machine, over SSH", "Add", _CHANGES),
    Action(
        "nodes", "remove", "X", "Remove node", "forget the node; refused while jobs run there", "", _CHANGES
    ),
    Action("nodes", "new_job", "n", "New job", "submit a script", "New", _CHANGES),
    Action("nodes", "copy", "y", "Copy name", "the node's name to the clipboard"),
    Action(
        "nodes", "copy_command", "Y", "Copy command", "the command line that shows the node, to the clipboard"
    ),
    Action("nodes", "back", "escape", "Back", "to the queue"),
    Action("node", "back", "escape", "Back", "to the nodes"),
    Action("node", "span", "m", "Time span", "10 minutes, 2 hours, a day", "Span"),
    Action(
        "node", "drain", "d", "Drain or resume", "take no new jobs, or take them again", "Drain", _CHANGES
    ),
    Action("node", "copy", "y", "Copy name", "the node's name to the clipboard"),
    Action(
        "node", "copy_command", "Y", "Copy command", "the command line that shows the node, to the clipboard"
    ),
    Action("job", "back", "escape", "Back", "end the search, then leave the page"),
    Action("job", "next_pane", "tab", "Next pane", "log, metrics, details, GPUs, code, events", "Pane"),
    Action("job", "previous_pane", "shift+tab", "Previous pane", "the same, backwards"),
    Action("job", "log", "l", "Log", "what the job writes"),
    Action("job", "stream", "o", "stdout or stderr", "the other output", "Stderr"),
    Action(
        "job", "next_node", "O", "Next node's log", "of a command on several nodes: each has its own", "Node"
    ),
    Action(
        "job",
        "next_task",
        "right_square_bracket",
        "Next task",
        "the same pane of the array's next task",
        "Task",
    ),
    Action("job", "previous_task", "left_square_bracket", "Task before", "the same, backwards"),
    Action("job", "metrics", "m", "Metrics", "what it prints as a curve, and its GPUs over time", "Metrics"),
    Action("job", "next_metric", "v", "Next metric", "another of the numbers that it prints", "Next"),
    Action("job", "turn_axis", "x", "By time or step", "of the metrics; by time with its GPUs", "Time/step"),
    Action(
        "job",
        "smooth",
        "tilde",
        "Smooth",
        "the curves: the mean of the points around each, or as they are",
        "Smooth",
    ),
    Action("job", "lay_over", "plus", "Lay a run over", "another job's curve over this one's", "Compare"),
    Action("job", "take_away", "minus", "Take a run away", "the one that was laid over last"),
    Action("job", "details", "d", "Details", "all facts and the script"),
    Action("job", "gpus", "p", "GPUs", "the job's GPUs"),
    Action("job", "code", "s", "Code", "the snapshot that it runs"),
    Action("job", "events", "e", "Events", "the job's history"),
    Action("job", "diff", "D", "Diff with now", "what has changed in its folder since then", "Diff"),
    Action("job", "diff_job", "equals_sign", "Diff with a job", "its code against another job's"),
    Action("job", "what_changed", "W", "What has changed", "since the last job of its name that completed"),
    Action("job", "new_like", "ctrl+n", "New like this", "the form, filled from this job", "", _CHANGES),
    Action(
        "job",
        "again",
        "A",
        "Run again",
        "as it was: script, options and the code of its snapshot",
        "",
        _CHANGES,
    ),
    Action("job", "cancel", "c", "Cancel", "end the job", "Cancel", _CHANGES),
    Action("job", "hold", "H", "Hold", "keep the job from starting", "Hold", _CHANGES),
    Action("job", "release", "U", "Release", "let a held job start", "Release", _CHANGES),
    Action("job", "requeue", "R", "Requeue", "end the job and put it back", "Requeue", _CHANGES),
    Action("job", "limit", "L", "Time limit", "another one, or more of it: +2:00:00", "", _CHANGES),
    Action("job", "priority", "P", "Priority", "nice, or a number in its place", "", _CHANGES),
    Action("job", "attach", "a", "Attach", "the terminal of an interactive job", "Attach", _CHANGES),
    Action("job", "copy", "y", "Copy id", "the job's id to the clipboard"),
    Action(
        "job", "copy_command", "Y", "Copy command", "the command line that shows the job, to the clipboard"
    ),
    Action("history", "everybody", "u", "Mine or all", "my jobs only, or everybody's", "Mine/all"),
    Action(
        "history",
        "filter",
        "slash",
        "Filter",
        "words, user:me, state:F, gpu>4, name~llm, lr=0.1, !word",
        "Filter",
    ),
    Action("history", "sort", "s", "Sort", "by the next column; a click on a title sorts too"),
    Action("history", "reverse", "S", "Turn round", "the order, where a column gives it"),
    Action("history", "new_job", "n", "New job", "submit a script", "New", _CHANGES),
    Action("history", "new_like", "ctrl+n", "New like this", "the form, filled from this job", "", _CHANGES),
    Action(
        "history",
        "again",
        "A",
        "Run again",
        "as it was: script, options and the code of its snapshot",
        "",
        _CHANGES,
    ),
    Action("history", "log", "l", "Log", "the job's page, at its log", "Log"),
    Action(
        "history", "usage", "b", "Usage", "GPU-hours of these jobs by user, account, state, reason", "Usage"
    ),
    Action("history", "export", "E", "Export", "these jobs as CSV, JSON or Markdown", "Export"),
    Action("history", "requeue", "R", "Requeue", "put the job back into the queue", "Requeue", _CHANGES),
    Action("history", "copy", "y", "Copy id", "the job's id to the clipboard"),
    Action(
        "history",
        "copy_command",
        "Y",
        "Copy command",
        "the command line that shows the job, to the clipboard",
    ),
    Action("history", "mark", "space", "Mark", "the verbs then mean all that are marked"),
    Action("history", "clear", "escape", "Back", "take away marks, then the filter; then to the queue"),
    Action("log", "search", "slash", "Search", "from here on; in what is followed, backwards", "Search"),
    Action("log", "next_match", "n", "Next match", "of what was searched", call="match(1)"),
    Action("log", "previous_match", "N", "Previous match", "of what was searched", call="match(-1)"),
    Action(
        "log",
        "only",
        "ampersand",
        "Only matching",
        "lines with some words, or with !words those without",
        "Only",
    ),
    Action(
        "log",
        "rank",
        "r",
        "One rank",
        "only the lines that it wrote: [rank3]: as of torchrun, 3: as of srun -l",
    ),
    Action("log", "trouble", "E", "Error above", "the nearest error, warning of NaN or traceback", "Errors"),
    Action("log", "follow", "f", "Follow", "go to the end, and on with it as it grows"),
    Action("log", "page_down", "space", "Page down", "one page, as in less", call="page(1.0)"),
    Action("log", "page_up", "b", "Page up", "one page, as in less", call="page(-1.0)"),
    Action("log", "wrap", "w", "Wrap", "wrap long lines, or cut them", "Wrap"),
    Action("log", "right", "right", "Right", "sideways along long lines", call="side(1)"),
    Action("log", "left", "left", "Left", "back to the beginning of long lines", call="side(-1)"),
    Action("grid", "select", "enter", "Open job", "the job that holds the GPU under the cursor", "Job"),
    Action("grid", "right", "l,right", "Right", "the next GPU", call="side(1)"),
    Action("grid", "left", "h,left", "Left", "the GPU before", call="side(-1)"),
    Action("list", "select", "enter", "Open", "what is under the cursor"),
    Action("moves", "down", "j,down", "Down", "one line", call="move(1)"),
    Action("moves", "up", "k,up", "Up", "one line", call="move(-1)"),
    Action("moves", "page_down", "pagedown", "Page down", "one page", call="page(1.0)"),
    Action("moves", "page_up", "pageup", "Page up", "one page", call="page(-1.0)"),
    Action("moves", "half_down", "ctrl+d", "Half a page down", "half a page", call="page(0.5)"),
    Action("moves", "half_up", "ctrl+u", "Half a page up", "half a page", call="page(-0.5)"),
    Action("moves", "first", "g,home", "First", "to the beginning"),
    Action("moves", "last", "G,end", "Last", "to the end; a log is followed again"),
    Action("filter", "submit", "enter", "Keep", "keep the filter", "keep the filter"),
    Action("filter", "clear", "escape", "Take away", "show everything", "take it away", call="screen.clear"),
    Action("confirm", "yes", "y,enter", "Yes", "do it", "yes"),
    Action("confirm", "no", "n,escape", "No", "change nothing", "no"),
    Action(
        "confirm", "copy_command", "Y", "Copy command", "the command line that does it", "copies the command"
    ),
    Action("ask", "submit", "enter", "Answer", "do it", "does it"),
    Action("ask", "give_up", "escape", "Give up", "change nothing", "goes back"),
    Action("form", "submit", "enter", "Submit", "submit the job", "submits", call="screen.submit"),
    Action("form", "next", "tab,down", "Next field", "to the next field", "next", call="app.focus_next"),
    Action(
        "form", "previous", "shift+tab,up", "Field before", "to the field before", call="app.focus_previous"
    ),
    Action("form", "edit", "ctrl+e", "Edit", "the script in $EDITOR", "$EDITOR", call="screen.edit"),
    Action("form", "sweep", "ctrl+g", "Sweep", "values in all combinations", "sweeps", call="screen.sweep"),
    Action("form", "fill", "ctrl+o", "Fill", "from a preset or a job", "fills", call="screen.fill"),
    Action("form", "save", "ctrl+s", "Save", "as a preset, under a name", "saves", call="screen.save"),
    Action("form", "empty", "ctrl+n", "Empty", "begin anew", "empties", call="screen.empty"),
    Action("form", "give_up", "escape", "Give up", "submit nothing", "leaves", call="screen.give_up"),
    Action("sweep", "submit", "enter", "Take it", "into the form", "takes it"),
    Action("sweep", "give_up", "escape", "Give up", "leave the form as it is", "goes back"),
    Action("script", "edit", "ctrl+e", "Edit", "the script in $EDITOR", call="screen.edit"),
    Action("script", "leave", "escape", "Back", "to the fields of the form", call="screen.leave_script"),
    Action("add", "submit", "enter", "Add", "add the node", "adds it"),
    Action("add", "next", "tab,down", "Next field", "to the next field", "next field", call="app.focus_next"),
    Action(
        "add", "previous", "shift+tab,up", "Field before", "to the field before", call="app.focus_previous"
    ),
    Action("add", "give_up", "escape", "Give up", "add nothing", "goes back"),
    Action("reserve", "submit", "enter", "Reserve", "set the nodes aside", "sets them aside"),
    Action(
        "reserve", "next", "tab,down", "Next field", "to the next field", "next field", call="app.focus_next"
    ),
    Action(
        "reserve",
        "previous",
        "shift+tab,up",
        "Field before",
        "to the field before",
        call="app.focus_previous",
    ),
    Action("reserve", "give_up", "escape", "Give up", "change nothing", "goes back"),
    Action("rule", "submit", "enter", "Use it", "write it into config.toml and have it read", "uses it"),
    Action(
        "rule", "next", "tab,down", "Next field", "to the next field", "next field", call="app.focus_next"
    ),
    Action(
        "rule", "previous", "shift+tab,up", "Field before", "to the field before", call="app.focus_previous"
    ),
    Action("rule", "give_up", "escape", "Give up", "change nothing", "goes back"),
    Action("choose", "give_up", "escape,q", "Give up", "choose none", "goes back"),
    Action("fill", "remove", "X", "Remove", "the preset under the cursor", "removes the preset"),
    Action("fill", "give_up", "escape,q", "Give up", "leave the form as it is", "goes back"),
    Action("done", "copy", "y,Y", "Copy", "the command line under the cursor", "copies the line"),
    Action("done", "undo", "Z", "Undo", "take back the change under the cursor", "takes it back"),
    Action("done", "close", "escape,q,at", "Close", "back", "closes"),
    Action("page", "close", "escape,q,enter,question_mark", "Close", "end the search, then back", "closes"),
    Action("usage", "export", "e", "Export", "the figures as CSV, JSON or Markdown", "exports"),
    Action("usage", "close", "escape,q,enter", "Close", "end the search, then back", "closes"),
)
CHANGING = {(action.where, action.id) for action in ACTIONS if action.changes}
