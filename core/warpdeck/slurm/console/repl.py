"""Prompt of the commands that read lines if no command was given: scontrol and sacctmgr."""

from __future__ import annotations

from collections.abc import Iterator

from .console import Console

MAX_LINE = 1 << 20
AGAIN = "!!"


def prompted(console: Console, prompt: str) -> Iterator[str]:
    """Yield the lines that the user enters until the end of input; !! repeats the last line.

    Without a terminal, each line is echoed. On a terminal, the end of input ends the prompt's line.
    """
    last = ""
    console.controller.mark_idle()
    while True:
        console.streams.out.write(prompt)
        console.streams.out.flush()
        line = console.streams.stdin.readline(MAX_LINE)
        if not console.streams.columns:
            console.streams.out.write(line.rstrip("\n") + "\n")
        elif not line:
            console.streams.out.write("\n")
        if not line:
            return
        if line.strip() != AGAIN:
            last = line
        yield last
