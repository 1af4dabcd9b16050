"""Actions of the dialogs."""

from .action import Action

DIALOG_ACTIONS = (
    Action("confirm", "yes", "y,enter", "Yes", "confirm", "Yes"),
    Action("confirm", "no", "n,escape", "No", "cancel", "No"),
    Action(
        "confirm", "copy_command", "Y", "Copy command", "copy the equivalent command line", "Copy command"
    ),
    Action(
        "tasks",
        "pending_only",
        "w",
        "Pending only",
        "leave out the tasks that have started",
        "Pending only",
    ),
    Action(
        "tasks",
        "choose_tasks",
        "t",
        "Choose tasks",
        "enter the tasks: 12, 3-9, 16- (from 16 on), -7 (up to 7)",
        "Choose tasks",
    ),
    Action("ask", "submit", "enter", "OK", "confirm the answer", "OK"),
    Action("ask", "give_up", "escape", "Cancel", "change nothing", "Cancel"),
    Action("form", "submit", "enter", "Submit", "submit the job", "Submit", call="screen.submit"),
    Action(
        "form",
        "complete",
        "tab",
        "Complete",
        "complete a path or a name, or list what continues it; otherwise go to the next field",
        "Next",
        call="screen.focus_next",
    ),
    Action("form", "next", "down", "Next field", "go to the next field or value", call="screen.next_value"),
    Action(
        "form",
        "previous",
        "shift+tab,up",
        "Previous field",
        "go to the previous field or value",
        call="screen.focus_previous",
    ),
    Action(
        "form",
        "choose",
        "space",
        "Choose",
        "choose a partition, an account or a QoS from its list",
        call="screen.choose",
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
    Action("shell", "submit", "enter", "Open", "open a shell of this size", "Open"),
    Action(
        "shell", "next", "tab,down", "Next field", "go to the next field", "Next field", call="app.focus_next"
    ),
    Action(
        "shell",
        "previous",
        "shift+tab,up",
        "Previous field",
        "go to the previous field",
        call="app.focus_previous",
    ),
    Action("shell", "give_up", "escape", "Cancel", "close without opening a shell", "Cancel"),
    Action(
        "wait", "cancel_session", "c", "Cancel session", "cancel the session that waits", "Cancel session"
    ),
    Action(
        "wait",
        "leave",
        "escape,q",
        "Leave it waiting",
        "close the dialog; the app tells when the session is ready",
        "Leave it waiting",
    ),
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
    Action(
        "columns", "turn", "space", "Show or hide", "show or hide the column under the cursor", "Show/hide"
    ),
    Action(
        "columns",
        "shift_up",
        "K,alt+up",
        "Move up",
        "move the column to the left in the list of jobs",
        "Up",
        call="shift(-1)",
    ),
    Action(
        "columns",
        "shift_down",
        "J,alt+down",
        "Move down",
        "move the column to the right in the list of jobs",
        "Down",
        call="shift(1)",
    ),
    Action("columns", "defaults", "D", "Defaults", "return to the default columns", "Defaults"),
    Action("columns", "give_up", "escape,q", "Cancel", "leave the columns unchanged", "Cancel"),
    Action("fill", "remove", "X", "Remove", "remove the preset under the cursor", "Remove preset"),
    Action("fill", "give_up", "escape,q", "Cancel", "leave the form unchanged", "Cancel"),
    Action("done", "copy", "y,Y", "Copy", "copy the command line under the cursor", "Copy"),
    Action("done", "undo", "Z", "Undo", "undo the change under the cursor", "Undo"),
    Action("done", "close", "escape,q,at", "Close", "close the list", "Close"),
    Action(
        "page", "close", "escape,q,enter,question_mark", "Close", "close the search, then the page", "Close"
    ),
    Action(
        "diff",
        "next_file",
        "right_square_bracket",
        "Next file",
        "go to the next file",
        "Next file",
        call="file(1)",
    ),
    Action(
        "diff",
        "previous_file",
        "left_square_bracket",
        "Previous file",
        "go to the previous file",
        call="file(-1)",
    ),
    Action(
        "diff", "next_hunk", "J,right", "Next change", "go to the next change", "Next change", call="hunk(1)"
    ),
    Action(
        "diff", "previous_hunk", "K,left", "Previous change", "go to the previous change", call="hunk(-1)"
    ),
    Action(
        "diff",
        "beside",
        "v",
        "Side by side",
        "show the old and the new lines beside each other, or in one column",
        "Side by side",
    ),
    Action("diff", "search", "slash", "Search", "search forward for a text", "Search"),
    Action("diff", "next_match", "n", "Next match", "go to the next match of the search", call="match(1)"),
    Action(
        "diff",
        "previous_match",
        "N",
        "Previous match",
        "go to the previous match of the search",
        call="match(-1)",
    ),
    Action("diff", "close", "escape,q,enter", "Close", "close the search, then the page", "Close"),
    Action("usage", "export", "e", "Export", "write the figures to a CSV, JSON or Markdown file", "Export"),
    Action("usage", "close", "escape,q,enter", "Close", "close the search, then the page", "Close"),
)
