"""Options as they were given on a command line, in a script or by a variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from warpdeck.notation.values.slurm_error import SlurmError


def _no_file(name: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", name)


class OptionSource:
    """External data that the parser needs. The notation package itself reads neither clock nor disk."""

    def __init__(
        self,
        *,
        cwd: str,
        environ: Mapping[str, str],
        now: float,
        is_root: bool = False,
        user_id: Callable[[str], int | None] = lambda name: None,
        group_id: Callable[[str], int | None] = lambda name: None,
        read_text: Callable[[str], str] = _no_file,
        gres: tuple[str, ...] = ("gpu", "shard", "nvme"),
    ) -> None:
        self.cwd = cwd
        self.environ = environ
        self.now = now
        self.is_root = is_root
        self.user_id = user_id
        self.group_id = group_id
        self.read_text = read_text
        """Function that returns the content of a file and raises OSError if that fails."""
        self.gres = gres
        """Resources that --gres may name."""


class GivenOption(NamedTuple):
    """An option as it was given. `value_table.with_values` adds the value.

    A word that is not an option is represented by an entry with an error and without a name.
    """

    option: str
    text: str | None = None
    """The value as text; None if the option was given without a value."""
    where: str = ""
    """Where it was given, for messages: "job.sh:2", "command line", or the name of a variable."""
    line: int = 0
    """The line of the script; 0 if it was given elsewhere."""
    is_variable: bool = False
    """Whether an environment variable sets the option."""
    is_off: bool = False
    """Whether the variable turns the option off."""
    typed: str = ""
    """The word of the command line that contains the option's name."""
    value: Any = None
    """The value in the type of the option's row; None if it has an error."""
    error: SlurmError | None = None

    @property
    def word(self) -> str:
        """The value as text; "" if there is none."""
        return self.text or ""


Options = list[GivenOption]
"""Options in the order in which they were given; later ones win."""
