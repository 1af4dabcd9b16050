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
    "app": "Global",
    "log": "Logs, code and diffs",
    "grid": "GPU map",
    "list": "Lists",
    "moves": "Navigation",
    "filter": "Filter",
    "confirm": "Confirmation",
    "ask": "Text input",
    "form": "New job",
    "script": "Script of a new job",
    "sweep": "Sweep",
    "add": "Add a node",
    "reserve": "Reservation",
    "rule": "QoS or partition",
    "choose": "Job selection",
    "fill": "Load form",
    "done": "Action log",
    "page": "Help and text pages",
    "usage": "Usage of finished jobs",
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
    Action("app", "show_queue", "1", "Queue", "pending and running jobs"),
    Action("app", "show_nodes", "2", "Nodes", "nodes and GPUs, live"),
    Action("app", "show_job", "3", "Job", "the job under the cursor, or the last job opened"),
    Action("app", "show_history", "4", "History", "finished jobs"),
    Action("app", "show_sessions", "5", "Sessions", "interactive sessions and forwarded ports"),
    Action(
        "app", "show_admin", "6", "Site", "partitions, reservations, QoS, shares, drains, events, simulation"
    ),
    Action(
        "app",
        "shell",
        "i",
        "Interactive shell",
        "start a shell with the options of the last one; at first with one GPU",
        "Shell",
        _CHANGES,
    ),
    Action("app", "next_theme", "t", "Next theme", "switch to the next color theme"),
    Action("app", "pick_theme", "T", "Themes", "choose a color theme and save it"),
    Action(
        "app",
        "start_controller",
        "ctrl+r",
        "Start controller",
        "start the controller if it is stopped",
        "",
        _CHANGES,
    ),
    Action(
        "app", "timing", "ctrl+t", "Key latency", "show in the header how long the last key took to be drawn"
    ),
    Action(
        "app",
        "mouse",
        "M",
        "Mouse",
        "give the mouse to the terminal to select and copy text, or back to the app",
    ),
    Action(
        "app",
        "suspend_process",
        "ctrl+z",
        "Suspend",
        "suspend the app and return to the shell; fg resumes it",
    ),
    Action(
        "app",
        "redraw",
        "ctrl+l",
        "Redraw",
        "redraw the screen if another program has written to the terminal",
    ),
    Action("app", "help", "question_mark", "Help", "show the keys of this screen", "Help"),
    Action("app", "done", "at", "Action log", "list all changes with their command lines, and undo them"),
    Action(
        "app",
        "undo",
        "Z",
        "Undo",
        "undo the last hold, drain or change of a job, reservation or rule",
        "",
        _CHANGES,
    ),
    Action("app", "keys", "K", "Key bindings", "list all actions by name, and how to assign other keys"),
    Action(
        "app",
        "command_palette",
        "colon,ctrl+p",
        "Palette",
        "find an action, job, node or user by a few letters",
        "Palette",
    ),
    Action("app", "quit", "q", "Quit", "quit the app; jobs keep running", "Quit"),
    Action("queue", "log", "l", "Log", "open the job's page at its log", "Log"),
    Action(
        "queue", "everybody", "u", "My jobs or all", "show only my jobs, or the jobs of all users", "Mine/all"
    ),
    Action("queue", "new_job", "n", "New job", "submit a new job", "New", _CHANGES),
    Action(
        "queue",
        "new_like",
        "ctrl+n",
        "Copy to form",
        "open the submit form with the options of this job",
        "",
        _CHANGES,
    ),
    Action(
        "queue",
        "again",
        "A",
        "Run again",
        "submit the job again with the same script, options and code snapshot",
        "",
        _CHANGES,
    ),
    Action(
        "queue",
        "filter",
        "slash",
        "Filter",
        "by text, user:me, state:F, gpu>4, name~llm, lr=0.1, !text",
        "Filter",
    ),
    Action("queue", "sort", "s", "Sort", "sort by the next column; a click on a column title also sorts"),
    Action("queue", "reverse", "S", "Reverse", "reverse the sort order; needs a sort column"),
    Action(
        "queue",
        "fold",
        "z",
        "Expand or collapse",
        "show the tasks of an array below its row, or hide them",
        "Tasks",
    ),
    Action("queue", "columns", "C", "Columns", "choose the columns and their order"),
    Action(
        "queue", "next_view", "w", "Next view", "switch to the next saved view, then back to the default view"
    ),
    Action("queue", "save_view", "W", "Save view", "save filter, users, sort order and columns under a name"),
    Action("queue", "mark", "space", "Mark", "mark the row; actions then apply to all marked rows"),
    Action("queue", "mark_all", "V", "Mark all", "mark all listed rows, or unmark them"),
    Action("queue", "clear", "escape", "Clear", "clear the marks, then the filter"),
    Action("queue", "cancel", "c", "Cancel", "cancel the job", "Cancel", _CHANGES),
    Action("queue", "hold", "H", "Hold", "keep the job from starting", "Hold", _CHANGES),
    Action("queue", "release", "U", "Release", "allow a held job to start", "Release", _CHANGES),
    Action(
        "queue", "requeue", "R", "Requeue", "stop the job and put it back into the queue", "Requeue", _CHANGES
    ),
    Action("queue", "limit", "L", "Time limit", "set the time limit, or extend it: +2:00:00", "", _CHANGES),
    Action("queue", "priority", "P", "Priority", "set the nice value, or a fixed priority", "", _CHANGES),
    Action(
        "queue", "attach", "a", "Attach", "attach to the terminal of an interactive job", "Attach", _CHANGES
    ),
    Action("queue", "copy", "y", "Copy ID", "copy the job ID to the clipboard"),
    Action(
        "queue",
        "copy_command",
        "Y",
        "Copy command",
        "copy the command line that shows the job to the clipboard",
    ),
    Action(
        "sessions",
        "attach",
        "a",
        "Attach",
        "attach to its terminal; to detach, press Enter, then ~d",
        "Attach",
        _CHANGES,
    ),
    Action("sessions", "watch", "w", "Watch", "view its terminal read-only; q closes the view", "Watch"),
    Action("sessions", "cancel", "c", "End", "end the session", "End", _CHANGES),
    Action("sessions", "end_forward", "X", "Stop forwarding", "stop forwarding the port", "", _CHANGES),
    Action("sessions", "copy", "y", "Copy", "copy the session ID, or the URL of the port with its token"),
    Action(
        "sessions",
        "whole_url",
        "o",
        "Full URL",
        "show the notebook's URL with its token until the cursor moves",
        "URL",
    ),
    Action("sessions", "back", "escape", "Back", "back to the queue"),
    Action(
        "admin", "next_tab", "tab", "Next table", "partitions, reservations, QoS, shares and so on", "Table"
    ),
    Action("admin", "previous_tab", "shift+tab", "Previous table", "the same tables, backwards"),
    Action("admin", "new", "n", "New", "create a reservation, a QoS or a partition", "New", _CHANGES),
    Action("admin", "change", "e", "Edit", "edit the row under the cursor", "Edit", _CHANGES),
    Action("admin", "remove", "X", "Remove", "remove the row under the cursor", "Remove", _CHANGES),
    Action(
        "admin",
        "drain",
        "d",
        "Drain or resume",
        "stop scheduling jobs on the node, or resume it",
        "Drain",
        _CHANGES,
    ),
    Action("admin", "add", "A", "Add node", "add a machine over SSH", "Add", _CHANGES),
    Action(
        "admin",
        "what_if",
        "w",
        "What if",
        "replay past jobs with more GPUs, another policy or other weights",
        "What if",
    ),
    Action(
        "admin",
        "config",
        "E",
        "Edit config.toml",
        "edit the site's rules; they are loaded when the editor exits",
        "Config",
        _CHANGES,
    ),
    Action("admin", "copy", "y", "Copy name", "copy the name of the row under the cursor"),
    Action("admin", "copy_command", "Y", "Copy command", "copy the command line that prints the table"),
    Action("admin", "back", "escape", "Back", "cancel a running simulation, then back to the queue"),
    Action(
        "nodes", "metric", "m", "Metric", "show utilization, memory, power, temperature or owner", "Metric"
    ),
    Action("nodes", "page", "p", "Node page", "charts, processes and health of the node", "Node"),
    Action("nodes", "earlier", "less_than_sign", "Earlier", "go back ten minutes in time", "Earlier"),
    Action("nodes", "later", "greater_than_sign", "Later", "go forward ten minutes, up to now", "Later"),
    Action("nodes", "now", "N", "Now", "return to the present; Esc does the same", "Now"),
    Action("nodes", "bit_earlier", "comma", "One minute earlier", "go back one minute in time"),
    Action("nodes", "bit_later", "full_stop", "One minute later", "go forward one minute, up to now"),
    Action("nodes", "at", "a", "Go to time", "show a past time: 03:12, yesterday, now-2hours"),
    Action(
        "nodes",
        "idle",
        "I",
        "Idle GPUs",
        "allocated GPUs that are not used, with owner and wasted GPU-hours",
        "Idle",
    ),
    Action("nodes", "map_or_list", "v", "Map or list", "show a map of GPUs or a list of nodes", "Map/list"),
    Action(
        "nodes",
        "drain",
        "d",
        "Drain or resume",
        "stop scheduling jobs on the node, or resume it",
        "Drain",
        _CHANGES,
    ),
    Action("nodes", "add", "A", "Add node", "add a machine over SSH", "Add", _CHANGES),
    Action(
        "nodes", "remove", "X", "Remove node", "remove the node; refused while jobs run on it", "", _CHANGES
    ),
    Action("nodes", "new_job", "n", "New job", "submit a new job", "New", _CHANGES),
    Action("nodes", "copy", "y", "Copy name", "copy the node name to the clipboard"),
    Action(
        "nodes",
        "copy_command",
        "Y",
        "Copy command",
        "copy the command line that shows the node to the clipboard",
    ),
    Action("nodes", "back", "escape", "Back", "back to the queue"),
    Action("node", "back", "escape", "Back", "back to the nodes"),
    Action("node", "span", "m", "Time span", "10 minutes, 2 hours or a day", "Span"),
    Action(
        "node",
        "drain",
        "d",
        "Drain or resume",
        "stop scheduling jobs on the node, or resume it",
        "Drain",
        _CHANGES,
    ),
    Action("node", "copy", "y", "Copy name", "copy the node name to the clipboard"),
    Action(
        "node",
        "copy_command",
        "Y",
        "Copy command",
        "copy the command line that shows the node to the clipboard",
    ),
    Action("job", "back", "escape", "Back", "close the search, then leave the page"),
    Action("job", "next_pane", "tab", "Next pane", "log, metrics, details, GPUs, code, events", "Pane"),
    Action("job", "previous_pane", "shift+tab", "Previous pane", "the same panes, backwards"),
    Action("job", "log", "l", "Log", "the output of the job"),
    Action("job", "stream", "o", "stdout or stderr", "switch to the other output", "Stderr"),
    Action(
        "job",
        "next_node",
        "O",
        "Next node's log",
        "the log of the next node, if each node has its own",
        "Node",
    ),
    Action(
        "job",
        "next_task",
        "right_square_bracket",
        "Next task",
        "the same pane of the next array task",
        "Task",
    ),
    Action(
        "job",
        "previous_task",
        "left_square_bracket",
        "Previous task",
        "the same pane of the previous array task",
    ),
    Action(
        "job", "metrics", "m", "Metrics", "plots of the values in the log, and of GPU utilization", "Metrics"
    ),
    Action("job", "next_metric", "v", "Next metric", "plot the next value found in the log", "Next"),
    Action(
        "job",
        "turn_axis",
        "x",
        "Time or step",
        "plot over time (with GPU utilization) or over steps",
        "Time/step",
    ),
    Action(
        "job",
        "smooth",
        "tilde",
        "Smooth",
        "smooth the curves (moving average), or plot the raw values",
        "Smooth",
    ),
    Action(
        "job", "lay_over", "plus", "Compare runs", "plot the curve of another job over this one", "Compare"
    ),
    Action("job", "take_away", "minus", "Remove run", "remove the run that was added last"),
    Action("job", "details", "d", "Details", "all properties of the job, and its script"),
    Action("job", "gpus", "p", "GPUs", "the job's GPUs"),
    Action("job", "code", "s", "Code", "the code snapshot that the job runs"),
    Action("job", "events", "e", "Events", "the job's history"),
    Action(
        "job",
        "diff",
        "D",
        "Diff with folder",
        "compare the snapshot with the job's folder as it is now",
        "Diff",
    ),
    Action(
        "job", "diff_job", "equals_sign", "Diff with job", "compare the code with the code of another job"
    ),
    Action(
        "job",
        "what_changed",
        "W",
        "Changes since success",
        "compare with the last completed job of the same name",
    ),
    Action(
        "job",
        "new_like",
        "ctrl+n",
        "Copy to form",
        "open the submit form with the options of this job",
        "",
        _CHANGES,
    ),
    Action(
        "job",
        "again",
        "A",
        "Run again",
        "submit the job again with the same script, options and code snapshot",
        "",
        _CHANGES,
    ),
    Action("job", "cancel", "c", "Cancel", "cancel the job", "Cancel", _CHANGES),
    Action("job", "hold", "H", "Hold", "keep the job from starting", "Hold", _CHANGES),
    Action("job", "release", "U", "Release", "allow a held job to start", "Release", _CHANGES),
    Action(
        "job", "requeue", "R", "Requeue", "stop the job and put it back into the queue", "Requeue", _CHANGES
    ),
    Action("job", "limit", "L", "Time limit", "set the time limit, or extend it: +2:00:00", "", _CHANGES),
    Action("job", "priority", "P", "Priority", "set the nice value, or a fixed priority", "", _CHANGES),
    Action(
        "job", "attach", "a", "Attach", "attach to the terminal of an interactive job", "Attach", _CHANGES
    ),
    Action("job", "copy", "y", "Copy ID", "copy the job ID to the clipboard"),
    Action(
        "job",
        "copy_command",
        "Y",
        "Copy command",
        "copy the command line that shows the job to the clipboard",
    ),
    Action(
        "history",
        "everybody",
        "u",
        "My jobs or all",
        "show only my jobs, or the jobs of all users",
        "Mine/all",
    ),
    Action(
        "history",
        "filter",
        "slash",
        "Filter",
        "by text, user:me, state:F, gpu>4, name~llm, lr=0.1, !text",
        "Filter",
    ),
    Action("history", "sort", "s", "Sort", "sort by the next column; a click on a column title also sorts"),
    Action("history", "reverse", "S", "Reverse", "reverse the sort order; needs a sort column"),
    Action("history", "new_job", "n", "New job", "submit a new job", "New", _CHANGES),
    Action(
        "history",
        "new_like",
        "ctrl+n",
        "Copy to form",
        "open the submit form with the options of this job",
        "",
        _CHANGES,
    ),
    Action(
        "history",
        "again",
        "A",
        "Run again",
        "submit the job again with the same script, options and code snapshot",
        "",
        _CHANGES,
    ),
    Action("history", "log", "l", "Log", "open the job's page at its log", "Log"),
    Action(
        "history",
        "usage",
        "b",
        "Usage",
        "GPU-hours of the listed jobs by user, account, state and reason",
        "Usage",
    ),
    Action(
        "history", "export", "E", "Export", "write the listed jobs to a CSV, JSON or Markdown file", "Export"
    ),
    Action("history", "requeue", "R", "Requeue", "put the job back into the queue", "Requeue", _CHANGES),
    Action("history", "copy", "y", "Copy ID", "copy the job ID to the clipboard"),
    Action(
        "history",
        "copy_command",
        "Y",
        "Copy command",
        "copy the command line that shows the job to the clipboard",
    ),
    Action("history", "mark", "space", "Mark", "mark the row; actions then apply to all marked rows"),
    Action("history", "clear", "escape", "Back", "clear the marks, then the filter, then back to the queue"),
    Action(
        "log", "search", "slash", "Search", "search forward; backward while the log is followed", "Search"
    ),
    Action("log", "next_match", "n", "Next match", "go to the next match of the search", call="match(1)"),
    Action(
        "log",
        "previous_match",
        "N",
        "Previous match",
        "go to the previous match of the search",
        call="match(-1)",
    ),
    Action(
        "log",
        "only",
        "ampersand",
        "Filter lines",
        "show only lines with some text, or with !text those without",
        "Filter",
    ),
    Action(
        "log",
        "rank",
        "r",
        "Filter by rank",
        "show only lines of one rank: [rank3]: (torchrun) or 3: (srun -l)",
    ),
    Action(
        "log",
        "trouble",
        "E",
        "Previous error",
        "go to the nearest error, NaN warning or traceback above",
        "Errors",
    ),
    Action("log", "follow", "f", "Follow", "go to the end and follow new lines"),
    Action("log", "page_down", "space", "Page down", "scroll down one page", call="page(1.0)"),
    Action("log", "page_up", "b", "Page up", "scroll up one page", call="page(-1.0)"),
    Action("log", "wrap", "w", "Wrap", "wrap long lines, or cut them off", "Wrap"),
    Action("log", "right", "right", "Right", "scroll right", call="side(1)"),
    Action("log", "left", "left", "Left", "scroll left", call="side(-1)"),
    Action("grid", "select", "enter", "Open job", "open the job that holds the GPU under the cursor", "Job"),
    Action("grid", "right", "l,right", "Right", "next GPU", call="side(1)"),
    Action("grid", "left", "h,left", "Left", "previous GPU", call="side(-1)"),
    Action("list", "select", "enter", "Open", "open the row under the cursor"),
    Action("moves", "down", "j,down", "Down", "one line", call="move(1)"),
    Action("moves", "up", "k,up", "Up", "one line", call="move(-1)"),
    Action("moves", "page_down", "pagedown", "Page down", "one page", call="page(1.0)"),
    Action("moves", "page_up", "pageup", "Page up", "one page", call="page(-1.0)"),
    Action("moves", "half_down", "ctrl+d", "Half a page down", "half a page down", call="page(0.5)"),
    Action("moves", "half_up", "ctrl+u", "Half a page up", "half a page up", call="page(-0.5)"),
    Action("moves", "first", "g,home", "First", "go to the beginning"),
    Action("moves", "last", "G,end", "Last", "go to the end; a log is followed again"),
    Action("filter", "submit", "enter", "Apply", "apply the filter", "Apply"),
    Action("filter", "clear", "escape", "Clear", "clear the filter", "Clear", call="screen.clear"),
    Action("confirm", "yes", "y,enter", "Yes", "confirm", "Yes"),
    Action("confirm", "no", "n,escape", "No", "cancel", "No"),
    Action(
        "confirm", "copy_command", "Y", "Copy command", "copy the equivalent command line", "Copy command"
    ),
    Action("ask", "submit", "enter", "OK", "confirm the answer", "OK"),
    Action("ask", "give_up", "escape", "Cancel", "change nothing", "Cancel"),
    Action("form", "submit", "enter", "Submit", "submit the job", "Submit", call="screen.submit"),
    Action("form", "next", "tab,down", "Next field", "go to the next field", "Next", call="app.focus_next"),
    Action(
        "form",
        "previous",
        "shift+tab,up",
        "Previous field",
        "go to the previous field",
        call="app.focus_previous",
    ),
    Action("form", "edit", "ctrl+e", "Edit", "edit the script in $EDITOR", "$EDITOR", call="screen.edit"),
    Action(
        "form",
        "sweep",
        "ctrl+g",
        "Sweep",
        "run all combinations of some values",
        "Sweep",
        call="screen.sweep",
    ),
    Action(
        "form", "fill", "ctrl+o", "Load", "fill the form from a preset or a job", "Load", call="screen.fill"
    ),
    Action("form", "save", "ctrl+s", "Save", "save the form as a preset", "Save", call="screen.save"),
    Action("form", "empty", "ctrl+n", "Clear", "clear all fields", "Clear", call="screen.empty"),
    Action(
        "form",
        "give_up",
        "escape",
        "Cancel",
        "close the form without submitting",
        "Cancel",
        call="screen.give_up",
    ),
    Action("sweep", "submit", "enter", "OK", "use the sweep in the form", "OK"),
    Action("sweep", "give_up", "escape", "Cancel", "leave the form unchanged", "Cancel"),
    Action("script", "edit", "ctrl+e", "Edit", "edit the script in $EDITOR", call="screen.edit"),
    Action("script", "leave", "escape", "Back", "back to the fields of the form", call="screen.leave_script"),
    Action("add", "submit", "enter", "Add", "add the node", "Add"),
    Action(
        "add", "next", "tab,down", "Next field", "go to the next field", "Next field", call="app.focus_next"
    ),
    Action(
        "add",
        "previous",
        "shift+tab,up",
        "Previous field",
        "go to the previous field",
        call="app.focus_previous",
    ),
    Action("add", "give_up", "escape", "Cancel", "close without adding a node", "Cancel"),
    Action("reserve", "submit", "enter", "Save", "save the reservation", "Save"),
    Action(
        "reserve",
        "next",
        "tab,down",
        "Next field",
        "go to the next field",
        "Next field",
        call="app.focus_next",
    ),
    Action(
        "reserve",
        "previous",
        "shift+tab,up",
        "Previous field",
        "go to the previous field",
        call="app.focus_previous",
    ),
    Action("reserve", "give_up", "escape", "Cancel", "change nothing", "Cancel"),
    Action("rule", "submit", "enter", "Save", "write to config.toml and reload it", "Save"),
    Action(
        "rule", "next", "tab,down", "Next field", "go to the next field", "Next field", call="app.focus_next"
    ),
    Action(
        "rule",
        "previous",
        "shift+tab,up",
        "Previous field",
        "go to the previous field",
        call="app.focus_previous",
    ),
    Action("rule", "give_up", "escape", "Cancel", "change nothing", "Cancel"),
    Action("choose", "give_up", "escape,q", "Cancel", "close the list without a choice", "Cancel"),
    Action("fill", "remove", "X", "Remove", "remove the preset under the cursor", "Remove preset"),
    Action("fill", "give_up", "escape,q", "Cancel", "leave the form unchanged", "Cancel"),
    Action("done", "copy", "y,Y", "Copy", "copy the command line under the cursor", "Copy"),
    Action("done", "undo", "Z", "Undo", "undo the change under the cursor", "Undo"),
    Action("done", "close", "escape,q,at", "Close", "close the list", "Close"),
    Action(
        "page", "close", "escape,q,enter,question_mark", "Close", "close the search, then the page", "Close"
    ),
    Action("usage", "export", "e", "Export", "write the figures to a CSV, JSON or Markdown file", "Export"),
    Action("usage", "close", "escape,q,enter", "Close", "close the search, then the page", "Close"),
)
CHANGING = {(action.where, action.id) for action in ACTIONS if action.changes}
