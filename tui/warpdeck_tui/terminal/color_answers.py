"""The terminal's answer to the question whether it shows RGB colors.

COLORTERM would tell it, but SSH does not forward this variable. So the app asks for the terminal's name and version
(XTVERSION), for its secondary device attributes, which identify terminals without XTVERSION, and for its primary
device attributes, which every terminal answers and which therefore end the waiting. The answers arrive among the
typed keys and are removed there. A terminal that never answers keeps its 256 colors. tmux answers for itself, so inside
tmux its client is asked in another way (see `tmux_shows_rgb`).
"""

from __future__ import annotations

import asyncio
import re

QUESTIONS = "\x1b[>0q\x1b[>c\x1b[c"
TMUX_TIMEOUT_S = 5.0
"""Seconds to wait for tmux. It answers in milliseconds unless its server hangs."""
_ANSWER = re.compile(
    r"\x1bP>\|(?P<version>[^\x1b\x07]{0,200})(?:\x1b\\|\x07)|\x1b\[(?P<kind>[?>])(?P<numbers>[\d;]{0,60})c"
)
_BEGUN = re.compile(r"\x1b(?:P(?:>(?:\|[^\x1b\x07]{0,200}\x1b?)?)?|\[(?:[?>][\d;]{0,60})?)?\Z")
"""Matches the beginning of an answer at the end of what has been read."""
RGB_VERSIONS = (
    *(
        "alacritty",
        "contour",
        "foot",
        "ghostty",
        "iterm2",
        "kitty",
        "konsole",
        "mintty",
        "rio",
        "vte(",
        "wezterm",
    ),
    *("windows terminal", "xterm(", "xterm.js"),
)
"""Beginnings of the XTVERSION of terminals that show RGB colors, in lower case."""
MULTIPLEXERS = ("tmux", "screen", "zellij")
"""Programs whose terminal may have fewer colors than they accept. They convert colors themselves."""
_ANY = range(1_000_000)
RGB_DEVICES = (
    (0, _ANY, 1),  # Alacritty, Windows Terminal
    (0, range(276, 277), 0),  # xterm.js, as in VS Code
    (1, range(115, 116), 0),  # Konsole
    (1, range(277, 278), 0),  # WezTerm
    (1, range(3600, 1_000_000), None),  # VTE since 0.36, kitty, foot
    (41, range(331, 1_000_000), None),  # xterm
    (61, range(3600, 1_000_000), None),  # VTE since 0.76
    (65, range(3600, 1_000_000), None),  # VTE since 0.52
    (77, _ANY, None),  # mintty
)
"""Secondary device attributes of terminals that show RGB colors: type, range of versions, and third number or None."""


class ColorAnswers:
    """Removes the terminal's answers from its input, and finds out from them whether it shows RGB colors."""

    def __init__(self) -> None:
        self.has_rgb = False
        self.is_complete = False
        """Whether the last answer has arrived."""
        self._held = ""
        """The beginning of an answer, or of another sequence."""
        self._version = ""

    def take(self, text: str) -> str:
        """Return the input without answers. A beginning of an answer is held until more input arrives."""
        if self.is_complete and not self._held:
            return text
        text = _ANSWER.sub(self._note, self._held + text)
        begun = None if self.is_complete else _BEGUN.search(text)
        self._held = begun[0] if begun else ""
        return text.removesuffix(self._held)

    def give_back(self) -> str:
        """Return what is held, because nothing has followed it and it is a key."""
        held, self._held = self._held, ""
        return held

    def _note(self, answer: re.Match[str]) -> str:
        if answer["version"] is not None:
            self._version = answer["version"].lower()
            self.has_rgb = self._version.startswith(RGB_VERSIONS)
        elif answer["kind"] == "?":
            self.is_complete = True
        elif not self._version.startswith(MULTIPLEXERS):
            numbers = [int(each or 0) for each in answer["numbers"].split(";")]
            self.has_rgb |= is_rgb_device(*[*numbers, 0, 0, 0][:3])
        return ""


def is_rgb_device(kind: int, version: int, third: int) -> bool:
    """Return whether a terminal with these secondary device attributes shows RGB colors."""
    return any(kind == row[0] and version in row[1] and row[2] in (None, third) for row in RGB_DEVICES)


async def tmux_shows_rgb() -> bool:
    """Return whether the terminal in which tmux runs shows RGB colors."""
    argv = ("tmux", "display-message", "-p", "#{client_termfeatures}")
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        output, _ = await asyncio.wait_for(process.communicate(), TMUX_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return "RGB" in output.decode(errors="replace").strip().split(",")
