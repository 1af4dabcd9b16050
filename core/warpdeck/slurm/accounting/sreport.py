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
  Those by wckey, and of reservations, are empty: there are no wckeys here, and what reservations held is not kept apart.

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
HOUR_S = 3600.0
MAX_LINE = 1 << 16
PROMPT = "sreport: "
TYPES = {
    "cluster": {
        "accountutilizationbyuser": "account",
        "userutilizationbyaccount": "user",
        "userutilizationbywckey": "user_wckey",
        "utilization": "utilization",
        "wckeyutilizationbyuser": "wckey_user",
    },
    "job": {
        "sizesbyaccount": "sizes",
        "sizesbyaccountandwckey": "account_wckey_sizes",
        "sizesbywckey": "wckey_sizes",
    },
    "reservation": {"utilization": "reservation"},
    "user": {"topusage": "top"},
}
"""Type -> report -> ours."""
LEAST = {
    "cluster": 2,
    "reservation": 2,
    "utilization": 2,
    "userutilizationbyaccount": 18,
    "userutilizationbywckey": 18,
}
"""Letters of a type or report that must be written, where one is not enough."""
VALID = {
    "cluster": '"AccountUtilizationByUser", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", '
    'and "WCKeyUtilizationByUser"',
    "job": '"SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    "reservation": '"Utilization"',
    "user": '"Top"',
}
_ALWAYS = ("all_clusters", "clusters", "end", "format", "start")
_PEOPLE = (*_ALWAYS, "accounts", "acct", "tree", "users")
_WCKEYS = (*_ALWAYS, "users", "wckeys", "withdeleted")
_JOBS = (*_PEOPLE, "flatview", "gid", "grouping", "jobs", "nodes", "partitions", "printjobcount", "wckeys")
CONDITIONS = {
    "utilization": _ALWAYS,
    **dict.fromkeys(("account", "user"), _PEOPLE),
    **dict.fromkeys(("user_wckey", "wckey_user"), _WCKEYS),
    **dict.fromkeys(("sizes", "account_wckey_sizes", "wckey_sizes"), _JOBS),
    "reservation": (*_ALWAYS, "flags", "ids", "names", "nodes"),
    "top": (*_PEOPLE, "group", "topcount"),
}
"""Of each report."""
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
    conditions = _conditions(words[2:], CONDITIONS[kind])
    form, window = _form(given, console), _window(conditions, console)
    clusters = listed(given.get("cluster", "") or conditions.get("clusters", ""))
    with console.connect() as client:
        jobs = _jobs(client, window, conditions) if not clusters or CLUSTER_NAME in clusters else []
        have = _have(client)
    _print(_made(kind, jobs, have, window, form, conditions), conditions, given, console)


def _kind(words: list[str]) -> str:
    """Which report of ours. Raises Said."""
    word = words[0].lower()
    kind = next((each for each in TYPES if _begins(each, word)), "")
    if not kind:
        raise Said(f"invalid keyword: {words[0]}")
    if len(words) < 2:
        raise Said(f"too few arguments for keyword:{words[0]}")
    asked = words[1].lower()
    name = next((each for each in TYPES[kind] if _begins(each, asked)), "")
    if not name:
        raise Said(f"Not valid report {words[1]}\nValid {kind} reports are, {VALID[kind]}")
    return TYPES[kind][name]


def _begins(name: str, word: str) -> bool:
    return len(word) >= LEAST.get(name, 1) and name.startswith(word)


def _conditions(words: list[str], known: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE, by the beginnings of the names that are known. Raises Said."""
    found = {}
    unknown = []
    for word in words:
        key, _, value = word.partition("=")
        lowered = key.lower()
        name = next((each for each in known if lowered and each.startswith(lowered)), "")
        if name:
            found[name] = value
        else:
            unknown.append(f" Unknown condition: {word}\nUse keyword set to modify value")
    if unknown:
        raise Said("\n".join(unknown))
    return found


def _form(given: dict[str, str], console: Console) -> Form:
    """What is no unit is said, and the report is in minutes, as Slurm has it."""
    asked = given.get("time", "minutes").lower()
    names = [name for name in TIMES if asked and name.startswith(asked)]
    if not names:
        console.err.write(f"unknown time format {given['time']}\n")
        names = ["minutes"]
    unit, percent = TIMES[names[0]]
    return Form(unit, percent, tuple(listed(given.get("tres", ""))))


def _window(conditions: dict[str, str], console: Console) -> Window:
    """Yesterday, unless it is said; never later than now, and an hour where the end is not behind the start."""
    now = time.time()
    today = _moment("00:00", now, console)
    since = _moment(conditions.get("start", ""), now, console)
    until = _moment(conditions.get("end", ""), now, console)
    if since is None:
        since = (today or now) - DAY_S
    if until is None:
        until = today if today is not None and since < today else now
    until = min(until, now)
    return Window(int(since), int(until if until > since else since + HOUR_S))


def _moment(text: str, now: float, console: Console) -> float | None:
    """None for what was not said, or is no time, which is said: Slurm goes on without it."""
    try:
        return parse_moment(text, now, past=True) if text else None
    except UserError:
        console.err.write(f"Invalid time specification (pos=0): {text}\n")
        return None


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
    if kind in reports.EMPTY:
        return reports.empty(kind, window, form)
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
