"""How a job ended, similar to `subprocess.CompletedProcess`."""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import WarpdeckError
from warpdeck.model import JobState
from warpdeck.protocol.job_rows import JobRow

SIGNALLED = 128
"""Added to a signal's number in an exit code, as shells do."""


class JobFailed(WarpdeckError):  # named for the event, as CalledProcessError is
    """A job, or a task of an array, did not end as COMPLETED. `outcome` contains the rows."""

    def __init__(self, outcome: Outcome, output: str = "") -> None:
        worst = next(row for row in outcome.rows if row.state != JobState.COMPLETED)
        cause = f" ({worst.exit_cause})" if worst.exit_cause else ""
        more = sum(row.state != JobState.COMPLETED for row in outcome.rows) - 1
        others = f", and {more} more of its array" if more else ""
        tail = f"; the end of its output:\n{output}" if output else ""
        code = f", exit code {worst.exit_code}" if worst.exit_code else ""
        super().__init__(f"job {worst.label} ended as {worst.state}{code}{cause}{others}{tail}")
        self.outcome = outcome

    def __reduce__(self) -> tuple[type[JobFailed], tuple[Outcome]]:
        return type(self), (self.outcome,)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a submission: one row, or one row for each task of an array in the order of the tasks."""

    rows: list[JobRow]

    @property
    def ok(self) -> bool:
        """True if all rows are COMPLETED."""
        return all(row.state == JobState.COMPLETED for row in self.rows)

    @property
    def exit_code(self) -> int:
        """The exit code that `sbatch --wait` would give: the highest one of all tasks.

        It is 128 plus the signal for a task that a signal ended, and 1 if it is unknown.
        """
        return max(_exit_code(row) for row in self.rows)

    def check(self) -> Outcome:
        """Return this outcome. Raises JobFailed unless it is `ok`."""
        if not self.ok:
            raise JobFailed(self)
        return self


def _exit_code(row: JobRow) -> int:
    code, _, signal = row.exit_code.partition(":")
    if not code:
        return int(row.state != JobState.COMPLETED)
    return SIGNALLED + int(signal) if int(signal or 0) else int(code)
