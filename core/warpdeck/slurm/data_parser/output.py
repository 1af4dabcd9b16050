"""The value of --json and --yaml, and the document that a command prints for it.

The value is the name of a data_parser plugin, such as v0.0.43, or `list`. As in Slurm, words may follow the name after
a +. `fast` has no effect here. With `complex`, a number that is not set is null instead of an object.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of, uid_of
from warpdeck.base.slurm_version import RELEASE
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.format.serial import SLURM_22_05, dump

from .numbers import at_number, is_number

VERSIONS = (41, 42, 43, 44, 45)
"""The data_parser plugins, which are called v0.0.41 and so on."""
_PREFIXES = ("data_parser/", "v0.0.")
_WORDS = frozenset({"fast", "complex"})


class JsonOutput(NamedTuple):
    """The layout that was requested. A `version` of 0 is the layout of Slurm 22.05."""

    version: int = 0
    yaml: bool = False
    is_complex: bool = False


def requested(command: str, given: Mapping[str, str]) -> JsonOutput | None:
    """Return the layout that --json or --yaml requests, or None if neither was given. Raises CommandError.

    The list of the layouts is an answer, which is raised too.
    """
    for option in ("json", "yaml"):
        if option in given:
            return _read(command, given[option], yaml=option == "yaml")
    return None


def _read(command: str, text: str, *, yaml: bool) -> JsonOutput:
    if text == "list":
        names = "\n".join(f"data_parser/v0.0.{version}" for version in VERSIONS)
        raise CommandError(names, exit_code=0, bare=True, is_answer=True)
    name, *words = text.split("+")
    number = name.removeprefix(_PREFIXES[0]).removeprefix(_PREFIXES[1])
    version = int(number) if number in map(str, VERSIONS) else 0
    if (text and not version) or not _WORDS.issuperset(words):
        known = ", ".join(f"v0.0.{version}" for version in VERSIONS)
        raise CommandError(
            f"{command}: error: unable to find plugin: data_parser/{text.removeprefix(_PREFIXES[0])}\n"
            f"  known are {known}; without a version, the layout is that of Slurm 22.05",
            bare=True,
        )
    return JsonOutput(version, yaml, "complex" in words)


def print_document(
    console: Console,
    output: JsonOutput,
    things: Mapping[str, Any],
    *,
    command: Sequence[str],
    updated: bool = True,
) -> None:
    """Print the objects with the metadata of the requested layout.

    With `updated`, newer layouts also have the time of the last change.
    """
    compact = console.env.get("SLURM_JSON") == "compact"
    if not output.version:
        dump(console, {"meta": SLURM_22_05, "errors": [], **things}, yaml=output.yaml, compact=compact)
        return
    times = {"last_update": at_number(time.time())} if updated else {}
    document = {**things, **times, "meta": _meta(console, output, command), "errors": [], "warnings": []}
    shown = _simple(document) if output.is_complex else document
    dump(console, shown, yaml=output.yaml, compact=compact)


def _meta(console: Console, output: JsonOutput, command: Sequence[str]) -> dict[str, Any]:
    major, minor, micro = RELEASE.split(".")
    return {
        "plugin": {
            "type": "",
            "name": "",
            "data_parser": f"data_parser/v0.0.{output.version}",
            "accounting_storage": "",
        },
        "client": {"source": "", "user": console.user, "group": group_of(uid_of(console.user) or 0)[0]},
        "command": [*command],
        "slurm": {
            "version": {"major": major, "micro": micro, "minor": minor},
            "release": RELEASE,
            "cluster": CLUSTER_NAME,
        },
    }


def _simple(value: Any) -> Any:
    """Return the value with plain numbers, and null for an empty text and for a number that is not set."""
    if is_number(value):
        return float("inf") if value["infinite"] else value["number"] if value["set"] else None
    if isinstance(value, dict):
        return {key: _simple(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_simple(each) for each in value]
    return None if value == "" else value
