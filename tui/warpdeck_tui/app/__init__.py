"""The application: `app` wires the parts, which are the other modules of this package.

`updates` applies what the controller reports, `refresher` decides when to redraw, `navigation` opens screens,
`job_forms` opens the "New job" form, `key_bindings` reads the user's keys, and `undo` undoes changes.
"""

from .app import DeckApp as DeckApp
