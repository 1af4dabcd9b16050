"""The configuration that `scontrol show config` prints."""

from __future__ import annotations


def read_config(text: str) -> dict[str, str]:
    """Return the values by their names."""
    lines = [line.partition("=") for line in text.splitlines()]
    return {key.strip(): value.strip() for key, _, value in lines if value}
