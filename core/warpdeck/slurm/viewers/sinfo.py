"""sinfo: lists partitions and nodes, with the options, layouts, messages and exit codes of sinfo(1).

A line is a partition and those of its nodes whose printed values are equal. Numbers such as CPUs and memory
may differ unless -e is given. In node-oriented listings (-N) every node has its own lines.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.hostlist import expand
from warpdeck.slurm.console.command_options import (
    CLUSTER_LINE,
    Words,
    WordsError,
    check_cluster,
    handle_choices,
    handle_help,
    options,
    read_anywhere,
    reject_format_and_long,
    split_list,
)
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.console.watch_loop import iterate, pause_s
from warpdeck.slurm.fields.node_states import WORDS, picks
from warpdeck.slurm.fields.reservation_fields import RESERVATION
from warpdeck.slurm.format.format_strings import (
    FormatColumn,
    LineLayout,
    Row,
    TextField,
    letters_of,
    long_columns,
    short_columns,
)
from warpdeck.slurm.format.timestamps import ctime
from warpdeck.slurm.format.units import clock, moment

from .sinfo_columns import Print, as_fields, group, prints

OPTIONS = options(
    "sinfo",
    "all,a clusters=,M dead,d exact,e federation format=,o Format=,O help hide iterate=,i json? list-reasons,R local long,l "
    "Node,N nodes=,n noconvert noheader,h partition=,p reservation,T responding,r sort=,S states=,t summarize,s usage "
    "verbose,v version,V yaml?",
    newer="future,F helpFormat helpformat helpstate",
)
USAGE = """\
Usage: sinfo [-adehlNRrsTv] [-i seconds] [-n nodes] [-o format | -O format]
             [-p partitions] [-S fields] [-t states] [--json | --yaml]"""
HELP = """\
Lists partitions and nodes by state.
  -N, --Node               one line for each node and partition
  -s, --summarize          one line for each partition
  -R, --list-reasons       nodes that are down or drained, with the reason
  -T, --reservation        reservations
  -p, --partition=NAMES  -n, --nodes=NODES
  -t, --states=STATES      idle,mix,alloc,drain,down ...; a&b or a+b: both states; ~a: not this state
  -d, --dead  -r, --responding
  -o, --format="%P %.6D"   -O, --Format=Partition:10,Nodes:.6
  -S, --sort=#P,-t         sort by letters of -o; - reverses the order
  -e, --exact  -l, --long  -h, --noheader  -i, --iterate=SECONDS
      --helpFormat, --helpformat, --helpstate     names of -O, letters of -o, states of -t
      --json, --yaml[=VERSION]   all properties of the nodes, for programs; =list: the known versions"""
NAME_WIDTH = 9
"""Least width of the partition and node list columns where a layout adapts to the longest name."""
REASONS = "down,fail,drain"
FROM_ENV = {
    "SINFO_PARTITION": "partition",
    "SINFO_SORT": "sort",
    "SINFO_FORMAT": "format",
    "SLURM_CLUSTERS": "clusters",
}
ORDER, ORDER_OF_NODES = "#P,-t", "N"


class SinfoTables(NamedTuple):
    """Response of the controller: all partitions and nodes."""

    partitions: list[Row]
    nodes: list[Row]


class SinfoOptions(NamedTuple):
    """A parsed command line with its environment variables filled in: option -> its last value."""

    values: dict[str, str]

    def has(self, *names: str) -> bool:
        return any(name in self.values for name in names)


def main(words: list[str], console: Console) -> int:
    """Print the listing once, or repeatedly with --iterate."""
    found, _ = read_anywhere(words, OPTIONS)
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    fields = as_fields(prints())
    choices = {
        "helpFormat": fields,
        "helpformat": [f"%{letter}" for letter in letters_of(fields)],
        "helpstate": [word for word in dict.fromkeys(WORDS.split(",")) if word != "?"],
    }
    if handle_choices(found, console, choices):
        return 0
    asked = _parse_options(found, console)
    text = asked.values.get("iterate")
    every_s = pause_s(text, f"sinfo: error: Error: invalid entry for --iterate={text}")
    iterate(console, every_s, lambda client: _list(asked, console, client))
    return 0


def _parse_options(found: Words, console: Console) -> SinfoOptions:
    """Return the parsed command line. Raises WordsError for options that exclude each other."""
    values = dict(found)
    reject_format_and_long({name.lower() for name in values}, "sinfo")
    if "all" in values and "partition" in values:
        raise WordsError(
            "sinfo: error: Conflicting options, -a and -p, specified. Please choose one or the other."
        )
    laid_out = {"format", "Format", "long", "Node", "summarize", "list-reasons"}
    for variable, option in FROM_ENV.items():
        if option in values or not console.env.get(variable):
            continue
        if option != "format" or not values.keys() & laid_out:
            values[option] = console.env[variable]
    return SinfoOptions(values)


def _list(asked: SinfoOptions, console: Console, client: SyncClient) -> None:
    """Print one listing. Raises WordsError."""
    check_cluster("sinfo", asked.values.get("clusters"))
    now = time.time()
    if asked.has("long", "iterate") and not asked.has("json", "yaml", "noheader"):
        print(ctime(now), file=console.streams.out)
    if asked.has("reservation"):
        if asked.has("clusters"):
            print(CLUSTER_LINE, file=console.streams.out)
        _print_reservations(console, client, titles=not asked.has("noheader"))
        return
    parts = sorted(client.call("partitions")["partitions"], key=lambda part: int(part["position"]))
    site = SinfoTables(parts, client.call("nodes", facts=True)["nodes"])
    if _RESERVED.search(asked.values.get("Format", "")) or "i" in asked.values.get("format", ""):
        site = _with_reservations(site, client)
    if asked.has("json", "yaml"):
        _dump(asked, console, site)
        return
    _print(asked, console, site, prints())


RESERVATION_FIELD = "reservation"
"""A field of newer versions, whose letter is not part of %all in Slurm 22.05."""
_RESERVED = re.compile(rf"\b{RESERVATION_FIELD}\b", re.IGNORECASE)


def _with_reservations(site: SinfoTables, client: SyncClient) -> SinfoTables:
    """Return the tables with the name of the active reservation in the row of each node that has one."""
    of_node = {
        name: row["name"]
        for row in client.call("reservations")["reservations"]
        if row["state"] == "active"
        for name in expand(row["node_list"])
    }
    return site._replace(
        nodes=[{**node, RESERVATION_FIELD: of_node.get(node["name"], "")} for node in site.nodes]
    )


def _print(asked: SinfoOptions, console: Console, site: SinfoTables, named: dict[str, Print]) -> None:
    printable = as_fields(named)
    columns = _columns(asked, site, printable, lambda sentence: print(sentence, file=console.streams.err))
    fields = [column.field for column in columns if column.field]
    rows = _rows(asked, site, [named[field] for field in fields], of_names=bool(NAMED_BY & {*fields}))
    _sort(rows, asked, named)
    layout = LineLayout(columns, printable)
    lines = [] if asked.has("noheader") else [layout.titles()]
    if lines and asked.has("clusters"):
        lines.insert(0, CLUSTER_LINE)
    lines += [layout.line(row) for row in rows]
    if lines:
        console.print_lines(lines)


# Columns


def _columns(
    asked: SinfoOptions, site: SinfoTables, fields: dict[str, TextField], complain: Callable[[str], None]
) -> list[FormatColumn]:
    def unknown_name(word: str) -> None:
        complain(f"sinfo: error: Invalid job format specification: {word}")

    def unknown_letter(word: str) -> None:
        complain(f"Invalid node format specification: {word}")

    letters = letters_of(fields)
    form = asked.values.get("Format")
    if form is not None and form.lower() != "all":
        return long_columns(form, {name: name for name in fields} | OTHER_NAMES, unknown_name)
    form = "%all" if form is not None else asked.values.get("format", _default(asked, site))
    if form.lower() == "%all":
        letters = {letter: field for letter, field in letters.items() if field != RESERVATION_FIELD}
        last = list(letters)[-1]
        return [FormatColumn(field, suffix=_gap(letter, last)) for letter, field in letters.items()]
    return short_columns(form, letters, unknown_letter)


def _gap(letter: str, last: str) -> str:
    """Return the separator after a column of %all, as sinfo prints it."""
    return " " if letter == last else "|" if letter.islower() else " |"


OTHER_NAMES = {"priority": "prioritytier", "share": "oversubscribe"}
"""Second names of -O -> names of the columns."""


def _default(asked: SinfoOptions, site: SinfoTables) -> str:
    part = max([NAME_WIDTH, *(len(each["name"]) + each["default"] for each in site.partitions)])
    node = max([NAME_WIDTH, *(len(each["name"]) for each in site.nodes)])
    long = asked.has("long")
    if asked.has("summarize"):
        return f"%{part}P %.5a %.10l %.16F %N"
    if asked.has("Node"):
        if long:
            return f"%{node}N %.6D %.{part}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
        return f"%{node}N %.6D %.{part}P %6t"
    if asked.has("list-reasons"):
        return "%20E %12U %19H %6t %N" if long else "%20E %9u %19H %N"
    if long:
        return f"%{part}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
    return f"%{part}P %.5a %.10l %.6D %.6t %N"


# Grouping of nodes into lines


NAMED_BY = frozenset({"partition", "partitionname"})
"""Fields that name the partition. If one of them is printed, a partition without nodes has a line, too."""


def _rows(asked: SinfoOptions, site: SinfoTables, printed: list[Print], *, of_names: bool) -> list[Row]:
    """Return the lines: one for each group of equal nodes, or with -N one for each node of each partition.

    If the lines name partitions (`of_names`), a partition without any selected node has a line, too.
    """
    exact, alone = asked.has("exact"), asked.has("Node")
    parts = [each.of_partition for each in printed if each.of_partition is not None]
    nodes = [each.of_node for each in printed if each.of_node is not None and (exact or not each.exact)]
    is_meant = _filter(asked)
    groups: dict[Any, tuple[Row, dict[str, Row]]] = {}
    for part in _partitions(asked, site):
        of_part = tuple(key(part) for key in parts)
        meant = [node for node in _nodes_of(part, site) if is_meant(node)]
        for node in meant:
            one = (part["name"], node["name"]) if alone else ()
            key = (of_part, tuple(each(node) for each in nodes), one)
            groups.setdefault(key, (part, {}))[1][node["name"]] = node
        if not meant and of_names and not alone and not asked.has("list-reasons"):
            groups.setdefault((of_part, None, ()), (part, {}))
    return [group(part, list(found.values())) for part, found in groups.values()]


def _partitions(asked: SinfoOptions, site: SinfoTables) -> list[Row]:
    wanted = asked.values.get("partition")
    return [part for part in site.partitions if wanted is None or part["name"] in split_list(wanted)]


def _nodes_of(part: Row, site: SinfoTables) -> Iterable[Row]:
    members = frozenset(expand(part["node_list"]))
    return (node for node in site.nodes if node["name"] in members)


def _filter(asked: SinfoOptions) -> Callable[[Row], bool]:
    """Return a function that checks if a node is selected.

    Raises WordsError for an invalid state or node list.
    """
    states = asked.values.get("states", REASONS if asked.has("list-reasons") else "all")
    tests = None if states.lower() == "all" else [_state_test(word) for word in split_list(states)]
    names = _names(asked.values.get("nodes"))

    def is_meant(node: Row) -> bool:
        return (
            (tests is None or any(test(node) for test in tests))
            and (names is None or node["name"] in names)
            and not (asked.has("dead") and node["responding"])
            and not (asked.has("responding") and not node["responding"])
            and not (asked.has("list-reasons") and not node["reason"])
        )

    return is_meant


def _state_test(text: str) -> Callable[[Row], bool]:
    """Return a check for one state, or for several states that a node must all have (idle&drain or idle+drain).

    A ~ before a state means that a node must not have it.
    """
    words = re.split(r"[&+]", text)
    for word in words:
        try:
            picks(word.removeprefix("~"), EXAMPLE)
        except KeyError:
            raise WordsError(
                f'sinfo: error: Bad state string: "{word}"\nsinfo: error: valid states: {WORDS}'
            ) from None
    return lambda node: all(picks(word.removeprefix("~"), node) is not word.startswith("~") for word in words)


EXAMPLE: Row = {"base": "idle"} | dict.fromkeys(
    ("drained", "responding", "maintenance", "reserved", "completing"), False
)
"""State of a node, used only to validate state names."""


def _names(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    try:
        return frozenset(expand(text))
    except UserError:
        raise WordsError(f"sinfo: error: '{text}' invalid entry for --nodes") from None


def _sort(rows: list[Row], asked: SinfoOptions, named: dict[str, Print]) -> None:
    """Sort the rows in place by the letters of -S, the most important first.

    Unknown letters are ignored. Equal rows keep the configured order of partitions and nodes.
    """
    by_letter = {each.letter: each for each in named.values() if each.letter}
    usual = ORDER_OF_NODES if asked.has("Node") else ORDER
    for word in reversed(split_list(asked.values.get("sort", usual))):
        letter = word.lstrip("+-#")[:1]
        each = by_letter.get(letter)
        if each is None:
            continue
        key: Callable[[Row], Any] = each.value or each.text
        if letter == "P" and "#" in word:
            key = lambda row: row["part"]["position"]  # noqa: E731
        rows.sort(key=key, reverse=word.startswith("-"))


# Reservations and JSON output


def _print_reservations(console: Console, client: SyncClient, *, titles: bool) -> None:
    rows = [
        row for row in client.call("reservations")["reservations"] if row["state"] in ("active", "future")
    ]
    if not rows:
        print("No reservations in the system", file=console.streams.out)
        return
    width = max([len("RESV_NAME"), *(len(row["name"]) for row in rows)])
    form = f"%-{width}s  %8s  %19s  %19s  %11s  %s"
    if titles:
        print(
            form % ("RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"),
            file=console.streams.out,
        )
    for row in rows:
        state, lasts = RESERVATION["state"].value(row), clock(RESERVATION["lasts_s"].value(row))
        times = (moment(row[each], none="N/A") for each in ("start", "end"))
        console.print_lines([form % (row["name"], state, *times, lasts, row["node_list"])])


GROUPED_BY = ("partition", "available", "time", "statecomplete", "gres", "features", "reason")
"""Columns by which the nodes of --json are grouped in newer layouts."""


def _dump(asked: SinfoOptions, console: Console, site: SinfoTables) -> None:
    from warpdeck.slurm.data_parser.node_group import group_object
    from warpdeck.slurm.data_parser.output import print_document, requested
    from warpdeck.slurm.fields.node_fields import in_configured_order
    from warpdeck.slurm.fields.node_json import node_object
    from warpdeck.slurm.fields.partition_fields import with_members

    output = requested("sinfo", asked.values)
    assert output is not None
    if not output.version:
        nodes = in_configured_order(site.nodes, site.partitions)
        things = {"nodes": [node_object(node) for node in nodes]}
    else:
        by_name = {node["name"]: node for node in site.nodes}
        known = prints()
        rows = _rows(asked, site, [known[name] for name in GROUPED_BY], of_names=True)
        groups = [{**row, "part": with_members(row["part"], by_name)} for row in rows]
        things = {"sinfo": [group_object(row, output.version) for row in groups]}
    print_document(console, output, things, command=["sinfo", "--json"], updated=False)
