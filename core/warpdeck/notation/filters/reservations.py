"""Text form of a reservation (nodes, start, duration, users, flags), and the command line that creates it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import format_duration, parse_limit
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.notation.values.time_points import moment_text, parse_moment

from .reservation_flags import FLAGS, BadFlags, flag_fields, format_flags, parse_flags

MAX_DIGITS = 6
"""Maximum number of digits of a count."""


KEPT_FIELDS = ("features", "burst_buffer", "watts", "max_start_delay_s")
"""Fields of a reservation that a `ReservationText` cannot express."""
KEPT_WITH_NODES = ("node_count", "partition", "replace")
"""Fields that say how the nodes of a reservation were chosen. They are kept as long as it has these nodes."""


class ReservationText(NamedTuple):
    """The text values of one reservation, as entered in a form or on a command line."""

    name: str
    nodes: str = ""
    start: str = "now"
    duration: str = "UNLIMITED"
    users: str = ""
    accounts: str = ""
    flags: str = ""
    tres: str = ""
    licenses: str = ""


class BadTres(UserError):
    """An invalid TRES value. The message is Slurm's."""


class Tres(NamedTuple):
    """Requested amounts of a reservation; 0 if an amount was not given."""

    cpus: int = 0
    nodes: int = 0
    gpus: int = 0
    gpu_type: str = ""

    @property
    def has_parts(self) -> bool:
        return bool(self.cpus or self.gpus)


def parse_tres(text: str) -> Tres:
    """Parse the TRES of a reservation, for example cpu=8,gres/gpu:h100=2 or node=2. Raises BadTres."""
    found = Tres()
    hint = "write cpu=COUNT, gres/gpu=COUNT, gres/gpu:TYPE=COUNT, node=COUNT"
    for word in filter(None, text.split(",")):
        name, equals, amount = word.partition("=")
        kind, _, gpu_type = name.lower().partition(":")
        if not equals or not amount.isdecimal() or len(amount) > MAX_DIGITS or not int(amount):
            raise BadTres(f"invalid TRES '{word}'", hint)
        if name.lower() in ("cpu", "node"):
            count = int(amount)
            found = found._replace(cpus=count) if kind == "cpu" else found._replace(nodes=count)
        elif kind == "gres/gpu":
            if found.gpus:
                raise BadTres(
                    "GPUs of one kind can be reserved at a time", "make a reservation for each kind"
                )
            found = found._replace(gpus=int(amount), gpu_type=gpu_type)
        elif kind in ("mem", "billing", "energy", "vmem", "pages"):
            raise BadTres(f"TRES type '{kind}' not supported with reservations", hint)
        else:
            raise BadTres(f"couldn't identify configured TRES '{name}'", hint)
    return found


def format_parts(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the sum of the parts in the format of TRES=; "" if there are none."""
    kinds: dict[str, int] = {}
    for part in parts:
        for name, count in part["gpus"]:
            kinds[name] = kinds.get(name, 0) + count
    gpus = sum(kinds.values())
    only = f":{next(iter(kinds))}" if len(kinds) == 1 and next(iter(kinds)) else ""
    cpus = sum(part["cpus"] for part in parts)
    return ",".join([*([f"cpu={cpus}"] if parts else []), *([f"gres/gpu{only}={gpus}"] if gpus else [])])


def parts_in_words(parts: Sequence[Mapping[str, Any]]) -> str:
    """Describe the parts, for example "16 CPUs and 2 h100 of gpu01"; "" for whole nodes."""
    return ", ".join(part_in_words(**part) for part in parts)


def part_in_words(*, node: str, cpus: int, gpus: Iterable[tuple[str, int]]) -> str:
    """Describe one part, for example "16 CPUs and 2 h100 of gpu01"."""
    amounts = [(cpus, "CPU"), *((count, name or "GPU") for name, count in gpus)]
    words = [f"{count} {what}{'s' if what.isupper() and count != 1 else ''}" for count, what in amounts]
    return f"{' and '.join(words)} of {node}"


def reservation_text(row: Mapping[str, Any]) -> ReservationText:
    """Return the text values that would create the reservation of a `protocol.site_rows.ReservationRow` again.

    `parse_reservation` takes the remaining fields from its argument `before`.
    """
    # The result names its nodes, so REPLACE flags no longer apply.
    flags = [flag for flag in format_flags(row) if not flag.startswith("REPLACE")]
    start, end = row["start"], row["end"]
    return ReservationText(
        row["name"],
        row["node_list"],
        "" if start is None else moment_text(start),
        "" if start is None or end is None else format_duration(end - start),
        _listed(row, "users"),
        _listed(row, "accounts"),
        ",".join(flags),
        format_parts(row["parts"]),
        ",".join(f"{name}:{count}" for name, count in row["licenses"]),
    )


def _listed(row: Mapping[str, Any], key: str) -> str:
    return ",".join([*row[key], *(f"-{name}" for name in row[f"deny_{key}"])])


def parse_reservation(
    wish: ReservationText, now: float, *, before: Mapping[str, Any] | None = None
) -> dict[str, object]:
    """Return the fields of `model.Reservation`, which the controller validates. Raises UserError.

    They are plain values, so that command lines need no msgspec. `before` is the row of the reservation to be
    replaced; fields that a `ReservationText` cannot express are copied from it.
    """
    made = _parsed(wish, now)
    return made if before is None else made | _kept(wish, before)


def _kept(wish: ReservationText, before: Mapping[str, Any]) -> dict[str, object]:
    same = reservation_text(before)
    kept = {name: before[name] for name in KEPT_FIELDS}
    if wish.nodes == same.nodes:
        kept |= {name: before[name] for name in KEPT_WITH_NODES}
    if wish.users == same.users:
        kept["groups"] = before["groups"]
    if (wish.nodes, wish.tres) == (same.nodes, same.tres):
        # The parts are copied because they may differ from node to node.
        kept |= {"parts": before["parts"], "asked": None}
    return kept


def _parsed(wish: ReservationText, now: float) -> dict[str, object]:
    if not wish.name:
        raise UserError("the reservation has no name", "give it a name of letters, digits, dots and dashes")
    flags = _flags(wish.flags)
    start = parse_moment(wish.start or "now", now)
    duration_s = parse_limit(wish.duration or "UNLIMITED")
    tres = parse_tres(wish.tres)
    if tres.nodes and (not tres.has_parts or wish.nodes):
        raise UserError(
            "node= is only for CPUs and GPUs on nodes that the scheduler chooses",
            "name the nodes with --nodes",
        )
    chosen = tres.has_parts and not wish.nodes
    nodes = None if chosen or wish.nodes.upper() == "ALL" else list(dict.fromkeys(expand(wish.nodes)))
    each = split_evenly(tres.cpus, max(1, len(nodes or ()))) if tres.cpus else []
    licenses = parse_licenses(wish.licenses)
    if nodes == [] and not (licenses and "ANY_NODES" in flags):
        raise UserError("--nodes contains no node names", "write names such as gpu[01-04], or ALL")
    if "REPLACE" in flags or "REPLACE_DOWN" in flags:
        raise UserError(
            "REPLACE has no effect on named nodes", "give their number: scontrol create reservation nodecnt="
        )
    return {
        "name": wish.name,
        "nodes": nodes,
        "start_unix": start,
        "end_unix": None if duration_s is None else start + duration_s,
        **access_fields("users", wish.users),
        **access_fields("accounts", wish.accounts),
        **flag_fields(flags),
        **float_fields(flags, start, now, duration_s),
        "licenses": licenses,
        "asked": requested_parts(tres, cpus=each, chosen=chosen),
    }


def requested_parts(tres: Tres, *, cpus: Sequence[int], chosen: bool) -> dict[str, object] | None:
    """Return the fields of `model.PartsAsked`; None for whole nodes. `cpus` is one total if the nodes are
    `chosen`, else one number per node.
    """
    if not (tres.gpus or any(cpus)):
        return None
    return {
        "cpus": list(cpus),
        "gpus": tres.gpus,
        "gpu_type": tres.gpu_type,
        "chosen": chosen,
        "nodes": tres.nodes if chosen else 0,
    }


def split_evenly(total: int, nodes: int) -> list[int]:
    """Distribute a total over nodes. If it is not divisible, the first nodes get one more."""
    each, left = divmod(total, max(1, nodes))
    return [each + (at < left) for at in range(nodes)]


def access_fields(key: str, text: str) -> dict[str, list[str]]:
    """Return the fields for users or accounts that may use the reservation (NAME,...) or may not (-NAME,...). Raises
    UserError.
    """
    words = names(text)
    denied = [word[1:] for word in words if word.startswith("-")]
    if denied and len(denied) < len(words):
        raise UserError(
            f"some of the {key} have a minus sign and others have none",
            f"list either the {key} that may use it, or with a minus sign those that may not",
        )
    return {key: [] if denied else words, f"deny_{key}": denied}


def float_fields(
    flags: Mapping[str, str], start: float, now: float, duration_s: float | None
) -> dict[str, int | None]:
    """Return the seconds by which the start stays ahead of now with TIME_FLOAT; None without it. Raises UserError."""
    if "TIME_FLOAT" not in flags:
        return {"float_s": None}
    if duration_s is None:
        raise UserError("a reservation with TIME_FLOAT needs a duration", "add a duration, such as 2:00:00")
    return {"float_s": max(0, round(start - now))}


def create_command(wish: ReservationText, *, instead: bool = False) -> str:
    """Return the command `warpdeck reservation create ...`, without default values. `instead` replaces the
    reservation of this name.
    """
    words = ["warpdeck", "reservation", "create", wish.name or "NAME"]
    if wish.nodes or not (wish.tres or wish.licenses):
        words += ["--nodes", wish.nodes or "LIST"]
    usual = ReservationText("")
    for field in ("tres", "licenses", "start", "duration", "users", "accounts", "flags"):
        value = getattr(wish, field)
        if value and value != getattr(usual, field):
            words += [f"--{field}", value]
    return shlex.join([*words, *(["--instead"] if instead else [])])


def users_in_words(fields: Mapping[str, Any]) -> str:
    """Describe the users and accounts that may use the reservation."""
    if fields["float_s"] is not None:
        return "nobody: it floats"
    accounts = [f"account {name}" for name in fields["accounts"]]
    denied = [f"account {name}" for name in fields["deny_accounts"]]
    parts = [", ".join(accounts), _but(denied), ", ".join(fields["users"]), _but(fields["deny_users"])]
    named = " and ".join(filter(None, parts)) or "nobody"
    return f"{named}: maintenance" if fields["maintenance"] else named


def _but(denied: Sequence[str]) -> str:
    return f"all but {', '.join(denied)}" if denied else ""


def names(text: str) -> list[str]:
    """Return the names in a list separated by commas."""
    return [name for name in text.split(",") if name]


def _flags(text: str) -> dict[str, str]:
    try:
        return parse_flags(text).added
    except BadFlags as error:
        raise UserError(f"unknown reservation flags: {text}", f"the flags are {', '.join(FLAGS)}") from error
