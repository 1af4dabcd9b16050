"""Reservations and licenses of `scontrol show --json` in newer layouts. Pure functions."""

from __future__ import annotations

from warpdeck.slurm.fields.field import Field, Row, sent, shaped
from warpdeck.slurm.fields.reservation_fields import RESERVATION

from .layout import Keys, Layout
from .numbers import UNSET, number_object

RESERVATION_KEYS = """
accounts|some burst_buffer|some core_count=cores core_specializations:=[] end_time=end|at features|some flags=names
groups|some licenses|some max_start_delay=max_start_delay_s|0 name node_count node_list|some partition|some
purge_completed.time=purge start_time=start|at tres|tres-text users|some
"""
PURGE = "PURGE_COMP"


def _flags(flags: list[str]) -> list[str]:
    """Return the flags without the value of PURGE_COMP, which is a key of its own."""
    return [flag.partition("=")[0] for flag in flags]


RESERVATION_LAYOUT = Layout(
    Keys(41, 45, RESERVATION_KEYS),
    Keys(41, 44, "watts"),
    fields={
        **RESERVATION,
        "names": shaped(RESERVATION["flags"], _flags),
        "purge": shaped(
            RESERVATION["purge_after_s"], lambda s: UNSET if s is None else number_object(int(s))
        ),
        "watts": shaped(RESERVATION["watts"], number_object),
    },
)


def _free(row: Row) -> int:
    return int(row["total"]) - int(row["used"])


LICENSE_LAYOUT = Layout(
    Keys(
        41,
        45,
        "LicenseName=name Total=total Used=used Free=free Remote:=false Reserved=reserved LastConsumed:=0 "
        "LastDeficit:=0 LastUpdate:=0",
    ),
    Keys(44, 45, "Nodes=="),
    fields={**sent("name reserved total used"), "free": Field("", _free)},
)
