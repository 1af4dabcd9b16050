"""Errors with the wording and the exit codes of sbatch, srun and salloc.

Source: the man pages, and the commands of Slurm 22.05. SLURM_EXIT_ERROR and SLURM_EXIT_IMMEDIATE are exit codes
for commands whose program never ran. Only errors after the options were read have these codes. An invalid option
value has Slurm's own exit code, and so do errors that Slurm calls fatal.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.base.errors import UserError

VALUE_EXIT = 255
"""sbatch's exit code for an invalid option value."""
PLAIN = 1
ERROR = "SLURM_EXIT_ERROR"
IMMEDIATE = "SLURM_EXIT_IMMEDIATE"


def exit_code(environ: Mapping[str, str], variable: str = ERROR) -> int:
    """Return the exit code from the variable if it is a nonzero number, else 1."""
    text = environ.get(variable, "")
    return (int(text) % 256 if text.isascii() and text.isdigit() and len(text) < 10 else 0) or PLAIN


class Refusal(UserError):
    """An error of sbatch.

    `message` is sbatch's text. `level` is error, fatal, or "" for getopt's messages without a level. `lines`
    is the complete output. An `exit_code` of 0 depends on the phase: VALUE_EXIT while options are read, 1
    when they are checked together.
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
        """True for requested information, which is not an error and goes to standard output unchanged."""

    @property
    def lines(self) -> list[str]:
        """The complete lines of the error, as sbatch prints them after "sbatch: "."""
        return [*self.more, f"{self.level}: {self.message}" if self.level else self.message]


def invalid(option: str, hint: str, *more: str) -> Refusal:
    """Return the error "Invalid --OPTION specification"."""
    return Refusal(f"Invalid --{option} specification", hint, more=more)
