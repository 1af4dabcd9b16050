"""The prompt of commands that read lines when nothing was asked of them: scontrol and sacctmgr alone."""

from __future__ import annotations

from collections.abc import Iterator

from .console import Console

MAX_LINE = 1 << 20
AGAIN = "!!"


def prompted(console: Console, prompt: str) -> Iterator[str]:
    """Lines until the end, which leaves the prompt's line; !! is the last one again. What no terminal shows is echoed."""
    last = ""
    console.linger()
    while True:
        console.out.write(prompt)
        console.out.flush()
        line = console.stdin.readline(MAX_LINE)
        if not console.columns:
            console.out.write(line.rstrip("\n") + "\n")
        elif not line:
            console.out.write("\n")
        if not line:
            return
        if line.strip() != AGAIN:
            last = line
        yield last
