"""Starts the app in a child process.

Meanwhile this process guards the terminal (see `guard`). Textual is imported only in the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck_tui.terminal.ascii_fallback import as_started, lacks_signs
from warpdeck_tui.terminal.terminal_guard import end_with_parent, guarded
from warpdeck_tui.user_files.settings import Settings, read_settings

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""The driver that `warpdeck serve` sets. It means that the terminal is a browser."""
APP = "warpdeck_tui.app"
"""The package of the app, which is imported by name because that takes most of the start time."""
DUMB = ("dumb", "unknown")
"""Types of terminals that cannot move the cursor, for example that of Emacs' shell or of a CI log."""
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
"""Parameters of mallopt(3)."""
LARGE_BYTES = 128 * 1024


class Options(NamedTuple):
    """The app's own options, for every command that opens the app. The command line declares them under these names."""

    theme: str = ""
    readonly: bool = False
    low_bandwidth: bool = False
    ascii: bool = False
    no_ascii: bool = False
    no_mouse: bool = False


def main() -> int:
    """Open the app in the default home folder, with its default options. Raises UserError."""
    return start(Options())


def start(
    options: Options,
    *,
    everybody: bool = False,
    at: tuple[str, str] = ("", ""),
    moment: float | None = None,
) -> int:
    """Open the app with these options, and return its exit code.

    `at` names the first screen, or "" for that of the user's settings, and its job or node. If `moment` is given, the
    screen shows the state at that time (unix seconds). Without a terminal that can show the app, print the screen once
    as plain text. Raises UserError.
    """
    if os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER:
        end_with_parent()
        return run(options, everybody=everybody, at=at, moment=moment)
    if reason := no_app(os.environ, is_terminal=sys.stdin.isatty() and sys.stdout.isatty()):
        return _print_plain(reason, everybody=everybody, at=at, moment=moment)
    return guarded(lambda: run(options, everybody=everybody, at=at, moment=moment))


def load() -> None:
    """Import the app, for a caller that has to wait for a controller anyway."""
    with _loading():
        importlib.import_module(APP)


def no_app(environ: Mapping[str, str], *, is_terminal: bool) -> str:
    """Return why the app cannot be shown, or "" if it can."""
    if not is_terminal:
        return "no terminal"
    term = environ.get("TERM", "")
    return f"TERM={term}" if term in DUMB else ""


def _print_plain(reason: str, *, everybody: bool, at: tuple[str, str], moment: float | None) -> int:
    """Print the screen once as plain text, after a note on standard error that says so."""
    from warpdeck.base.paths import default_paths
    from warpdeck_tui import plain

    screen, what = at[0] or "queue", at[1]
    command = " ".join(filter(None, ("warpdeck screen", screen, what, "--plain")))
    print(f"warpdeck: {reason}, so the app is not opened; this is `{command}`", file=sys.stderr)
    return plain.main(default_paths(), screen, what=what, everybody=everybody, at=moment, as_json=False)


def run(options: Options, *, everybody: bool, at: tuple[str, str], moment: float | None) -> int:
    """Run the app itself until the user leaves it, and return its exit code."""
    wanted = _settings()
    plain, why = plain_signs(options, wanted)
    low_bandwidth = options.low_bandwidth or wanted.low_bandwidth
    if low_bandwidth:
        os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "256")
    with _loading():
        app = importlib.import_module(APP).DeckApp(
            everybody=everybody,
            at=at,
            moment=moment,
            readonly=options.readonly,
            theme=options.theme,
            low_bandwidth=low_bandwidth,
            plain_signs=plain,
        )
        if why:
            app.chronicle.add(f"warpdeck --ascii  # {why}; use --no-ascii for Unicode characters")
        importlib.import_module("warpdeck_tui.terminal.lent_terminal").leave_at_hang_up(app)
    give_memory_back()
    app.run(mouse=wanted.mouse and not (options.no_mouse or low_bandwidth))
    return app.return_code or 0


def plain_signs(options: Options, wanted: Settings) -> tuple[bool, str]:
    """Return whether only ASCII is drawn and, if nobody asked for it, the environment setting that caused it.

    A browser can show all characters.
    """
    if options.ascii or options.no_ascii:
        return options.ascii, ""
    if wanted.ascii is not None:
        return wanted.ascii, ""
    is_browser = os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER
    why = "" if is_browser else lacks_signs(as_started(os.environ))
    return bool(why), why


def give_memory_back() -> None:
    """Configure the C library to return freed memory to the system early.

    All threads share one heap. Otherwise each thread would keep a heap of its own, as large as the largest
    answer it has handled. Large blocks are returned at once. Otherwise the C library would keep more and more
    of them for reuse.
    """
    with contextlib.suppress(OSError, AttributeError):  # this C library does not have it
        c_library = ctypes.CDLL(None)
        c_library.mallopt(M_ARENA_MAX, 1)
        c_library.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """Speed up the imports within this context.

    Imported objects are never freed. So the garbage collector does not run meanwhile, which saves a tenth of
    the time, and it ignores these objects later. The app does not use TLS over asyncio, so asyncio is
    imported without the ssl module, which saves about as much again.
    """
    gc.disable()
    known = sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        importlib.import_module("asyncio")
        if known is None:
            del sys.modules["ssl"]
        yield
    finally:
        gc.freeze()
        gc.enable()


def _settings() -> Settings:
    """Return the user's settings, or the defaults if they are invalid. The app itself reports their
    errors.
    """
    try:
        return read_settings()
    except UserError:
        return Settings()
