"""A refusal in sbatch's own words."""

from __future__ import annotations

from warpdeck.base.errors import UserError

VALUE_EXIT = 255
"""sbatch's for a value that its option does not take."""


class Refusal(UserError):
    """`message` is what sbatch says, `level` how (error, fatal, or "" for getopt's plain words); `lines` all that it says.

    `exit_code` 0 is that of the moment: VALUE_EXIT while options are read, 1 once they are looked at together.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        level: str = "error",
        more: tuple[str, ...] = (),
        exit_code: int = 0,
        is_answer: bool = False,
    ) -> None:
        super().__init__(message, hint, exit_code=exit_code)
        self.level = level
        self.more = more
        self.is_answer = is_answer
        """It is no complaint: it was asked for, and goes to the standard output as it is."""

    @property
    def lines(self) -> list[str]:
        """As sbatch prints them after "sbatch: "."""
        return [*self.more, f"{self.level}: {self.message}" if self.level else self.message]


def invalid(option: str, hint: str, *more: str) -> Refusal:
    """Invalid --OPTION specification."""
    return Refusal(f"Invalid --{option} specification", hint, more=more)
