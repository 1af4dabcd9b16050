"""Notifications of a job and its user: --signal and --mail-type."""

from __future__ import annotations

import signal

from warpdeck.notation.values.numbers import is_blank, strtol
from warpdeck.notation.values.refusal import invalid

from .option_fields import Fields, OptionText, SlurmValue

_MAIL_BITS = {
    "ARRAY_TASKS": 1,
    "INVALID_DEPEND": 2,
    "BEGIN": 4,
    "END": 8,
    "FAIL": 16,
    "REQUEUE": 32,
    "STAGE_OUT": 64,
    "TIME_LIMIT_50": 128,
    "TIME_LIMIT_80": 256,
    "TIME_LIMIT_90": 512,
    "TIME_LIMIT": 1024,
}
_ALL_MAIL = sum(
    _MAIL_BITS[name] for name in ["INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT"]
)
MAIL_SHARES = {"TIME_LIMIT_50": 0.5, "TIME_LIMIT_80": 0.8, "TIME_LIMIT_90": 0.9}
"""Events that occur when this share of the time limit has passed."""


def _read_mail_type(fields: Fields, value: OptionText) -> None:
    """Add mail types. If the option is given several times, all of them count."""
    fields.mail_types |= _mail_bits(value.word)


def parse_mail_types(text: str) -> list[str]:
    """Return the events that --mail-type names; [] for NONE. Raises UserError."""
    bits = _mail_bits(text)
    return [name for name, bit in _MAIL_BITS.items() if bits & bit]


def _mail_bits(text: str) -> int:
    """Return the bits of the events. Invalid words are ignored unless all words are invalid. Raises
    UserError.
    """
    found, none = 0, False
    for word in filter(None, text.upper().split(",")):
        if word == "NONE":
            found, none = 0, True
            break
        found |= _ALL_MAIL if word == "ALL" else _MAIL_BITS.get(word, 0)
    if not found and not none:
        raise invalid("mail-type", "write such as BEGIN,END,FAIL or ALL")
    return found


def _show_mail_type(fields: Fields, option: str) -> str:
    return ",".join(name for name, bit in _MAIL_BITS.items() if fields.mail_types & bit) or "NONE"


_SIGNALS = [
    "HUP",
    "INT",
    "QUIT",
    "ABRT",
    "KILL",
    "ALRM",
    "TERM",
    "USR1",
    "USR2",
    "URG",
    "CONT",
    "STOP",
    "TSTP",
    "TTIN",
    "TTOU",
    "XCPU",
]
"""The signal names that Slurm knows."""
MAX_LEAD_S = 65_535
DEFAULT_LEAD_S = 60


def read_signal(fields: Fields, value: OptionText) -> None:
    """Read [R][B][:]SIGNAL[@SECONDS]. R and B stay set once they were given. Raises Refusal."""
    word = value.word
    for letter in ("R", "B", "R"):
        if word[:1].upper() == letter:
            fields.warn_reservation = fields.warn_reservation or letter == "R"
            fields.warn_batch = fields.warn_batch or letter == "B"
            word = word[1:]
    name, at, lead = word.removeprefix(":").partition("@")
    number = signal_number(name) % 2**16
    lead_s, rest = strtol(lead) if at else (DEFAULT_LEAD_S, "")
    if not number or not 0 <= lead_s <= MAX_LEAD_S or rest:
        raise invalid("signal", "write [B:]SIGNAL[@SECONDS], such as B:USR1@120")
    fields.warn_signal, fields.warn_s = number, lead_s


def signal_number(name: str) -> int:
    """Return the number of a signal given by name or number; 0 if it is invalid."""
    number, rest = strtol(name)
    if rest != name:
        return number if is_blank(rest) else 0
    word = name.strip().upper().removeprefix("SIG")
    return int(signal.Signals["SIG" + word]) if word in _SIGNALS else 0


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number if Slurm has no name for it."""
    names = {int(signal.Signals["SIG" + name]): name for name in _SIGNALS}
    return names.get(number, str(number))


def show_signal(fields: Fields, option: str) -> str:
    where = ("R" if fields.warn_reservation else "") + ("B" if fields.warn_batch else "")
    lead = f"@{fields.warn_s}" if fields.warn_s != DEFAULT_LEAD_S else ""
    return f"{where}{':' if where else ''}{signal_name(fields.warn_signal)}{lead}"


MAIL_TYPE = SlurmValue(_read_mail_type, _show_mail_type, ("mail_types",))
SIGNAL = SlurmValue(read_signal, show_signal)
