"""What if: the site's past replayed under another policy, by `warpdeck simulate` in a process of its own, which can be ended."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence

import msgspec

from warpdeck.errors import UserError
from warpdeck.paths import Paths

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A line for each of some ten thousand users."""
_NAMED = re.compile(r"warpdeck(?: simulate)?: (?:error: )?")
"""What a command says begins with its name."""
Progress = Callable[[str], None]


class WaitChange(msgspec.Struct, frozen=True, kw_only=True):
    """What it means for one user or account: mean waits in seconds (sim.history.Change)."""

    name: str
    jobs: int
    really_waited_s: float
    now_waits_s: float
    then_waits_s: float
    difference_s: float
    shorter: int
    longer: int


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Who loses most first; `not_started`: jobs that cannot run on today's nodes under one of the two."""

    jobs: int
    not_started: int
    users: list[WaitChange]
    accounts: list[WaitChange]


async def what_if(words: Sequence[str], paths: Paths, progress: Progress) -> WhatIf:
    """Runs it with these options; `progress` is told how far it is. Cancelled, the process ends. Raises UserError."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "warpdeck.cli.main", "simulate", "--history", "--progress", "--json"),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_ANSWER_BYTES,
            env={**os.environ, "WARPDECK_HOME": paths.home},
        )
    except OSError as error:
        raise UserError(f"the simulation cannot be started: {error}", "try it in a shell") from error
    assert process.stdout is not None and process.stderr is not None
    try:
        answer, told = await asyncio.gather(process.stdout.read(), _follow(process.stderr, progress))
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code:
        raise UserError(told or f"the simulation ended with {code}", "see `warpdeck simulate --help`")
    try:
        return msgspec.json.decode(answer, type=WhatIf)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UserError(f"the simulation's answer is not understood: {error}", "try it in a shell") from error


async def _follow(errors: asyncio.StreamReader, progress: Progress) -> str:
    """Hands percentages on; the other lines are what it says."""
    told: list[str] = []
    async for line in errors:
        words = line.decode(errors="replace").strip()
        if words.endswith(" %"):
            progress(words)
        elif words:
            told.append(words)
    return "\n".join(_without_usage(told)[-3:])


def _without_usage(told: list[str]) -> list[str]:
    """What is wrong, and not the options that argparse lists before it."""
    first = next((at for at, line in enumerate(told) if _NAMED.match(line)), 0)
    return [_NAMED.sub("", line) for line in told[first:]]
