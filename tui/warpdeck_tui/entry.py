"""How the app is started: its options, and a process that looks after the terminal (`guard`). Textual is imported in its child."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck_tui.terminal.ascii_fallback import as_started, lacks_signs
from warpdeck_tui.terminal.terminal_guard import end_with_parent, guarded
from warpdeck_tui.user_files.settings import Settings, read_settings

if TYPE_CHECKING:
    import argparse

SWITCHES = {
    "--readonly": "look only: nothing can be changed",
    "--low-bandwidth": "for slow links: news every two seconds, no bars, no mouse",
    "--ascii": "for terminals and fonts without other signs; by itself where the locale is C",
    "--no-ascii": "all signs, whatever the locale says",
    "--no-mouse": "the mouse is the terminal's own; M gives it back",
}
"""Options without a value, and what each does."""
SIGNS = ("--ascii", "--no-ascii")
WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""Set by `warpdeck serve`: the terminal is a browser's."""

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
"""Of mallopt(3)."""
LARGE_BYTES = 128 * 1024


class Options(NamedTuple):
    """The app's own, for every verb that opens it; those of SWITCHES by their names."""

    theme: str = ""
    readonly: bool = False
    low_bandwidth: bool = False
    ascii: bool = False
    no_ascii: bool = False
    no_mouse: bool = False


def main(argv: Sequence[str] = ()) -> int:
    """Opens the app on the default home. Raises UserError."""
    return start(_parsed(argv) if argv else Options())


def _parsed(argv: Sequence[str]) -> Options:
    import argparse  # most people give no option, and need not wait for it

    parser = argparse.ArgumentParser(prog="warpdeck", description="The full-screen app.")
    add_options(parser)
    return options_in(parser.parse_args(list(argv)))


def add_options(parser: argparse.ArgumentParser) -> None:
    """To the parser of a verb."""
    group = parser.add_argument_group("the app")
    group.add_argument("--theme", default="", metavar="NAME", help="the theme to begin with")
    signs = group.add_mutually_exclusive_group()
    for option, words in SWITCHES.items():
        (signs if option in SIGNS else group).add_argument(option, action="store_true", help=words)


def options_in(args: argparse.Namespace) -> Options:
    """What such a parser has found of them."""
    return Options(**{name: getattr(args, name) for name in Options._fields})


def as_words(options: Options) -> list[str]:
    """As a command line."""
    given = [switch for switch in SWITCHES if getattr(options, switch.strip("-").replace("-", "_"))]
    return [*([f"--theme={options.theme}"] if options.theme else []), *given]


def start(
    options: Options,
    *,
    everybody: bool = False,
    at: tuple[str, str] = ("queue", ""),
    moment: float | None = None,
) -> int:
    """Opens the app with these options at that screen, of that job or node, as it was at that moment. Raises UserError."""
    if os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER:
        end_with_parent()
        return run(options, everybody=everybody, at=at, moment=moment)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("the app needs a terminal", "see `warpdeck --help` for the verbs")
    return guarded(lambda: run(options, everybody=everybody, at=at, moment=moment))


def run(options: Options, *, everybody: bool, at: tuple[str, str], moment: float | None) -> int:
    """The app itself, until it is left."""
    wanted = _settings()
    plain, why = plain_signs(options, wanted)
    low_bandwidth = options.low_bandwidth or wanted.low_bandwidth
    if low_bandwidth:
        os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "256")
    with _loading():
        app = importlib.import_module("warpdeck_tui.app").DeckApp(
            everybody=everybody,
            at=at,
            moment=moment,
            readonly=options.readonly,
            theme=options.theme,
            low_bandwidth=low_bandwidth,
            plain_signs=plain,
        )
        if why:
            app.chronicle.add(f"warpdeck --ascii  # {why}; --no-ascii draws all signs")
        importlib.import_module("warpdeck_tui.terminal.lent_terminal").leave_at_hang_up(app)
    give_memory_back()
    app.run(mouse=wanted.mouse and not (options.no_mouse or low_bandwidth))
    return app.return_code or 0


def plain_signs(options: Options, wanted: Settings) -> tuple[bool, str]:
    """Whether only ASCII is drawn; and where nobody has asked for it, what in the environment says so. A browser shows all."""
    if options.ascii or options.no_ascii:
        return options.ascii, ""
    if wanted.ascii is not None:
        return wanted.ascii, ""
    is_browser = os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER
    why = "" if is_browser else lacks_signs(as_started(os.environ))
    return bool(why), why


def give_memory_back() -> None:
    """Threads take memory from the heap that there is, where each would keep one of its own with all that its largest answer took;
    and what is large is given back at once, where the C library would keep ever more of it at hand."""
    with contextlib.suppress(OSError, AttributeError):  # a C library without it
        c_library = ctypes.CDLL(None)
        c_library.mallopt(M_ARENA_MAX, 1)
        c_library.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """What is imported stays for good: the collector neither runs meanwhile, which is a tenth of the time, nor looks at it
    later. Nothing of ours speaks TLS over asyncio, which goes without where there is none: that is as much again."""
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
    """The user's own; the app itself tells what is wrong with them."""
    try:
        return read_settings()
    except UserError:
        return Settings()
