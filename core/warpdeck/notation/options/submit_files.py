"""Files other than the script that a submission reads: variables, and the process limits of the submitter.

A caller that parses on behalf of another process passes no reader. Options that name a file are then
rejected, and no limits are sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from warpdeck.base.errors import UserError

FileReader = Callable[[str], str]
"""Returns the content of a file. The path is relative to the submit directory. Raises OSError."""
LIMITS_FILE = "/proc/self/limits"
LIMITS = {
    "AS": "Max address space",
    "CORE": "Max core file size",
    "CPU": "Max cpu time",
    "DATA": "Max data size",
    "FSIZE": "Max file size",
    "MEMLOCK": "Max locked memory",
    "NOFILE": "Max open files",
    "NPROC": "Max processes",
    "RSS": "Max resident set",
    "STACK": "Max stack size",
}
"""Names of --propagate -> names in the kernel's file."""
UNLIMITED = -1
_MAX_LIMIT = 2**62
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def variables_of_file(name: str, where: str, read: FileReader | None) -> dict[str, str]:
    """Return the variables of --export-file: NAME=VALUE entries, each ended by a zero byte. Raises
    UserError.
    """
    found = {}
    for entry in file_text(name, where, read).split("\0"):
        variable, equals, value = entry.lstrip("\n").partition("=")
        if not variable and not equals:
            continue
        if not equals or not _NAME.fullmatch(variable):
            raise UserError(
                f"{where}: --export-file={name}: {variable[:80]!r} is not NAME=VALUE",
                "write NAME=VALUE entries that each end with a zero byte, as `env -0` does",
            )
        found[variable] = value
    return found


def propagated(value: str, text: str) -> dict[str, int]:
    """Return the soft limits of the submitter (from the text of LIMITS_FILE) that --propagate names. Raises
    UserError.
    """
    names = {word.strip().upper().removeprefix("RLIMIT_") for word in (value or "ALL").split(",")} - {""}
    unknown = sorted(names - LIMITS.keys() - {"ALL", "NONE"})
    if unknown:
        raise UserError(f"--propagate={value}: there is no limit {unknown[0]}", f"write {', '.join(LIMITS)}")
    known = {} if names == {"NONE"} else soft_limits(text)
    return known if "ALL" in names else {name: known[name] for name in LIMITS if name in names & known.keys()}


def soft_limits(text: str) -> dict[str, int]:
    """Return name -> soft limit in the unit of setrlimit(2); UNLIMITED for none."""
    by_words = {words: name for name, words in LIMITS.items()}
    found = {}
    for line in text.splitlines()[1:]:
        words, rest = line[:26].strip(), line[26:].split()
        if words in by_words and rest:
            soft = UNLIMITED if rest[0] == "unlimited" else int(rest[0]) if rest[0].isdecimal() else 0
            found[by_words[words]] = min(soft, _MAX_LIMIT)
    return found


def file_text(name: str, where: str, read: FileReader | None) -> str:
    """Return the content of a file that an option names. Raises UserError."""
    if read is None:
        raise UserError(
            f"{where}: the file {name} cannot be read from here",
            "write its content on the command line instead",
        )
    try:
        return read(name)
    except (OSError, UnicodeDecodeError) as error:
        why = (
            error.strerror or "it cannot be opened" if isinstance(error, OSError) else "it is not UTF-8 text"
        )
        raise UserError(f"{where}: cannot read {name}: {why}", "check the path") from None
