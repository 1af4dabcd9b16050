"""Parses #PBS lines (Torque, PBS Pro) like sbatch 22.05. Resource lists (-l) are in `pbs_resources`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warpdeck.notation.options.getopt import ParsedWord
from warpdeck.notation.options.option_table import COMMAND, NONE, OPTIONAL, REQUIRED, Option, table_of
from warpdeck.notation.values.numbers import strtol
from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

from .option_mapping import NO_EFFECT, UMASK, MappedOption, ValueOf, joined
from .pbs_resources import resources

MARK = "#PBS"
_TABLE = """
start_time      a  required
account         A  required
checkpoint      c  required
working_dir     C  required
error           e  required
hold            h  none
interactive     I  none
join            -  optional
j               j  required  short
job_array       J  required
keep            k  required
resource_list   l  required
mail_options    m  required
mail_user_list  M  required
job_name        N  required
out             o  required
priority        p  required
destination     q  required
rerunable       r  required
script_path     S  required
array           t  required
running_user    u  required
variable_list   v  required
all_env         V  none
attributes      W  required
no_std          z  none
"""
"""Long name, letter, and kind of value; `short` marks options without a long name. In the order of sbatch's
messages.
"""
_TAKES = {"required": REQUIRED, "none": NONE, "optional": OPTIONAL}
OPTIONS = table_of(
    "sbatch",
    (
        Option(name, letter.removeprefix("-"), _TAKES[takes], "", COMMAND, frozenset(marks))
        for name, letter, takes, *marks in map(str.split, _TABLE.strip().splitlines())
    ),
)
_SAME = {
    "account": "account",
    "array": "array",
    "destination": "partition",
    "error": "error",
    "job_array": "array",
    "job_name": "job-name",
    "mail_user_list": "mail-user",
    "out": "output",
    "start_time": "begin",
}
"""Options that mean the same as an option of sbatch."""
_MAILS = {"b": "BEGIN", "e": "END", "a": "FAIL"}


def mapped_options(word: ParsedWord, value_of: ValueOf) -> Iterator[MappedOption]:
    """Iterate over the sbatch options that the word stands for. Raises SlurmError."""
    text = word.text or ""
    if word.option in _SAME:
        yield MappedOption(_SAME[word.option], text)
    elif word.option == "hold":
        yield MappedOption("hold", None)
    elif word.option == "priority":
        yield MappedOption("nice", str(strtol(text)[0]))
    elif word.option == "mail_options":
        yield MappedOption("mail-type", _mail_types(text.lower()))
    elif word.option == "variable_list":
        yield MappedOption("export", joined(value_of("export"), text))
    elif word.option == "resource_list":
        yield from resources(text, value_of)
    elif word.option == "attributes":
        yield _attribute(text)
    else:
        letter = OPTIONS.options[word.option].short or "j"
        yield MappedOption(NO_EFFECT, f"-{letter} {text}".rstrip())


def _mail_types(letters: str) -> str:
    """Return the mail types for -m. The letter n overrides all others."""
    if "n" in letters:
        return "NONE"
    found = [name for letter, name in _MAILS.items() if letter in letters]
    if not found:
        words = "Invalid --mail-type specification"
        raise SlurmError(
            words, "write -m with some of the letters a, b and e, or with n", exit_code=VALUE_EXIT
        )
    return ",".join(found)


def _attribute(text: str) -> MappedOption:
    name, equals, value = text.partition("=")
    if equals and name.lower() == "umask":
        return MappedOption(UMASK, _umask(value))
    if equals and name.lower() == "depend":
        return MappedOption("dependency", value)
    return MappedOption(NO_EFFECT, f"-W {text}")


_MASK_DIGITS = 5
"""A number with this many digits is too large in any base."""
_NUMBER = re.compile(r"[ \t\v\f\r]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")


def _umask(text: str) -> str:
    """Parse a number as in C: octal with a leading 0, hexadecimal with 0x, else decimal. Anything else is
    0.
    """
    match = _NUMBER.match(text)
    sign, hexadecimal, octal, decimal = match.groups() if match else ("", None, None, "0")
    digits, base = next(
        (each, base) for each, base in ((hexadecimal, 16), (octal, 8), (decimal, 10)) if each is not None
    )
    digits = digits.lstrip("0") or "0"
    mask = int(digits, base) if len(digits) < _MASK_DIGITS else 0o1000
    if mask > 0o777 or (sign == "-" and mask):
        raise SlurmError("Invalid -W umask= specification", "write such as umask=027", exit_code=VALUE_EXIT)
    return f"{mask:04o}"
