"""Imports the modules that the first frame does not need once its rows are visible.

So no later key has to wait for them. The modules are imported one at a time, each in at most some ten
milliseconds, and keys are handled in between. If the user opens a screen earlier, its modules are imported
then.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys

LATER = (
    *(
        f"warpdeck_tui.{name}"
        for name in (
            "screens.shared.dialogs",
            "screens.shared.jobs.job_verbs",
            "screens.nodes",
            "screens.job",
        )
    ),
    *(
        "warpdeck.notation.request.job_request",
        "warpdeck_tui.screens.forms.submit",
        "warpdeck_tui.screens.shared.form_opening",
        "warpdeck_tui.data.submission",
    ),
    *(
        f"warpdeck_tui.screens.{name}"
        for name in (
            "history",
            "sessions",
            "forms.shell",
            "themes",
            "admin",
            "runs",
            "overview",
            "welcome",
            "help",
        )
    ),
    "warpdeck_tui.data.server_start",
    "warpdeck_tui.viewmodels.jobs.preview",
    "warpdeck_tui.screens.shared.column_picker",
    "warpdeck_tui.app.left_sessions",
    "warpdeck_tui.app.welcome",
    *(f"warpdeck_tui.{name}" for name in ("table.actions.requests", "viewmodels.shell.scheduler_line")),
    "warpdeck.snapshots",
)
"""The modules, with those that users open first at the beginning. `screens` and the app name all of them."""
REST_S = 0.02
"""Seconds between two imports, for keys and the redraws that they cause."""


async def load_later() -> None:
    """Import all modules of LATER that are missing.

    The garbage collector then ignores their objects, because they are never freed. The same is done for all
    earlier imports (see `entry`).
    """
    missing = [name for name in LATER if name not in sys.modules]
    for name in missing:
        gc.disable()
        try:
            importlib.import_module(name)
        finally:
            gc.enable()
        await asyncio.sleep(REST_S)
    if missing:
        gc.collect()  # otherwise the present garbage would never be freed, either
        gc.freeze()
