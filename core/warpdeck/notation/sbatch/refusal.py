"""A refusal in sbatch's own words."""

from __future__ import annotations

from warpdeck.errors import UserError


class Refusal(UserError):
    """`message` is what sbatch says, `level` how (error, fatal, or "" for getopt's plain words); `lines` all that it says."""

    def __init__(
        self, message: str, hint: str = "", *, level: str = "error", more: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, hint)
        self.level = level
        self._more = more

    @property
    def lines(self) -> list[str]:
        """As sbatch prints them after "sbatch: "."""
        return [*self._more, f"{self.level}: {self.message}" if self.level else self.message]


def invalid(option: str, hint: str, *more: str) -> Refusal:
    """Invalid --OPTION specification."""
    return Refusal(f"Invalid --{option} specification", hint, more=more)
