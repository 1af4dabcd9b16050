"""The arguments of `scontrol create reservation`. The function is pure."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.orders.job_keys import duration_word, time_word
from warpdeck.model import Reservation
from warpdeck.model.reservation import PartsRequest
from warpdeck.notation.values.hostlist import collapse
from warpdeck.ports.engine import UNSUPPORTED


def reservation_words(reservation: Reservation, *, now: float) -> list[str]:
    """Return the arguments KEY=VALUE. Raises UserError for a reservation that Slurm cannot make."""
    floats = reservation.float_s is not None
    start = f"now+{reservation.float_s}seconds" if floats else time_word(reservation.start_unix)
    words = [f"ReservationName={reservation.name}", f"StartTime={start}"]
    if reservation.end_unix is None:
        words.append("Duration=UNLIMITED")
    else:
        length_s = max(60, round(reservation.end_unix - reservation.start_unix))
        words.append(
            f"Duration={duration_word(length_s)}" if floats else f"EndTime={time_word(reservation.end_unix)}"
        )
    names = (
        ("Users", _sides(reservation.users, reservation.deny_users)),
        ("Accounts", _sides(reservation.accounts, reservation.deny_accounts)),
        ("Groups", ",".join(reservation.groups)),
        ("PartitionName", reservation.partition),
        ("Features", reservation.features),
        ("Licenses", ",".join(f"{name}:{count}" for name, count in reservation.licenses)),
        ("BurstBuffer", reservation.burst_buffer),
        ("Flags", ",".join(_flags(reservation))),
        (
            "MaxStartDelay",
            duration_word(reservation.max_start_delay_s) if reservation.max_start_delay_s else "",
        ),
    )
    return [*words, *_nodes(reservation), *(f"{key}={value}" for key, value in names if value)]


def _sides(allowed: tuple[str, ...], denied: tuple[str, ...]) -> str:
    return ",".join([*allowed, *(f"-{name}" for name in denied)])


def _nodes(reservation: Reservation) -> list[str]:
    """Return the words for the nodes. Without nodes and without a number, all nodes are reserved."""
    if reservation.parts:
        raise UserError(
            "Slurm chooses the cores of a partial reservation itself",
            "request a number of CPUs",
            code=UNSUPPORTED,
        )
    words = []
    if reservation.node_count:
        words.append(f"NodeCnt={reservation.node_count}")
    elif reservation.nodes is not None:
        words.append(f"Nodes={collapse(reservation.nodes)}")
    elif reservation.asked is None or not reservation.asked.chosen:
        words.append("Nodes=ALL")
    return words + (_parts(reservation.asked) if reservation.asked is not None else [])


def _parts(asked: PartsRequest) -> list[str]:
    words = []
    if asked.nodes:
        words.append(f"NodeCnt={asked.nodes}")
    tres = [f"cpu={sum(asked.cpus)}"] if asked.cpus else []
    if asked.gpus:
        tres.append(f"gres/gpu{':' if asked.gpu_type else ''}{asked.gpu_type}={asked.gpus}")
    return [*words, *([f"TRES={','.join(tres)}"] if tres else [])]


def _flags(reservation: Reservation) -> list[str]:
    named = (
        ("MAINT", reservation.maintenance),
        ("OVERLAP", reservation.overlap),
        (reservation.repeat.upper(), bool(reservation.repeat)),
        ("MAGNETIC", reservation.magnetic),
        ("FLEX", reservation.flex),
        ("ANY_NODES", reservation.any_nodes),
        ("NO_HOLD_JOBS_AFTER", not reservation.hold_jobs_after),
        ("TIME_FLOAT", reservation.float_s is not None),
        ("REPLACE", reservation.replace == "busy"),
        ("REPLACE_DOWN", reservation.replace == "down"),
        ("STATIC_ALLOC", reservation.static),
        ("FIRST_CORES", reservation.first_cores),
    )
    flags = [name for name, is_set in named if is_set]
    if reservation.purge_after_s is not None:
        flags.append(f"PURGE_COMP={duration_word(reservation.purge_after_s)}")
    return flags
