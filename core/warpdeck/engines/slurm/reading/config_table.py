"""The configuration that `scontrol show config` prints."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=2)
def read_config(text: str) -> dict[str, str]:
    """Return the values by their names. The same text, which is read with each queue, is the same object."""
    lines = [line.partition("=") for line in text.splitlines()]
    return {key.strip(): value.strip() for key, _, value in lines if value}
