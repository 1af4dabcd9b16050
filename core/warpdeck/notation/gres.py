"""--gres and --gpus: gpu, gpu:2, gpu:a100:2, a100:2, 2."""

from __future__ import annotations

import re

from warpdeck.errors import UserError

_WORD = re.compile(r"[A-Za-z0-9_.\-]+")


def parse_gres(text: str) -> tuple[str, int]:
    """(type, count) of --gres; ("", 0) for none. Raises UserError for anything that is no GPU."""
    found: tuple[str, int] | None = None
    for item in text.split(","):
        word = item.strip()
        if word.lower() == "none":
            continue
        name, *rest = word.removeprefix("gres:").removeprefix("gres/").split(":")
        if name != "gpu":
            raise UserError(f"--gres={word}: only GPUs are known here", "ask for gpu[:TYPE]:COUNT")
        if found is not None:
            raise UserError(f"--gres={text}: two kinds of GPU in one request", "ask for one kind")
        found = _type_and_count(rest, f"--gres={text}")
    return found or ("", 0)


def parse_gpus(text: str, option: str) -> tuple[str, int]:
    """(type, count) of --gpus and its kin: 4, or h100:4. Raises UserError."""
    return _type_and_count(text.split(":"), f"--{option}={text}")


def _type_and_count(words: list[str], where: str) -> tuple[str, int]:
    if not words:
        return "", 1
    kind, count = ("", words[0]) if len(words) == 1 and words[0].isdigit() else (words[0], "1")
    if len(words) == 2:
        kind, count = words
    if len(words) > 2 or not count.isdigit() or (kind and not _WORD.fullmatch(kind)):
        raise UserError(
            f"{where} is no request for GPUs", "write COUNT, TYPE:COUNT, or gpu:TYPE:COUNT with --gres"
        )
    if len(words) == 1 and not words[0]:
        raise UserError(f"{where} is no request for GPUs", "write a count")
    return kind, int(count)
