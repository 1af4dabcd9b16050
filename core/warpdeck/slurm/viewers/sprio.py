"""sprio: lists the priority factors of pending jobs.

Options, layouts, messages and exit codes are those of sprio(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from warpdeck.base.cluster import ALL_NODES
from warpdeck.base.passwd import existing_uid, name_of
from warpdeck.slurm.console.command_options import (
    WordsError,
    check_cluster,
    handle_choices,
    handle_help,
    options,
    read_lists,
    reject_format_and_long,
    reject_positional,
    split_list,
)
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.format.format_strings import ALL, LineLayout, Row, SortKey, TextField, short_columns

from .job_order import SortError, parse, sort

OPTIONS = options(
    "sprio",
    "clusters=,M federation format=,o help jobs?,j local long,l noheader,h norm,n partition=,p sibling sort=,S usage "
    "user=,u users= verbose,v version,V weights,w",
    newer="helpformat",
)
USAGE = """\
Usage: sprio [-j jobs] [-u users] [-p partitions] [-o format] [-S fields]
             [-hlnvVw]"""
HELP = """\
Lists pending jobs with the factors of their priorities.
  -j, --jobs=IDS  -u, --user=NAMES  -p, --partition=NAMES
  -l, --long         all factors         -n, --norm   factors from 0 to 1
  -w, --weights      the weight of each factor
  -o, --format="%.15i %9r %.10Y"         -S, --sort=i   letters of -o; - reverses the order
  -h, --noheader"""
PARTS = {"A": "age", "B": "assoc", "F": "fairshare", "J": "job_size", "P": "partition", "Q": "qos"}
"""Letter of the weighted factor -> factor. The lowercase letter is the normalized factor, from 0 to 1."""
TITLES = {"A": "AGE", "B": "ASSOC", "F": "FAIRSHARE", "J": "JOBSIZE", "P": "PARTITION", "Q": "QOS"}
LETTERS = {letter: letter for letter in "aAbBcfFijJNpPqQrStTuYy"}
NEWER_LETTERS = {letter: letter for letter in "nos"}
"""Letters that came after Slurm 22.05 and are not part of %all there."""
SORTED_BY = "acfijpqrtuyAFJNPQTY"
NOBODY = 0
"""A number that no job has."""
PRIORITY_SCALE = 2**32 - 1


def main(words: list[str], console: Console) -> int:
    """Print the table of priorities once."""
    found, rest = read_lists(words, OPTIONS, optional=("jobs",))
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    letters = sorted({**LETTERS, **NEWER_LETTERS}, key=str.swapcase)
    if handle_choices(found, console, {"helpformat": [f"%{letter}" for letter in letters]}):
        return 0
    reject_positional(rest, OPTIONS, USAGE, console)
    return _list(dict(found), console)


def _list(asked: dict[str, str], console: Console) -> int:
    check_cluster("sprio", asked.get("clusters", console.env.get("SLURM_CLUSTERS")))
    reject_format_and_long(asked, "sprio")
    numbers = _numbers(asked.get("jobs", ""))
    users = asked.get("user", asked.get("users"))
    known = None if users is None else _users(users, console)
    with console.controller.connect() as client:
        answer = client.call("priorities")
    weights: dict[str, float] = answer["weights"]
    nothing = bool(asked.get("jobs") and not numbers)
    rows = [] if nothing else _chosen(answer["jobs"], asked, numbers, known)
    fields = _fields(weights)

    def unknown(letter: str) -> None:
        print(f"sprio: error: Invalid job format specification: {letter}", file=console.streams.err)

    form = _format(asked, console, weights)
    letters = LETTERS if form.lower() == ALL else {**LETTERS, **NEWER_LETTERS}
    columns = short_columns(form, letters, unknown, keep_unknown=False)
    if asked.get("jobs") and not rows:
        print("Unable to find jobs matching user/id(s) specified", file=console.streams.out)
        return 0
    if "noheader" not in asked:
        print(LineLayout(columns, fields).titles(), file=console.streams.out)
    if "weights" in asked:
        print(LineLayout(columns, _weight_fields(weights)).line({}), file=console.streams.out)
        return 0
    _sort(rows, asked.get("sort", "i"), fields)
    layout = LineLayout(columns, fields)
    if rows:
        console.print_lines(map(layout.line, rows))
    return 0


def _numbers(text: str) -> list[int]:
    """Parse the numbers of `--jobs`. Raises WordsError."""
    numbers = []
    for word in split_list(text):
        found = re.fullmatch(r"\+?(\d{1,18})(?:\+(\d{1,3})|(_)\d{1,9})?", word)
        if found is None or not int(found[1]):
            raise WordsError(f"sprio: error: Invalid job id: {word}")
        # A pending array has one line, so an ID of one of its tasks matches no line.
        numbers.append(NOBODY if found[3] else int(found[1]) + int(found[2] or 0))
    return numbers


def _users(text: str, console: Console) -> set[str]:
    """Return the names of the requested users. Unknown users are reported as errors."""
    found = set()
    for name in split_list(text):
        uid = existing_uid(name)
        if uid is not None:
            found.add(name_of(uid) if name.isdecimal() else name)
        else:
            print(f"sprio: error: Invalid user: {name}\n", file=console.streams.err)
    return found


def _chosen(
    rows: list[Row], asked: Mapping[str, str], numbers: list[int], users: set[str] | None
) -> list[Row]:
    """Return the selected jobs. Only eligible jobs are listed, because other jobs have no priority."""
    parts = split_list(asked.get("partition", ""))
    return [
        row
        for row in rows
        if row["eligible"]
        and (not numbers or row["number"] in numbers)
        and (users is None or row["user"] in users)
        and (not parts or any(name in parts for name in row["partition"].split(",")))
    ]


def _format(asked: Mapping[str, str], console: Console, weights: Mapping[str, float]) -> str:
    """Return the requested format, or the default with all factors that have a weight.

    With -l it has all factors.
    """
    given = asked.get("format") or console.env.get("SPRIO_FORMAT")
    if given and "long" not in asked:
        return given
    long, user = "long" in asked, " %.8u" if "long" in asked or "user" in asked or "users" in asked else ""
    cluster = " %.8c" if "sibling" in asked and not {"local", "long"} & asked.keys() else ""
    shown = [letter for letter, part in PARTS.items() if long or weights.get(part)]
    tres = long or bool(_tres(weights))
    if "norm" in asked:
        parts = "".join(f" %10{letter.lower()}" for letter in shown)
        return f"%.15i %9r{cluster}{user} %10y{parts}" + (" %20t" if tres else "")
    parts = "".join(f" %.10{letter}" for letter in shown)
    nice = " %.11N" if long else ""
    return f"%.15i %9r{cluster}{user} %.10Y %.10S{parts}{nice}" + (
        f" %{'.' if long else ''}20T" if tres else ""
    )


def _fields(weights: Mapping[str, float]) -> dict[str, TextField]:
    fields = {
        "i": TextField("JOBID", "", lambda row: str(row["number"])),
        "r": TextField("PARTITION", "", lambda row: row["partition"] or ALL_NODES),
        "u": TextField("USER", "", lambda row: row["user"]),
        "c": TextField("CLUSTER", "", lambda row: "(null)"),
        "n": TextField("QOSNAME", "", lambda row: row["qos"] or "(null)"),
        "o": TextField("ACCOUNT", "", lambda row: row["account"] or "(null)"),
        "s": TextField("SLUID", "", lambda row: "(null)"),
        "N": TextField("NICE", "", lambda row: str(row["nice"])),
        "S": TextField("SITE", "", lambda row: "0"),
        "Y": TextField("PRIORITY", "", lambda row: str(row["priority"])),
        "y": TextField("PRIORITY", "", lambda row: f"{row['priority'] / PRIORITY_SCALE:.14f}"),
        "T": TextField("TRES", "", lambda row: _tres_text(row["tres_parts"], "%.0f")),
        "t": TextField("TRES", "", lambda row: _tres_text(_shares(row["tres_parts"], weights), "%.2f")),
    }
    for letter, part in PARTS.items():
        fields[letter] = TextField(TITLES[letter], "", _weighted(part))
        fields[letter.lower()] = TextField(TITLES[letter], "", _normalised(part, weights.get(part, 0.0)))
    return fields


def _weight_fields(weights: Mapping[str, float]) -> dict[str, TextField]:
    """Return the fields for the line of weights (-w)."""

    def always(title: str, text: str) -> TextField:
        return TextField(title, "", lambda row: text)

    fields = {letter: always("", "") for letter in "ruNYynos"}
    fields |= {"i": always("", "Weights"), "c": always("", "(null)"), "S": always("", "1")}
    tres = _tres_text(_tres(weights), "%.0f") or "(null)"
    fields |= {"T": always("", tres), "t": always("", tres)}
    for letter, part in PARTS.items():
        fields[letter] = fields[letter.lower()] = always("", f"{weights.get(part, 0.0):.0f}")
    return fields


def _tres(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the resources (TRES), without those of the other priority factors."""
    return {name: weight for name, weight in weights.items() if name not in PARTS.values()}


def _shares(parts: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    return {name: part / weights[name] for name, part in parts.items() if weights.get(name)}


def _tres_text(parts: Mapping[str, float], form: str) -> str:
    return ",".join(f"{name}={form % value}" for name, value in parts.items())


def _weighted(part: str) -> Callable[[Row], str]:
    return lambda row: f"{row.get(f'{part}_part', 0.0):.0f}"


def _normalised(part: str, weight: float) -> Callable[[Row], str]:
    return lambda row: f"{row.get(f'{part}_part', 0.0) / weight if weight else 0.0:.7f}"


def _sort(rows: list[Row], text: str, fields: Mapping[str, TextField]) -> None:
    """Sort the rows in place. Raises WordsError for an unknown letter, unless there are no rows."""
    numbers: dict[str, Callable[[Row], Any]] = {
        "i": lambda row: row["number"],
        "N": lambda row: row["nice"],
        "Y": lambda row: row["priority"],
        "y": lambda row: row["priority"],
    }
    for letter, part in PARTS.items():
        numbers[letter] = numbers[letter.lower()] = _part(part)
    keys = {letter: SortKey("", numbers.get(letter) or fields[letter].text) for letter in SORTED_BY}
    try:
        if rows:
            sort(rows, parse(text, keys), ties=lambda row: row["number"])
    except SortError as error:
        raise WordsError(f"sprio: error: Invalid sort specification: {error}") from None


def _part(name: str) -> Callable[[Row], float]:
    return lambda row: float(row.get(f"{name}_part", 0.0))
