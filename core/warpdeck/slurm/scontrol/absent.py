"""scontrol keywords that are not supported here.

Wrong arguments get Slurm's message. Otherwise the message says what to use instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from warpdeck.base.errors import UserError
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.numbers import strtol
from warpdeck.protocol.refusals import NUMBERS, WORDS

from .session import Failed, ScontrolSession

Check = Callable[[ScontrolSession, Sequence[str]], None]
LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")
REBOOT = "drain the node, reboot it, and resume it"
LOG_HINT = "the controller's log always contains all levels"
MAX_ERRNO = 133


def refused(what: str, instead: str, *, check: Check = lambda session, words: None) -> Check:
    """Return the handler of an unsupported keyword.

    `check` raises Failed for arguments that Slurm would refuse, too.
    """

    def refuse(session: ScontrolSession, words: Sequence[str]) -> None:
        check(session, words)
        raise Failed(f"scontrol: error: {what} is not supported: {instead}")

    return refuse


def admins_only(said: str) -> Check:
    """Return a check that refuses users who are not administrators, before any other check."""

    def check(session: ScontrolSession, words: Sequence[str]) -> None:
        with session.connect() as client:
            if not client.welcome["admin"]:
                raise Failed(f"{said} error: Invalid user id")

    return check


def level(session: ScontrolSession, words: Sequence[str]) -> None:
    """Check `setdebug LEVEL`, where the level is a name or a number."""
    word = words[0]
    if word.lower() not in LEVELS and not (word.isdecimal() and int(word) < len(LEVELS)):
        raise Failed(f"invalid debug level: {word}")


def flag(session: ScontrolSession, words: Sequence[str]) -> None:
    """Check `setdebugflags +NAME` or `-NAME`."""
    for word in words:
        if word[:1] not in ("+", "-"):
            raise Failed(f"invalid debug flag: {word}\nUsage: setdebugflags [+|-]NAME")


def factor(session: ScontrolSession, words: Sequence[str]) -> None:
    """Check `fsdampeningfactor NUMBER`."""
    if not re.fullmatch(r"[1-9]\d{0,4}", words[0]):
        raise Failed(f"invalid dampening factor: {words[0]}")


def schedlog(session: ScontrolSession, words: Sequence[str]) -> None:
    """Refuse schedloglevel: the scheduler log is disabled, which is Slurm's default."""
    if words[0].lower() in ("0", "1", "disable", "enable"):
        raise Failed(f"slurm_set_schedlog_level error: {WORDS['no_requeue']}")
    raise Failed(f"invalid schedlog level: {words[0]}")


def shutdown(session: ScontrolSession, words: Sequence[str]) -> None:
    """Check `shutdown [slurmctld|controller]`."""
    if words and words[0].lower() not in ("slurmctld", "controller"):
        raise Failed(f"invalid shutdown argument:{words[0]}")
    admins_only("slurm_shutdown")(session, words)


def takeover(session: ScontrolSession, words: Sequence[str]) -> None:
    """Check `takeover [INDEX]`, where the index names a backup controller."""
    if words:
        raise Failed(f"takeover: invalid backup controller index ({strtol(words[0])[0]})")


def token(session: ScontrolSession, words: Sequence[str]) -> None:
    """Refuse `token [lifespan=SECONDS] [username=NAME]`.

    There are no tokens, because the kernel identifies the caller.
    """
    for word in words:
        if word.partition("=")[0].lower() not in ("lifespan", "username") or "=" not in word:
            raise Failed(f"Invalid option: `{word}`")
    raise Failed("Error fetching token\ntokens do not exist here, because the kernel identifies the caller")


def reboot(session: ScontrolSession, words: Sequence[str]) -> None:
    """Refuse `reboot [ASAP] [nextstate=] [reason=] NODES` as Slurm does if no RebootProgram is set."""
    rest = [word for word in words if word.lower() != "asap"]
    for word in rest:
        key, is_set, value = word.partition("=")
        if is_set and key.lower() == "nextstate" and value.upper() not in ("DOWN", "RESUME"):
            raise Failed(f"Invalid state: {value}\nValid states: DOWN, RESUME")
    if not [word for word in rest if "=" not in word]:
        raise Failed("Missing node list. Specify ALL|<NodeList>")
    raise Failed(
        "scontrol: error: RebootProgram isn't defined\n"
        f"scontrol_reboot_nodes error: Unspecified error\nnodes are not rebooted from here: {REBOOT}"
    )


def cancel_reboot(session: ScontrolSession, words: Sequence[str]) -> None:
    """Refuse `cancel_reboot NODES`, because no reboot is ever pending."""
    if len(words) != 1:
        raise Failed(f"{'too many arguments' if words else 'missing argument'} for keyword:cancel_reboot")
    admins_only("slurm_update")(session, words)
    with session.connect() as client:
        there = {row["name"] for row in client.call("nodes")["nodes"]}
    try:
        known = set(expand(words[0])) <= there
    except UserError:
        known = False
    raise Failed(f"slurm_update error: Invalid node {'state' if known else 'name'} specified")


def errnumstr(session: ScontrolSession, words: Sequence[str]) -> None:
    """Print the message of an error number.

    The number is one of Slurm's that are used here, or one of the operating system's.
    """
    if len(words) != 1:
        raise Failed("one arguments required for keyword:errnumstr")
    if not words[0].isdecimal():
        raise Failed("numeric arguments required for keyword:errnumstr")
    number = int(words[0])
    message = f"Unknown error {number}"
    if number in NUMBERS:
        message = WORDS[NUMBERS[number]]
    elif number <= MAX_ERRNO:
        message = os.strerror(number) if number else "No error"
    session.console.streams.out.write(f"{message}\n")
