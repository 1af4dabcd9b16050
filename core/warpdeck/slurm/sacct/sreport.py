"""sreport(1): prints reports of the cluster's usage from the controller's own history.

Syntax, layouts and messages are those of sreport.
"""

from __future__ import annotations

import shlex
import time
from itertools import compress
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.slurm_version import VERSION
from warpdeck.slurm.console.command_options import (
    WordsError,
    handle_help,
    options,
    read_anywhere,
    reported_time,
    split_list,
)
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.console.repl import prompted
from warpdeck.slurm.format.account_tree import ROOT
from warpdeck.slurm.format.printing import (
    PrintedColumn,
    last_of_formats,
    print_header,
    print_row,
    style_of,
    width_of,
)
from warpdeck.slurm.sacctmgr.abbreviations import Name, meant, names
from warpdeck.slurm.sacctmgr.entity_rows import TRES

from . import reports, size_reports
from .record_choice import in_group
from .reports import FIELDS, AmountForm, ReportWindow, UsageReport
from .size_reports import AccountLines

OPTIONS = options(
    "sreport",
    "all_clusters,a cluster=,M federation help,h local noheader,n parsable,p parsable2,P quiet,Q time=,t tres=,T verbose,v "
    "version,V usage",
)
HELP = """sreport [<OPTION>] TYPE REPORT [NAME=VALUE ...]

  cluster Utilization                 allocated and idle resources of the cluster
  cluster AccountUtilizationByUser    usage by account, and by user within each account
  cluster UserUtilizationByAccount    usage by user, largest first
  user TopUsage                       users with the largest usage (TopCount=10; Group merges a user's accounts)
  job SizesByAccount                  usage by number of CPUs (Grouping=50,250,500,1000 or individual; PrintJobCount): one line in all,
                                      one for each named account, for each account (FlatView), or for each child (AcctAsParent)
  Reports by wckey and on reservations are empty: wckeys do not exist here, and the usage of reservations is not recorded.

  Start=TIME  End=TIME   the time window (default: yesterday)
  Accounts=NAMES  Users=NAMES  Partitions=NAMES  Format=FIELD[%WIDTH],...
  -t --time UNIT         seconds, minutes, hours, percent, secper, minper, hourper
  -T --tres NAMES        cpu, mem, gres/gpu, billing ...: one line for each
  -n --noheader  -p --parsable  -P --parsable2

  sreport cluster utilization start=now-7days end=now -t hours -T cpu,gres/gpu
  sreport user top start=2026-11-01
"""
RULE = "-" * 80
DAY_S = 86_400.0
HOUR_S = 3600.0
MAX_LINE = 1 << 16
USUAL_WIDTH = 8
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
"""Type -> report -> our name for the report."""
LEAST = {
    "cluster": 2,
    "reservation": 2,
    "utilization": 2,
    "userutilizationbyaccount": 18,
    "userutilizationbywckey": 18,
}
"""Type or report -> number of its letters that must be written, if it is more than one."""
VALID = {
    "cluster": '"AccountUtilizationByUser", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", '
    'and "WCKeyUtilizationByUser"',
    "job": '"SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    "reservation": '"Utilization"',
    "user": '"Top"',
}
_ALWAYS = "Clusters:1=clusters End:1=end Format:1=format Start:1=start"
_PEOPLE = f"Users:1=users Accounts:2=accounts Acct:4=accounts {_ALWAYS}"


class ReportArguments(NamedTuple):
    """Arguments that a report accepts.

    They are conditions (NAME=VALUE), flags, and the condition that a value without a name belongs to.
    """

    conditions: tuple[Name, ...]
    flags: tuple[Name, ...]
    alone: str
    advises: bool = True
    """Whether the message for an unknown condition includes a hint."""


_EVERYWHERE = "all_clusters:1"
_BY_PEOPLE = ReportArguments(names(_PEOPLE), names(f"{_EVERYWHERE} Tree:4=tree"), "users")
_BY_WCKEY = ReportArguments(
    names("WCKeys:3=wckeys Clusters:3=clusters End:1=end Format:1=format Start:1=start Users:1=users"),
    names(f"{_EVERYWHERE} withdeleted:5"),
    "wckeys",
    advises=False,
)
_SIZES = ReportArguments(
    names(
        "Clusters:1=clusters Accounts:2=accounts Acct:4=accounts Associations:2 End:1=end Format:2=format Gid:2=gid "
        "grouping:2 Jobs:1 Nodes:1=nodes Partitions:2=partitions Start:1=start Users:1=users Wckeys:2"
    ),
    names(f"{_EVERYWHERE} acctasparent:2 printjobcount:2 flatview:2"),
    "clusters",
)
CONDITIONS = {
    "utilization": ReportArguments(names(_ALWAYS), names(_EVERYWHERE), "clusters"),
    **dict.fromkeys(("account", "user"), _BY_PEOPLE),
    **dict.fromkeys(("user_wckey", "wckey_user"), _BY_WCKEY),
    **dict.fromkeys(("sizes", "account_wckey_sizes", "wckey_sizes"), _SIZES),
    "reservation": ReportArguments(
        names("Names:1 Clusters:1=clusters End:1=end Flags:2 Format:2=format Ids:1 Nodes:1 Start:1=start"),
        names(_EVERYWHERE),
        "Names",
    ),
    "top": ReportArguments(names(f"{_PEOPLE} topcount:1"), names(f"{_EVERYWHERE} group:1"), "users"),
}
"""Report -> its arguments."""
_OF_CLUSTER = names(
    "Accounts:2=Account Allocated:2 Cluster:2 Down:1 Idle:1 Login:1 Overcommitted:1=Over_Comm PlannedDown:2 Proper:2 "
    "Reported:3 Reserved:3=Planned Planned:4 TresCount:5 CPUCount:2=TresCount Count:2=TresCount TresName:5 Used:1 WCKey:2 Energy:1"
)
_OF_JOBS = names(
    "Account:1 Acct:4=Account Cluster:2 Duration:1 JobCount:2=Job_Count NodeCount:2=Node_Count TresCount:5=TRES_Count "
    "CPUCount:2=TRES_Count Count:2=TRES_Count User:1 Wckey:1"
)
FIELDS_OF = {
    **dict.fromkeys(("utilization", "account", "user", "user_wckey", "wckey_user"), _OF_CLUSTER),
    **dict.fromkeys(("sizes", "account_wckey_sizes", "wckey_sizes"), _OF_JOBS),
    "reservation": names(
        "Allocated:2 Associations:2 Cluster:2 End:2 Flags:2 Idle:1 Name:2 Nodes:2 ReservationId:2=Id Start:2 TotalTime:2 "
        "TresCount:5 CpuCount:2=TresCount Count:2=TresCount TresName:5 TresTime:2 CpuTime:5=TresTime"
    ),
    "top": names("Accounts:1=Account Cluster:1 Energy:1 Login:1 Proper:1 TresName:5 Used:1"),
}
"""Report -> the fields of format=, with the abbreviations that Slurm accepts."""
ENDS = ("exit", "quit")
STYLES = ("nonparsable", "parsable", "parsable2")
MODES = (*ENDS, *STYLES, "local", "quiet", "time", "verbose")
"""Commands that only have an effect on later lines of the prompt. On the command line their arguments are checked."""
TIMES = {
    "seconds": ("seconds", ""), "minutes": ("minutes", ""), "hours": ("hours", ""), "percent": ("minutes", "only"),
    "secper": ("seconds", "too"), "minper": ("minutes", "too"), "hourper": ("hours", "too"),
}  # fmt: skip


def main(words: list[str], console: Console) -> int:
    """Print one report, or those that are requested on standard input, and return the exit code."""
    found, rest = read_anywhere(words, OPTIONS)
    if handle_help(found, console, help_text=HELP):
        return 0
    given = last_of_formats(found)
    return _report(rest, given, console) if rest else _converse(given, console)


def _converse(given: dict[str, str], console: Console) -> int:
    code = 0
    for line in prompted(console, PROMPT):
        words: list[str] = []
        try:
            found, words = read_anywhere(shlex.split(line), OPTIONS)
            if words[:1] and words[0] in MODES:
                given = _changed_mode(words, given, console)
            elif words:
                code = max(code, _report(words, {**given, **dict(found)}, console))
        except (ValueError, WordsError) as error:
            console.streams.err.write(f"{error}\n")
            code = 1
        if words[:1] and words[0] in ENDS:
            break
    return code


def _changed_mode(words: list[str], given: dict[str, str], console: Console) -> dict[str, str]:
    """Return the options for later reports after a command of `MODES`. Raises WordsError for wrong arguments."""
    mode, *rest = words
    if rest and mode in (*ENDS, *STYLES):
        raise WordsError(f"too many arguments for keyword:{mode}")
    if mode == "time":
        if not rest:
            raise WordsError(f"too few arguments for keyword:{mode}")
        return {**given, "time": rest[0]} if _time_form(rest[0], console) else given
    if mode in STYLES:
        others = {name: value for name, value in given.items() if name not in STYLES}
        return {**others, mode: ""}
    return given


def _report(words: list[str], given: dict[str, str], console: Console) -> int:
    """Print a report and return the exit code.

    As in Slurm, wrong arguments are reported and otherwise ignored.
    """
    if words[0] in MODES:
        _changed_mode(words, given, console)
        return 0
    if text := {"help": HELP, "version": VERSION}.get(words[0].lower()):
        console.streams.out.write(text)
        return 0
    form = _form(given, console)
    kind = _kind(words)
    asked, wrong = _parse_conditions(words[2:], CONDITIONS[kind])
    window = _window(asked, console)
    if kind.endswith("sizes") and len(form.tres) > 1:
        raise WordsError(
            " Job report only supports a single --tres type.\n Generate a separate report for each TRES type."
        )
    clusters = split_list(given.get("cluster", "") or asked.get("clusters", ""))
    is_meant = not clusters or CLUSTER_NAME in clusters
    with console.controller.connect() as client:
        jobs = _jobs(client, window, asked, kind) if is_meant else []
        parents = {
            row["account"]: row["parent"] for row in client.call("shares")["shares"] if not row["user"]
        }
        have = _have(client)
    report = _made(kind, jobs, have, window, form, asked, parents=parents, wrong=wrong)
    wrong += _print(report if is_meant else report._replace(rows=[]), kind, asked, given, console)
    console.streams.err.write("".join(wrong))
    return 1 if wrong else 0


def _kind(words: list[str]) -> str:
    """Return our name for the requested report. Raises WordsError."""
    word = words[0].lower()
    kind = next((each for each in TYPES if _begins(each, word)), "")
    if not kind:
        raise WordsError(f"invalid keyword: {words[0]}")
    if len(words) < 2:
        raise WordsError(f"too few arguments for keyword:{words[0]}")
    asked = words[1].lower()
    name = next((each for each in TYPES[kind] if _begins(each, asked)), "")
    if not name:
        raise WordsError(f"Not valid report {words[1]}\nValid {kind} reports are, {VALID[kind]}")
    return TYPES[kind][name]


def _begins(name: str, word: str) -> bool:
    return len(word) >= LEAST.get(name, 1) and name.startswith(word)


def _parse_conditions(words: list[str], known: ReportArguments) -> tuple[dict[str, str], list[str]]:
    """Parse the arguments of a report.

    Returns the conditions and flags, and the messages for unknown ones.
    """
    found: dict[str, str] = {}
    wrong = []
    for word in words:
        key, equals, value = word.partition("=")
        flag = "" if equals else meant(key, known.flags)
        name = meant(key, known.conditions) if equals else known.alone
        if flag:
            found[flag] = ""
        elif name:
            found[name] = ",".join(filter(None, (found.get(name, ""), value if equals else word)))
        else:
            advice = "Use keyword set to modify value\n" if known.advises else ""
            wrong.append(f" Unknown condition: {word}\n{advice}")
    return found, wrong


def _form(given: dict[str, str], console: Console) -> AmountForm:
    """Return the format of amounts. As in Slurm, an unknown time unit is reported and minutes are used."""
    unit, percent = _time_form(given.get("time", "minutes"), console) or TIMES["minutes"]
    return AmountForm(unit, percent, _tres(given["tres"]) if "tres" in given else ())


def _time_form(text: str, console: Console) -> tuple[str, str] | None:
    """Return the value of TIMES that a word begins. Report an unknown word, and return None for it."""
    found = next((form for name, form in TIMES.items() if text and name.startswith(text.lower())), None)
    if found is None:
        console.streams.err.write(f"unknown time format {text}\n")
    return found


def _tres(text: str) -> tuple[str, ...]:
    """Return the requested TRES that exist, in Slurm's order. Raises WordsError if there is none."""
    known = [f"{kind}/{name}" if name else kind for kind, name, _ in TRES]
    asked = split_list(text.lower())
    found = tuple(name for name in known if name in asked or "all" in asked)
    if not found:
        raise WordsError("sreport: fatal: No valid TRES given")
    return found


def _window(conditions: dict[str, str], console: Console) -> ReportWindow:
    """Return the time window, by default yesterday.

    It never ends after the current time. If its end is not after its start, it lasts an hour.
    """
    now = time.time()
    today = reported_time("00:00", now, console)
    since = reported_time(conditions.get("start", ""), now, console)
    until = reported_time(conditions.get("end", ""), now, console)
    if since is None:
        since = (today or now) - DAY_S
    if until is None:
        until = today if today is not None and since < today else now
    until = min(until, now)
    return ReportWindow(int(since), int(until if until > since else since + HOUR_S))


def _jobs(client: Any, window: ReportWindow, asked: dict[str, str], kind: str) -> list[dict[str, Any]]:
    narrows = ("users", "partitions", "nodes") if kind == "sizes" else ("users",)
    narrowed = {name: split_list(asked[name]) for name in narrows if asked.get(name)}
    wanted = {"since": window.since, "until": window.until, "ended": True, "fields": list(FIELDS)}
    jobs: list[dict[str, Any]] = client.call("records", **wanted, **narrowed)["jobs"]
    return [job for job in jobs if in_group(job["uid"], asked["gid"])] if asked.get("gid") else jobs


def _have(client: Any) -> dict[str, int]:
    """Return the total capacity of all nodes for each TRES."""
    from warpdeck.slurm.fields.node_fields import tres_of_all

    return tres_of_all(client.call("nodes", facts=True)["nodes"])


def _made(
    kind: str,
    jobs: list[dict[str, Any]],
    have: dict[str, int],
    window: ReportWindow,
    form: AmountForm,
    asked: dict[str, str],
    *,
    parents: dict[str, str],
    wrong: list[str],
) -> UsageReport:
    if kind == "utilization":
        return reports.utilization(jobs, have, window, form)
    lines = AccountLines(
        parents,
        tuple(split_list(asked.get("accounts", "").lower())),
        flat="flatview" in asked,
        as_parents="acctasparent" in asked,
    )
    if kind == "sizes":
        count = "printjobcount" in asked
        return size_reports.sizes(jobs, window, form, lines=lines, groups=_groups(asked), count=count)
    if kind == "wckey_sizes":
        return size_reports.empty("Job Sizes by Wckey", {"Wckey": 9}, window, form)
    if kind == "account_wckey_sizes":
        return size_reports.empty("Job Sizes", {"Account": -20}, window, form)
    if kind in reports.EMPTY:
        return reports.empty(kind, window, form)
    top = None
    if kind == "top":
        text = asked.get("topcount") or str(reports.ALL_USERS)
        top = int(text) if text.isdecimal() else reports.ALL_USERS
        wrong += [] if text.isdecimal() else [f"sreport: error: Invalid value for TopCount ({text})\n"]
    if kind == "account":
        jobs = [job for job in jobs if lines.has(job["account"] or ROOT)]
    else:
        jobs = [job for job in jobs if not lines.named or job["account"] in lines.named]
    if "group" in asked:
        jobs = reports.as_one_account(jobs)
    report = reports.by_people(jobs, have, window, form, report=kind, top=top, above=lines.upwards)
    if kind != "account":
        return report
    is_shown = [
        lines.has(row["Account"]) and bool(row["Login"] or not asked.get("users")) for row in report.rows
    ]
    return report._replace(rows=list(compress(report.rows, is_shown)))


def _groups(asked: dict[str, str]) -> tuple[int, ...] | None:
    text = asked.get("grouping", "")
    if text and "individual".startswith(text.lower()):
        return None
    return tuple(_number(word, "grouping") for word in split_list(text)) or size_reports.GROUPS


def _number(text: str, name: str) -> int:
    if not text.isdecimal() or not int(text):
        raise CommandError(f"Invalid {name} value: {text}")
    return int(text)


def _print(
    report: UsageReport, kind: str, asked: dict[str, str], given: dict[str, str], console: Console
) -> list[str]:
    """Print the report and return the messages for unknown fields."""
    style = style_of(given)
    widths = {**report.widths, "Account": -20} if "tree" in asked else report.widths
    columns = [PrintedColumn(name, widths[name]) for name in report.shown]
    wrong: list[str] = []
    if asked.get("format"):
        columns, wrong = _columns(asked["format"], widths, kind)
        columns += [PrintedColumn(name, widths[name]) for name in report.shown if name[:1] in "0123456789>%"]
    if style.header:
        console.print_lines([RULE, *report.heading, RULE])
    if columns:
        print_header(console, columns, style, titles=report.titles)
        for row in report.rows:
            if "tree" in asked:
                row["Account"] = row.get("depth", "") + row.get("Account", "")
            print_row(console, columns, [row.get(column.name, "") for column in columns], style)
    return wrong


def _columns(form: str, widths: dict[str, int], kind: str) -> tuple[list[PrintedColumn], list[str]]:
    columns: list[PrintedColumn] = []
    wrong: list[str] = []
    for word in split_list(form.lower()):
        name, width = width_of(word)
        if field := meant(name, FIELDS_OF[kind]):
            columns.append(PrintedColumn(field, width or widths.get(field, USUAL_WIDTH)))
        else:
            wrong.append(f" Unknown field '{name}'\n")
    return columns, wrong
