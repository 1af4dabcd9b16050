"""What the first frame does not show is imported when its rows are on the screen, a part at a time, so that no first key pays for it.

A part takes at most some ten milliseconds, and keys come in between. Who is faster than this imports what he opens.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys

LATER = (
    *(
        f"warpdeck_tui.{name}"
        for name in ("screens.shared.dialogs", "screens.shared.job_verbs", "screens.nodes", "screens.job")
    ),
    *(
        "warpdeck.notation.request.request",
        "warpdeck_tui.screens.submit",
        "warpdeck_tui.screens.shared.form_opening",
        "warpdeck_tui.data.submission",
    ),
    *(f"warpdeck_tui.screens.{name}" for name in ("history", "sessions", "themes", "admin")),
    "warpdeck.snapshots",
)
"""What people open first is first; `screens` and the app name all of it."""
REST_S = 0.02
"""Between two parts: keys, and what they change on the screen."""


async def load_later() -> None:
    """All of it. The collector does not look at what stays for good, as at all that was imported before (`entry`)."""
    missing = [name for name in LATER if name not in sys.modules]
    for name in missing:
        gc.disable()
        try:
            importlib.import_module(name)
        finally:
            gc.enable()
        await asyncio.sleep(REST_S)
    if missing:
        gc.collect()  # else what is garbage now would be kept as well
        gc.freeze()
