"""Notifications of a job and its user: --signal and --mail-type."""

from __future__ import annotations

import signal

from warpdeck.notation.values.numbers import is_blank, strtol
from warpdeck.notation.values.refusal import invalid

from .option_fields import Fields, OptionSource

MAIL_BITS = {
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
    MAIL_BITS[name] for name in ["INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT"]
)


def set_mail_type(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Add mail types. If the option is given several times, all of them count."""
    fields.mail_types |= mail_bits(text)


def mail_bits(text: str | None) -> int:
    """Return the bits of the events. Invalid words are ignored unless all words are invalid. Raises
    UserError.
    """
    found, none = 0, False
    for word in filter(None, (text or "").upper().split(",")):
        if word == "NONE":
            found, none = 0, True
            break
        found |= _ALL_MAIL if word == "ALL" else MAIL_BITS.get(word, 0)
    if not found and not none:
        raise invalid("mail-type", "write such as BEGIN,END,FAIL or ALL")
    return found


def mail_text(types: int) -> str:
    """Return the canonical form of a --mail-type value."""
    return ",".join(name for name, bit in MAIL_BITS.items() if types & bit) or "NONE"


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


def set_signal(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Set [R][B][:]SIGNAL[@SECONDS]. R and B stay set once they were given."""
    word = text or ""
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


def show_signal(fields: Fields) -> str:
    where = ("R" if fields.warn_reservation else "") + ("B" if fields.warn_batch else "")
    lead = f"@{fields.warn_s}" if fields.warn_s != DEFAULT_LEAD_S else ""
    return f"{where}{':' if where else ''}{signal_name(fields.warn_signal)}{lead}"
