"""The table of all actions: id, keys, texts for the palette and the help, and the context of each.

Bindings, palette, help page, key line and the last lines of the dialogs are generated from this table (see
`bindings`). A context (`PLACES`) is a screen, a dialog, or a part of a screen that can have the focus.
Contexts that are active at the same time (`MEETINGS`) never give two meanings to one key. In a text field
(filter, search, form) every key is typed as text, except the keys of the field's own context. Users can
choose other keys (see `keymap`).
"""

from .action import NO_KEY as NO_KEY
from .action import Action as Action
from .contexts import MEETINGS as MEETINGS
from .contexts import PLACES as PLACES
from .dialogs import DIALOG_ACTIONS
from .jobs import JOB_ACTIONS
from .parts import PART_ACTIONS
from .screens import SCREEN_ACTIONS

ACTIONS = (*SCREEN_ACTIONS, *JOB_ACTIONS, *PART_ACTIONS, *DIALOG_ACTIONS)
CHANGING = {(action.where, action.id) for action in ACTIONS if action.changes}
"""Contexts and ids of the actions that --readonly switches off."""
