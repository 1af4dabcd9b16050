"""Fields of a reservation: one entry each for scontrol, sacctmgr, sinfo -T and JSON. Pure functions.

A row is a reservation of the controller with its `members` (partition_fields.with_members).
"""

from __future__ import annotations

from warpdeck.notation.filters.reservation_flags import format_flags
from warpdeck.slurm.format.reservation_extras import watts_text

from .field import Field, Row, sent


def _tres(row: Row) -> dict[str, int]:
    """Return the CPUs and GPUs that the reservation holds on its nodes."""
    gpus = sum(count for part in row["parts"] for _, count in part["gpus"])
    cpus = sum(part["cpus"] for part in row["parts"]) or sum(node["cpus"] for node in row["members"])
    return {"cpu": cpus, "gres/gpu": gpus}


def _flags(row: Row) -> list[str]:
    """Return the flags with Slurm's names."""
    return format_flags(row, named="SPEC_NODES" if row["members"] and not row["node_count"] else "")


def _allowed(row: Row, key: str) -> str:
    """Return the allowed names, then the denied names with a leading "-"."""
    return ",".join([*row[key], *(f"-{name}" for name in row[f"deny_{key}"])])


def _lasts_s(row: Row) -> float | None:
    """Return the length, or None if the reservation has no start or no end."""
    start, end = row["start"], row["end"]
    return None if start is None or end is None else end - start


RESERVATION: dict[str, Field] = {
    **sent("burst_buffer end features max_start_delay_s name node_list partition purge_after_s start watts"),
    "accounts": Field("", lambda row: _allowed(row, "accounts")),
    "cores": Field("", lambda row: _tres(row)["cpu"]),
    "flags": Field("", _flags),
    "groups": Field("", lambda row: ",".join(row["groups"])),
    "lasts_s": Field("", _lasts_s),
    "licenses": Field("", lambda row: ",".join(f"{name}:{count}" for name, count in row["licenses"])),
    "node_count": Field("", lambda row: len(row["members"])),
    "state": Field("", lambda row: "ACTIVE" if row["state"] == "active" else "INACTIVE"),
    "tres": Field("", _tres),
    "users": Field("", lambda row: "" if row["groups"] else _allowed(row, "users")),
    "watts_text": Field("", lambda row: watts_text(row["watts"])),
}
"""Field -> its entry. Times are Unix seconds."""
