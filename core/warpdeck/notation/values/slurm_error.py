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
_LEVEL = "error: "


def exit_code(environ: Mapping[str, str], variable: str = ERROR) -> int:
    """Return the exit code from the variable if it is a nonzero number, else 1."""
    text = environ.get(variable, "")
    return (int(text) % 256 if text.isascii() and text.isdigit() and len(text) < 10 else 0) or PLAIN


class SlurmError(UserError):
    """An error in the wording of sbatch, srun or salloc, with our next step as its hint.

    `message` is the sentence about the error. `level` is the word that Slurm prints before it: error, fatal, or "".
    An `exit_code` of 0 depends on the phase: VALUE_EXIT while options are read, 1 when they are checked together.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        level: str = "error",
        more: tuple[str, ...] = (),
        after: tuple[str, ...] = (),
        exit_code: int = 0,
        is_answer: bool = False,
        code: str = "",
    ) -> None:
        super().__init__(message, hint, exit_code=exit_code, code=code)
        self.level = level
        self.more = more
        """Complete lines that Slurm prints before the message."""
        self.after = after
        """Complete lines that Slurm prints after the message."""
        self.is_answer = is_answer
        """True for requested information, which is not an error and goes to standard output unchanged."""
        self.script_line = 0
        """The line of the script that cannot be read; 0 if the error is not about a line."""

    @property
    def lines(self) -> list[str]:
        """The complete lines of the error, as sbatch prints them after "sbatch: "."""
        return [*self.more, f"{self.level}: {self.message}" if self.level else self.message, *self.after]

    def sentence(self, option: str, text: str) -> str:
        """Return the error as one sentence that names the option and its value, which Slurm's message may lack."""
        details = [line.removeprefix(_LEVEL) for line in self.more]
        words = "; ".join([*details, self.message]).rstrip(". ")
        if option and f"--{option}" not in words:
            return f"--{option}={text}: {words}"
        return words if text in words else f"{words}: {text!r}"


def invalid(option: str, hint: str, *more: str) -> SlurmError:
    """Return the error "Invalid --OPTION specification"."""
    return SlurmError(f"Invalid --{option} specification", hint, more=more)
