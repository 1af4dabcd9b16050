"""sreport(1): how the cluster was used, from the controller's own history. Words, layouts and messages are sreport's."""

from __future__ import annotations

import shlex
import time
from typing import Any

from warpdeck.cluster import CLUSTER_NAME
from warpdeck.errors import UserError
from warpdeck.notation.moments import parse_moment
from warpdeck.slurm.console import CommandError, Console
from warpdeck.slurm.version import VERSION
from warpdeck.slurm.words import WordsError, listed, options, read_anywhere

from . import reports
from .printing import Column, Style, UnknownField, columns_of, print_header, print_row
from .reports import FIELDS, Form, Report, Window

OPTIONS = options(
    "sreport",
    "all_clusters,a cluster=,M federation help,h local noheader,n parsable,p parsable2,P quiet,Q time=,t tres=,T verbose,v "
    "version,V usage",
)
HELP = """sreport [<OPTION>] TYPE REPORT [NAME=VALUE ...]

  cluster Utilization                 how much of the cluster was held and how much was idle
  cluster AccountUtilizationByUser    by account, and by user in it
  cluster UserUtilizationByAccount    by user, the most first
  user TopUsage                       the users who held most (TopCount=10)
  job SizesByAccount                  by account and number of CPUs (Grouping=50,250,500,1000  PrintJobCount)

  Start=TIME  End=TIME   the window; without both yesterday
  Accounts=NAMES  Users=NAMES  Partitions=NAMES  Format=FIELD[%WIDTH],...
  -t --time UNIT         seconds, minutes, hours, percent, secper, minper, hourper
  -T --tres NAMES        cpu, mem, gres/gpu, billing ...: a line for each
  -n --noheader  -p --parsable  -P --parsable2

  sreport cluster utilization start=now-7days end=now -t hours -T cpu,gres/gpu
  sreport user top start=2026-11-01
"""
RULE = "-" * 80
DAY_S = 86_400.0
MAX_LINE = 1 << 16
PROMPT = "sreport: "
TYPES = {
    "cluster": {
        "accountutilizationbyuser": "account",
        "userutilizationbyaccount": "user",
        "userutilizationbywckey": "",
        "utilization": "utilization",
        "wckeyutilizationbyuser": "",
    },
    "job": {"sizesbyaccount": "sizes", "sizesbyaccountandwckey": "", "sizesbywckey": ""},
    "reservation": {"utilization": ""},
    "user": {"topusage": "top"},
}
"""Type -> report -> ours; "" is none: see NOT_KEPT."""
NOT_KEPT = "there are no wckeys here, and what was done in reservations is not kept apart"
VALID = {
    "cluster": '"AccountUtilizationByUser", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", '
    'and "WCKeyUtilizationByUser"',
    "job": '"SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    "reservation": '"Utilization"',
    "user": '"TopUsage"',
}
CONDITIONS = (
    *(
        "accounts",
        "all_clusters",
        "clusters",
        "end",
        "format",
        "group",
        "grouping",
        "partitions",
        "printjobcount",
    ),
    *("start", "topcount", "tree", "users", "flatview"),
)
TIMES = {
    "seconds": ("seconds", ""), "minutes": ("minutes", ""), "hours": ("hours", ""), "percent": ("minutes", "only"),
    "secper": ("seconds", "too"), "minper": ("minutes", "too"), "hourper": ("hours", "too"),
}  # fmt: skip


class Said(Exception):
    """A sentence without the command's name before it; the exit code is 1."""


def main(words: list[str], console: Console) -> int:
    """Prints one report, or those that lines on standard input name; the exit code."""
    try:
        found, rest = read_anywhere(words, OPTIONS)
        given = dict(found)
        if given.keys() & {"help", "usage", "version"}:
            console.out.write(VERSION if "version" in given else HELP)
            return 0
        if rest:
            _report(rest, given, console)
            return 0
        return _converse(given, console)
    except WordsError as error:
        console.err.write(error.message.removesuffix('\nTry "sreport --help" for more information') + "\n")
        return error.exit_code
    except Said as error:
        console.err.write(f"{error}\n")
        return 1


def _converse(given: dict[str, str], console: Console) -> int:
    code = 0
    console.linger()
    while True:
        console.out.write(PROMPT)
        console.out.flush()
        line = console.stdin.readline(MAX_LINE)
        if not line or line.strip() in ("exit", "quit"):
            console.out.write("" if line else "\n")
            return code
        try:
            found, words = read_anywhere(shlex.split(line), OPTIONS)
            if words:
                _report(words, {**given, **dict(found)}, console)
        except (Said, ValueError, WordsError) as error:
            console.err.write(f"{error}\n")
            code = 1


def _report(words: list[str], given: dict[str, str], console: Console) -> None:
    kind = _kind(words)
    conditions = _conditions(words[2:])
    form, window = _form(given), _window(conditions)
    clusters = listed(given.get("cluster", "") or conditions.get("clusters", ""))
    with console.connect() as client:
        jobs = _jobs(client, window, conditions) if not clusters or CLUSTER_NAME in clusters else []
        have = _have(client)
    _print(_made(kind, jobs, have, window, form, conditions), conditions, given, console)


def _kind(words: list[str]) -> str:
    """Which report of ours. Raises Said."""
    word = words[0].lower()
    kind = next((each for each in TYPES if word and each.startswith(word)), "")
    if not kind:
        raise Said(f"invalid keyword: {words[0]}")
    if len(words) < 2:
        raise Said(f"too few arguments for keyword:{words[0]}")
    asked = words[1].lower()
    name = next((each for each in TYPES[kind] if asked and each.startswith(asked)), "")
    if not name:
        raise Said(f"Not valid report {words[1]}\nValid {kind} reports are, {VALID[kind]}")
    if not TYPES[kind][name]:
        raise Said(f"{kind} {words[1]} is not supported: {NOT_KEPT}")
    return TYPES[kind][name]


def _conditions(words: list[str]) -> dict[str, str]:
    """NAME=VALUE, by the beginnings of names. Raises Said."""
    found = {}
    for word in words:
        key, _, value = word.partition("=")
        lowered = key.lower()
        name = next((each for each in CONDITIONS if lowered and each.startswith(lowered)), "")
        if not name:
            raise Said(f" Unknown condition: {word}\nUse keyword set to modify value")
        found[name] = value
    return found


def _form(given: dict[str, str]) -> Form:
    asked = given.get("time", "minutes").lower()
    names = [name for name in TIMES if asked and name.startswith(asked)]
    if not names:
        raise Said(f"unknown time format {given['time']}")
    unit, percent = TIMES[names[0]]
    return Form(unit, percent, tuple(listed(given.get("tres", ""))))


def _window(conditions: dict[str, str]) -> Window:
    """Yesterday, unless it is said; never later than now. Raises CommandError."""
    now = time.time()
    today = parse_moment("00:00", now, past=True)
    try:
        since = parse_moment(conditions["start"], now, past=True) if conditions.get("start") else None
        until = parse_moment(conditions["end"], now, past=True) if conditions.get("end") else None
    except UserError as error:
        raise CommandError(f"Invalid time specification: {error.message}") from error
    if until is None:
        until = today if since is None or since < today else now
    until = min(until, now)
    window = Window(int(min(today, until) - DAY_S if since is None else since), int(until))
    if window.length_s <= 0:
        raise CommandError("Start time is not before end time: give both, start=TIME end=TIME")
    return window


def _jobs(client: Any, window: Window, conditions: dict[str, str]) -> list[dict[str, Any]]:
    narrowed = {
        name: listed(conditions[name]) for name in ("accounts", "users", "partitions") if conditions.get(name)
    }
    asked = {"since": window.since, "until": window.until, "ended": True, "fields": list(FIELDS)}
    jobs: list[dict[str, Any]] = client.call("records", **asked, **narrowed)["jobs"]
    return jobs


def _have(client: Any) -> dict[str, int]:
    """What all nodes have."""
    from warpdeck.slurm.scontrol.sitetext import node_tres

    have: dict[str, int] = {}
    for node in client.call("nodes")["nodes"]:
        for tres, count in node_tres(node).items():
            have[tres] = have.get(tres, 0) + count
    return have


def _made(
    kind: str,
    jobs: list[dict[str, Any]],
    have: dict[str, int],
    window: Window,
    form: Form,
    conditions: dict[str, str],
) -> Report:
    if kind == "utilization":
        return reports.utilization(jobs, have, window, form)
    if kind == "sizes":
        groups = (
            tuple(_number(word, "grouping") for word in listed(conditions.get("grouping", "")))
            or reports.GROUPS
        )
        return reports.sizes(jobs, window, form, groups=groups, count="printjobcount" in conditions)
    top = 0
    if kind == "top":
        top = _number(conditions["topcount"], "topcount") if conditions.get("topcount") else reports.ALL_USERS
    return reports.by_people(jobs, have, window, form, report=kind, top=top)


def _number(text: str, name: str) -> int:
    if not text.isdecimal() or not int(text):
        raise CommandError(f"Invalid {name} value: {text}")
    return int(text)


def _print(report: Report, conditions: dict[str, str], given: dict[str, str], console: Console) -> None:
    out, parsable = console.out, given.keys() & {"parsable", "parsable2"}
    style = Style("|" if parsable else "", ends="parsable2" not in given, header="noheader" not in given)
    try:
        columns = (
            columns_of(conditions["format"], report.widths)
            if conditions.get("format")
            else [Column(name, report.widths[name]) for name in report.shown]
        )
    except UnknownField as error:
        raise Said(f'Unknown field "{error}"') from error
    if style.header:
        out.write("\n".join([RULE, *report.heading, RULE]) + "\n")
    print_header(out, columns, style, titles=report.titles)
    for row in report.rows:
        print_row(out, columns, [row.get(column.name, "") for column in columns], style)
