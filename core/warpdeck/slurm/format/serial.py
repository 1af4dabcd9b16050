"""Output of --json and --yaml, with the metadata that Slurm's data_parser writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from warpdeck.base.slurm_version import RELEASE
from warpdeck.slurm.console.console import Console

_PLAIN = re.compile(r"[\w/](?:[\w/. -]*[\w/.])?")


def meta(plugin: dict[str, str]) -> dict[str, Any]:
    """Return the metadata of Slurm 22.05 for one of its plugins."""
    major, minor, micro = (int(word) for word in RELEASE.split("."))
    version = {"major": major, "micro": micro, "minor": minor}
    return {"plugin": plugin, "Slurm": {"version": version, "release": RELEASE}}


SLURM_22_05 = meta({"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"})
"""Metadata of all documents in the layout of Slurm 22.05 except those of sacct."""


def dump(console: Console, document: dict[str, Any], *, yaml: bool, compact: bool = False) -> None:
    """Print a document as JSON, or as YAML if `yaml`. With `compact`, JSON has no line breaks and blanks."""
    if yaml:
        print("%YAML 1.1", "--- !!map", *_mapping(document, ""), sep="\n", file=console.streams.out)
    else:
        form: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
        print(json.dumps(document, **form), file=console.streams.out)


def _mapping(value: dict[str, Any], indent: str) -> Iterator[str]:
    for key, each in value.items():
        yield from _entry(f"{indent}!!str {_scalar_text(str(key))}:", each, indent)


def _entry(name: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{name} !!map" + ("" if value else " {}")
        yield from _mapping(value, indent + "  ")
    elif isinstance(value, list):
        yield f"{name} !!seq" + ("" if value else " []")
        for each in value:
            yield from _entry(f"{indent}-", each, indent)
    else:
        yield f"{name} {_scalar(value)}"


def _scalar(value: Any) -> str:
    match value:
        case None | "":
            return "!!null null"
        case bool():
            return f"!!bool {str(value).lower()}"
        case int():
            return f"!!int {value}"
        case float():
            return f"!!float {value}"
        case _:
            return f"!!str {_scalar_text(str(value))}"


def _scalar_text(text: str) -> str:
    """Quote the text if YAML would read it as another type."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
