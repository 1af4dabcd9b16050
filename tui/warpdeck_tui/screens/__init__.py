"""The screens. They create the widgets, draw the client state, and turn keys into requests.

The screens named here are imported at their first use, such as `screens.HelpPage`, or soon after the first
frame (see `warming`). With everything that they show, they take as long to import as Textual.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpdeck_tui.screens.shared.dialogs import Ask as Ask
    from warpdeck_tui.screens.shared.dialogs import DonePage as DonePage
    from warpdeck_tui.screens.shared.dialogs import HelpPage as HelpPage

    from .admin import AdminScreen as AdminScreen
    from .forms.shell import ShellSize as ShellSize
    from .forms.shell import ShellWait as ShellWait
    from .forms.submit import NewJob as NewJob
    from .help import KeyHelp as KeyHelp
    from .history import HistoryScreen as HistoryScreen
    from .job import JobScreen as JobScreen
    from .node_page import NodeScreen as NodeScreen
    from .nodes import NodesScreen as NodesScreen
    from .overview import OverviewScreen as OverviewScreen
    from .sessions import SessionsScreen as SessionsScreen
    from .themes import ThemePicker as ThemePicker
    from .welcome import WelcomeScreen as WelcomeScreen

_HOMES = {
    "AdminScreen": "admin",
    "Ask": "shared.dialogs",
    "DonePage": "shared.dialogs",
    "HelpPage": "shared.dialogs",
    "KeyHelp": "help",
    "HistoryScreen": "history",
    "JobScreen": "job",
    "NewJob": "forms.submit",
    "NodeScreen": "node_page",
    "NodesScreen": "nodes",
    "OverviewScreen": "overview",
    "SessionsScreen": "sessions",
    "ShellSize": "forms.shell",
    "ShellWait": "forms.shell",
    "ThemePicker": "themes",
    "WelcomeScreen": "welcome",
}
"""Maps the name of a class to its module."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
