"""Problems of a configuration. Each problem has a key and, once the file was examined, a line."""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.notation.config.toml_lines import Path

MAX_PROBLEMS = 100
"""Maximum number of problems kept for one file. A file of another type would have thousands."""


def dotted(path: Path) -> str:
    """Return a key as written in TOML, such as partitions.gpu.max_time or nodes."gpu[01-08]".switch."""
    return ".".join(word if _is_bare(word) else quoted(word) for word in path)


def quoted(text: str) -> str:
    """Return the text as a TOML basic string."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in plain) + '"'


def _is_bare(word: str) -> bool:
    return bool(word) and word.isascii() and word.replace("-", "").replace("_", "").isalnum()


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence about one key. `line` is 0 if unknown."""

    path: Path
    text: str
    line: int = 0
    column: int = 0

    def sentence(self, file: str) -> str:
        """Return "file:line: key: text", the format of compiler errors."""
        place = ":".join([file, *(str(number) for number in (self.line, self.column) if number)])
        key = f"{dotted(self.path)}: " if self.path else ""
        return f"{place}: {key}{self.text}"


class ConfigError(UserError):
    """The configuration cannot be used. `problems` are all problems that were found."""

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        first, rest = problems[0], len(problems) - 1
        more = f" (and {rest} more)" if rest else ""
        super().__init__(
            first.sentence(file) + more,
            "correct the file; `warpdeck config check` lists all errors",
            code="config",
            details={"problems": "\n".join(problem.sentence(file) for problem in problems)},
        )
        self.file = file
        self.problems = problems
