"""Replays the site's past under another policy, with `warpdeck simulate` in a process that can be ended."""

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
"""Largest answer in bytes. It has one line for each of some ten thousand users."""
_NAMED = re.compile(r"warpdeck(?: simulate)?: ")
"""Prefix of the command's messages, which is removed."""
Progress = Callable[[str], None]


async def what_if(words: Sequence[str], paths: Paths, progress: Progress) -> WhatIf:
    """Run the simulation with these options and return its result. `progress` is called with its percentages.

    If this coroutine is canceled, the process is killed. Raises UserError.
    """
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
        raise UserError(
            f"Cannot start the simulation: {error}", "Run `warpdeck simulate` in a shell"
        ) from error
    assert process.stdout is not None and process.stderr is not None
    try:
        answer, told = await asyncio.gather(process.stdout.read(), _follow(process.stderr, progress))
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code:
        message, _, hint = told.partition("\n")
        raise UserError(
            message or f"The simulation exited with {code}", hint or "See `warpdeck simulate --help`"
        )
    try:
        return msgspec.json.decode(answer, type=WhatIf)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UserError(
            f"Cannot read the result of the simulation: {error}", "Run `warpdeck simulate` in a shell"
        ) from error


async def _follow(errors: asyncio.StreamReader, progress: Progress) -> str:
    """Pass percentages on to `progress`, and return the error message and its next step, a line each."""
    told: list[str] = []
    async for line in errors:
        words = line.decode(errors="replace").strip()
        if words.endswith(" %"):
            progress(words)
        elif words:
            told.append(words)
    first = next((at for at, line in enumerate(told) if _NAMED.match(line)), 0)
    return "\n".join(_NAMED.sub("", line) for line in told[first:][-3:])
