"""Why a job did not start in a pass. Pure data; what has no words of its own is put into words at the end of the pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .request_shape import Shape


class Obstacle:
    """With a `shape` it did not fit for `duration_s` on the field of its reservation; else `sentence` says what forbids it.

    Told apart by identity: those who meet the same one are told the same.
    """

    __slots__ = ("code", "duration_s", "reservation", "sentence", "shape")

    def __init__(
        self,
        code: str,
        sentence: str = "",
        *,
        shape: Shape | None = None,
        duration_s: float = 0.0,
        reservation: str = "",
    ) -> None:
        self.code = code
        self.sentence = sentence
        self.shape = shape
        self.duration_s = duration_s
        self.reservation = reservation


IN_LINE = Obstacle("Priority")
BUSY = Obstacle("None", "may start in a moment: the scheduler is busy starting others")
