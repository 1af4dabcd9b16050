"""Parses --licenses: "matlab", "matlab:2,comsol:1". The job needs all of them."""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError

_LICENSE = re.compile(r"([A-Za-z0-9_.\-@]+)(?:[:=](\d{1,7}))?")


def parse_licenses(text: str) -> list[tuple[str, int]]:
    """Return (name, count) sorted by name, without counts of zero. Raises UserError."""
    found: dict[str, int] = {}
    if not text:
        return []
    for item in re.split(r"[,;]", text):
        match = _LICENSE.fullmatch(item.strip())
        if match is None:
            raise UserError(
                f"--licenses={text}: {item!r} is not a license", "write NAME:COUNT, separated by commas"
            )
        found[match[1]] = found.get(match[1], 0) + int(match[2] or 1)
    return sorted((name, count) for name, count in found.items() if count)
