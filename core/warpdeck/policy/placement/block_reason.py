"""Block reasons: the cause that kept a job from starting in a pass.

A block reason without a sentence gets one at the end of the pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .request_class import RequestClass


class BlockReason:
    """The block reason of a job.

    If `request_class` is set, the job did not fit for `duration_s` in the resource pool of `reservation`.
    Otherwise `sentence` names the rule that forbids the start. Block reasons are compared by identity: jobs
    that share a block reason get the same pending reason.
    """

    __slots__ = ("code", "duration_s", "request_class", "reservation", "sentence")

    def __init__(
        self,
        code: str,
        sentence: str = "",
        *,
        request_class: RequestClass | None = None,
        duration_s: float = 0.0,
        reservation: str = "",
    ) -> None:
        self.code = code
        self.sentence = sentence
        self.request_class = request_class
        self.duration_s = duration_s
        self.reservation = reservation


FIFO_BLOCKED = BlockReason("Priority")
BUSY = BlockReason("None", "may start in a moment: the scheduler is starting other jobs")
