"""What is kept of steps, for sacct and sstat: beside the rows of their jobs. The shapes of the answers to Records.

Sizes are bytes, TRES as in policy.site (mem in MiB).
"""

from __future__ import annotations

import msgspec

from warpdeck.model import Spread

from .job_rows import StepRow


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was used on one node. `tasks` of the job or step ran there, the first of them is `first_task`."""

    node: str
    tasks: int = 1
    first_task: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """Of the CPU seconds, those that the kernel spent for it."""
    peak_mem_bytes: int = 0
    spreads: tuple[Spread, ...] = ()
    """Over its tasks; none of what is no step of srun's."""


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A step with what its nodes said of it once it had ended there."""

    row: StepRow
    tres: dict[str, int] = {}
    parts: list[PartRecord] = []
    layout: str = ""
    """Block, Cyclic; "" of what is no step of srun's."""
