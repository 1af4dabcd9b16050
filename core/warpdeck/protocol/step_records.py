"""Records of steps for sacct and sstat. They accompany the rows of their jobs in the answers to Records.

Sizes are bytes. TRES are counted as in policy.site (mem in MiB).
"""

from __future__ import annotations

import msgspec

from warpdeck.model import Spread

from .job_rows import StepRow


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Usage on one node.

    `tasks` of the job or step ran there, and `first_task` is the number of the first one.
    """

    node: str
    tasks: int = 1
    first_task: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of the CPU seconds that the kernel used for it."""
    peak_mem_bytes: int = 0
    spreads: tuple[Spread, ...] = ()
    """Minimum, maximum and related statistics over its tasks. It is empty if this is not a step of srun."""


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A step with the measurements that its nodes reported after it had ended there."""

    row: StepRow
    tres: dict[str, int] = {}
    parts: list[PartRecord] = []
    layout: str = ""
    """Task distribution: Block or Cyclic. It is "" if this is not a step of srun."""
