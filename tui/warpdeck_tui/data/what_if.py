"""What if: the site's past replayed under another policy, by `warpdeck simulate` in a process of its own, which can be ended."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck_tui.viewmodels.site.what_if import WhatIf

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A line for each of some ten thousand users."""
_NAMED = re.compile(r"warpdeck(?: simulate)?: (?:error: )?")
"""What a command says begins with its name."""
Progress = Callable[[str], None]


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
