"""How the app is started: its options, and a process that looks after the terminal (`guard`). Textual is imported in its child."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from warpdeck.errors import UserError

from .guard import end_with_parent, guarded
from .settings import Settings, read_settings

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""Set by `warpdeck serve`: the terminal is a browser's."""


def main(argv: Sequence[str] = (), *, everybody: bool = False, at: tuple[str, str] = ("queue", "")) -> int:
    """Opens the app on the default home, at that screen, of that job or node. Raises UserError."""
    parser = argparse.ArgumentParser(prog="warpdeck", description="The full-screen app.")
    parser.add_argument("--theme", default="", metavar="NAME", help="the theme to begin with")
    parser.add_argument("--readonly", action="store_true", help="look only: nothing can be changed")
    parser.add_argument(
        "--low-bandwidth",
        action="store_true",
        help="for slow links: news every two seconds, no bars, no mouse",
    )
    parser.add_argument("--ascii", action="store_true", help="for terminals and fonts without other signs")
    parser.add_argument(
        "--no-mouse", action="store_true", help="the mouse is the terminal's own; M gives it back"
    )
    args = parser.parse_args(list(argv))
    if os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER:
        end_with_parent()
        return run(args, everybody=everybody, at=at)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("the app needs a terminal", "see `warpdeck --help` for the verbs")
    return guarded(lambda: run(args, everybody=everybody, at=at))


def run(args: argparse.Namespace, *, everybody: bool, at: tuple[str, str]) -> int:
    """The app itself, until it is left."""
    wanted = _settings()
    low_bandwidth = args.low_bandwidth or wanted.low_bandwidth
    if low_bandwidth:
        os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "256")
    app = importlib.import_module("warpdeck_tui.app").DeckApp(
        everybody=everybody,
        at=at,
        readonly=args.readonly,
        theme=args.theme,
        low_bandwidth=low_bandwidth,
        plain_signs=args.ascii or wanted.ascii,
    )
    importlib.import_module("warpdeck_tui.terminal").leave_at_hang_up(app)
    app.run(mouse=wanted.mouse and not (args.no_mouse or low_bandwidth))
    return app.return_code or 0


def _settings() -> Settings:
    """The user's own; the app itself tells what is wrong with them."""
    try:
        return read_settings()
    except UserError:
        return Settings()
