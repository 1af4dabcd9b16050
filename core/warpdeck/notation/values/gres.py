"""Parses --gres and --gpus: gpu, gpu:2, gpu:a100:2, a100:2, 2; 0.5 for a part of a GPU; shard:4 for shards
defined by the site.
"""

from __future__ import annotations

import re
from typing import Any

from warpdeck.base.errors import UserError

_WORD = re.compile(r"[A-Za-z0-9_.\-]+")
_NUMBER = re.compile(r"[\d.\-]+")
_COUNT = re.compile(r"[0-9]{1,9}")
_PART = re.compile(r"0?\.(\d{1,6})")


def parse_gres(text: str) -> dict[str, Any]:
    """Return --gres in the JSON form of `model.GpuAsk`; {} for none. Raises UserError for resources other
    than GPUs.
    """
    found: dict[str, Any] | None = None
    for item in text.split(","):
        word = item.strip()
        if word.lower() == "none":
            continue
        name, *rest = word.removeprefix("gres:").removeprefix("gres/").split(":")
        if name not in ("gpu", "shard"):
            raise UserError(
                f"--gres={word}: only GPUs and shards of GPUs are supported", "ask for gpu[:TYPE]:COUNT"
            )
        if found is not None:
            raise UserError(f"--gres={text}: two types of GPU in one request", "ask for one type")
        kind, count = _type_and_count(rest or ["1"], f"--gres={text}")
        found = _request(kind, count, "per_node" if name == "gpu" else "shards", f"--gres={text}")
    return found or {}


def parse_gpus(text: str, option: str) -> dict[str, Any]:
    """Return --gpus and similar options (4, h100:4 or 0.5) in the JSON form of `model.GpuAsk`. Raises
    UserError.
    """
    where = f"--{option}={text}"
    kind, count = _type_and_count(text.split(":"), where)
    return _request(kind, count, _FIELDS[option], where)


_FIELDS = {"gpus": "total", "gpus-per-node": "per_node", "gpus-per-task": "per_task"}


def _request(kind: str, count: str, field: str, where: str) -> dict[str, Any]:
    part = _PART.fullmatch(count)
    if part is None:
        return {field: int(count), "type": kind} if int(count) else {}
    pct = round(float(f"0.{part[1]}") * 100)
    if field not in ("total", "per_node") or not 1 <= pct <= 99:
        raise UserError(
            f"{where} is not a part of a GPU", "write 0.01 to 0.99 of one GPU, such as --gpus=0.5"
        )
    return {"share_pct": pct, "type": kind}


def _type_and_count(words: list[str], where: str) -> tuple[str, str]:
    """Return (type, count). The count is a whole number or a fraction."""
    alone = len(words) == 1 and (words[0].isdecimal() or _PART.fullmatch(words[0]) is not None)
    kind, count = ("", words[0]) if alone else (words[0], "1")
    if len(words) == 2:
        kind, count = words
    counted = _COUNT.fullmatch(count) is not None or _PART.fullmatch(count) is not None
    if len(words) > 2 or not counted or (kind and not _is_type(kind)):
        raise UserError(
            f"{where} is not a request for GPUs", "write COUNT, TYPE:COUNT, or gpu:TYPE:COUNT with --gres"
        )
    if len(words) == 1 and not words[0]:
        raise UserError(f"{where} is not a request for GPUs", "write a count")
    return kind, count


def _is_type(kind: str) -> bool:
    return _WORD.fullmatch(kind) is not None and _NUMBER.fullmatch(kind) is None
