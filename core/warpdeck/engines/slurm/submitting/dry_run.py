"""The forecast of a submission by sbatch --test-only, which submits nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import UNREACHABLE, SlurmCommands, command_error
from warpdeck.engines.slurm.reading import values
from warpdeck.engines.slurm.versions import Version
from warpdeck.model import Request
from warpdeck.protocol.site_rows import ForecastRow

from .sbatch_options import submission_arguments

NOW_S = 5.0
"""A job that starts within this number of seconds starts now."""
_SCRIPT = b"#!/bin/sh\n"
_START = re.compile(
    r"Job (?P<id>\d+) to start at (?P<start>\S+)(?: a)? using (?P<cpus>\d+) processors "
    r"on (?:nodes )?(?P<nodes>\S+)(?: in partition (?P<partition>\S+))?"
)
"""The line of a heterogeneous job names no partition. 26.05 writes a stray "a" after the time."""


async def forecast(
    commands: SlurmCommands, requests: Sequence[Request], version: Version, *, now: float
) -> ForecastRow:
    """Return the expected start of a job, or the reason why Slurm would refuse it. Raises UserError if it is down."""
    asked = [msgspec.structs.replace(each, hold=False, code_due_unix=None) for each in requests]
    try:
        arguments = submission_arguments(asked, version)
    except UserError as error:
        return _never(requests[0], error)
    folder = requests[0].submit_dir
    output = await commands.change(
        ["sbatch", "--test-only", *arguments], data=_SCRIPT, cwd=folder if os.path.isdir(folder) else "/"
    )
    found = _START.search(output.err)
    if found is None:
        refused = command_error("sbatch", output.err.replace("allocation failure: ", ""))
        if refused.code == UNREACHABLE:
            raise refused
        return _never(requests[0], refused)
    return _row(requests[0], found, now=now)


def _row(request: Request, found: re.Match[str], *, now: float) -> ForecastRow:
    start = values.unix_time(found["start"])
    starts_now = start is not None and start <= now + NOW_S
    return ForecastRow(
        verdict="now" if starts_now else "later",
        id=int(found["id"]),
        partition=found["partition"] or request.partition,
        cpus=int(found["cpus"]),
        node_list=found["nodes"] if starts_now else "",
        expected_start=start,
        sentence="" if starts_now else f"Slurm expects it to start on {found['nodes']} at this time",
    )


def _never(request: Request, error: UserError) -> ForecastRow:
    return ForecastRow(
        verdict="never",
        partition=request.partition,
        code=error.code,
        sentence=error.message.removeprefix("sbatch: "),
        hint=error.hint,
    )
