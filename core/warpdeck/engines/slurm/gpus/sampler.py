"""A step in a running job of the user that measures the job's GPUs with our program for nodes.

The bytes flow between srun and the nodes. So the step costs slurmctld a few requests at its start and at its end, and none
in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands, command_error
from warpdeck.engines.slurm.processes.launcher import Launcher
from warpdeck.fleet.field_limits import with_field_limits
from warpdeck.model import Job
from warpdeck.notation.values.hostlist import collapse
from warpdeck_agent.wire import messages as wire

INTERVAL_S = 5.0
STOP_S = 5.0
"""Seconds in which the program ends after its input was closed. Afterwards srun is told to end it."""
MAX_NOISE_LINES = 500
"""Maximum number of lines that a task prolog may print on each node."""
MAX_ERROR_BYTES = 16 * 1024
_DECODER: msgspec.json.Decoder[wire.JobSample] = msgspec.json.Decoder(with_field_limits(wire.JobSample))


def sampler_arguments(job: Job, program: str, *, shares_gpus: bool) -> list[str]:
    """Return the command that runs the program once on each node of the job, beside all other steps of the job.

    Without `shares_gpus` the step has no GPUs of Slurm, because it would wait for those that another step has.
    """
    assert job.allocation is not None
    names = job.allocation.node_names()
    return [
        *("srun", f"--jobid={job.id}", f"--nodelist={collapse(names)}", f"--nodes={len(names)}"),
        *(f"--ntasks={len(names)}", "--ntasks-per-node=1", "--overlap", "--mem=0", "--mpi=none"),
        *("--cpu-bind=none", *([] if shares_gpus else ["--gres=none"]), "--quiet", "--chdir=/"),
        *("--job-name=warpdeck", "/bin/sh", program, "gpusampler", str(INTERVAL_S)),
    ]


async def samples(commands: SlurmCommands, argv: list[str]) -> AsyncGenerator[wire.JobSample, None]:
    """Yield the lines of the programs until the step ends. Raises UserError in srun's words if it fails.

    The step is ended when the generator is closed.
    """
    process = await commands.connect(argv, environ=commands.plain_environ())
    srun = Launcher(process)
    errors = bytearray()
    reader = asyncio.create_task(_read_errors(srun.stderr, errors))
    try:
        noise = 0
        async for line in srun.stdout:
            try:
                yield _DECODER.decode(line)
            except msgspec.MsgspecError:
                noise += 1
                if noise > MAX_NOISE_LINES:
                    raise UserError("the nodes print something else than readings of GPUs") from None
        await reader
        if code := await srun.wait():
            raise command_error("srun", errors.decode(errors="replace") or f"it exited with {code}")
    except ValueError as error:
        raise UserError("a node printed a line that is too long") from error
    finally:
        srun.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await srun.wait()
        await srun.end()
        reader.cancel()


async def _read_errors(stream: asyncio.StreamReader, errors: bytearray) -> None:
    while data := await stream.read(MAX_ERROR_BYTES):
        errors += data
        del errors[:-MAX_ERROR_BYTES]
