"""The queue: jobs with their state, progress and GPU use, and the reason of those that wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.binding import BindingType

from warpdeck.api.rows import JobRow
from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.queue import summary

from .joblist import JobListScreen


class QueueScreen(JobListScreen):
    """Waiting and running jobs, and those that ended in the last hour; mine or everybody's."""

    place = "queue"
    folds = True
    BINDINGS: ClassVar[list[BindingType]] = bindings("queue")

    def __init__(self) -> None:
        super().__init__()
        self._summary = ""

    def source(self) -> Mapping[int, JobRow]:
        return self.deck.board.jobs

    def count(self) -> None:
        self._summary = summary(self.listing.jobs.values())

    def words(self) -> str:
        whose = "everybody's jobs" if self.deck.everybody else f"jobs of {self.deck.user}"
        board = self.deck.board
        if not board.ready:
            return whose
        gpus = f"   {board.held_gpus} of {plural(board.gpus, 'GPU')} held" if board.gpus else ""
        return f"{whose}   {self._summary}{gpus}"

    def nothing(self) -> str:
        if not self.deck.board.ready:
            return "connecting ..."
        if self.filter_text:
            return "nothing matches the filter; Esc takes it away"
        others = not self.deck.everybody and bool(self.deck.board.jobs)
        return "no jobs; n submits one" + (", u shows everybody's" if others else "")
