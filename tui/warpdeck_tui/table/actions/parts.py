"""Actions of the parts of a screen that can have the focus."""

from .action import Action

PART_ACTIONS = (
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
)
