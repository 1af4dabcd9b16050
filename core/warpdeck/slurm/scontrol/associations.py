"""`scontrol show assoc_mgr`: users, associations and QoS with their limits and current usage.

The layout is Slurm's: `GrpTRES=cpu=100(6),mem=N(600)` means 6 of 100 CPUs, and 600 MiB of memory without a
limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME, NORMAL_QOS
from warpdeck.base.passwd import uid_of
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.format.account_tree import ROOT
from warpdeck.slurm.viewers.account_use import NO_USE, TRES, used_tree

from .session import Failed, ScontrolSession

KINDS = {"users": "users", "assoc": "associations", "qos": "QOS"}
"""Sections in the order in which they are shown, with the name printed if a section is empty."""
TITLES = {"users": "User", "assoc": "Association", "qos": "QOS"}
NAMED = ("accounts", "flags", "qos", "users")
SECONDS_OF_MINUTE = 60
NO_QOS: Row = {"priority": 0, "limits": {}, "preempt_mode": ""}


class QuietRefusal(Exception):
    """Message for standard error that is not a failure in Slurm."""


class AssociationFilter(NamedTuple):
    """Selected sections and names; an empty tuple selects all names."""

    kinds: frozenset[str]
    accounts: tuple[str, ...]
    users: tuple[str, ...]
    qos: tuple[str, ...]


def parse_filter(words: Iterable[str]) -> AssociationFilter:
    """Parse accounts=, flags=, qos= and users=, and their abbreviations. Raises Failed or QuietRefusal."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, _, value = word.partition("=")
        names = tuple(each.strip().lower() for each in value.split(",") if each.strip())
        if not names:
            raise QuietRefusal(f"No value given for option {word}")
        option = next((each for each in NAMED if each.startswith(key.lower() or "?")), "")
        if not option:
            raise Failed(f"invalid entity: {word} for keyword:show assoc_mgr")
        found[option] = (*found.get(option, ()), *names)
        if option == "flags" and not any(kind in value.lower() for kind in KINDS):
            raise QuietRefusal(f"invalid flag '{value}', valid options are 'Assoc, QOS, and/or Users'")
    flags = ",".join(found.get("flags", ())) or ",".join(KINDS)
    kinds = frozenset(kind for kind in KINDS if kind in flags)
    return AssociationFilter(kinds, *(found.get(name, ()) for name in ("accounts", "users", "qos")))


def show_associations(session: ScontrolSession, words: Sequence[str]) -> None:
    """Handle `scontrol show assoc_mgr`. Raises Failed."""
    try:
        asked = parse_filter(words)
    except QuietRefusal as complaint:
        session.console.streams.err.write(f"{complaint}\n")
        return
    with session.connect() as client:
        tree = client.call("shares")
        shares, levels = tree["shares"], tree.get("admin_levels", {})
        uses = client.call("limit_use")["uses"]
        tables = {row["name"]: row for row in client.call("qos")["qos"]}
    if shares or tables:
        tables = {NORMAL_QOS: NO_QOS, **tables}
    records = {
        "users": _users(shares, asked.users, levels),
        "assoc": _associations(shares, uses, asked),
        "qos": _qos(tables, uses, asked.qos, oneliner=session.oneliner),
    }
    out, gap = session.console.streams.out, "" if session.oneliner else "\n"
    out.write("Current Association Manager state\n")
    for kind in TITLES:
        if kind not in asked.kinds:
            continue
        blocks = list(records[kind])
        head = (
            f"{TITLES[kind]} Records\n{gap}"
            if blocks
            else f"No {KINDS[kind]} currently cached in Slurm.\n{gap}"
        )
        out.write(f"{gap}{head}")
        for block in blocks:
            session.console.print_lines(block, between=" " if session.oneliner else "\n    ")


def _users(shares: Sequence[Row], names: Sequence[str], levels: Mapping[str, str]) -> Iterator[list[str]]:
    defaults: dict[str, str] = {}
    for row in sorted(shares, key=lambda row: not row["default"]):
        if row["user"]:
            defaults.setdefault(row["user"], row["account"])
    for user, account in sorted(defaults.items()):
        if names and user.lower() not in names:
            continue
        admin = "Administrator" if user == ROOT else levels.get(user, "none").title()
        yield [f"UserName={_numbered(user)} DefAccount={account} DefWckey= AdminLevel={admin}"]


def _numbered(user: str) -> str:
    uid = uid_of(user)
    return f"{user}({'N/A' if uid is None else uid})"


def _associations(
    shares: Sequence[Row], uses: Sequence[Row], asked: AssociationFilter
) -> Iterator[list[str]]:
    numbers: dict[str, int] = {}
    for row, above in used_tree(shares, uses) if shares else ():
        user = row["user"]
        if not user:
            numbers[row["account"]] = row["number"]
        left_out = asked.accounts and row["account"].lower() not in asked.accounts
        if left_out or (user and asked.users and user.lower() not in asked.users):
            continue
        parent = above[-1] if above and not user else ""
        yield _association(row, f"{parent}({numbers[parent]})" if parent else "")


def _association(row: Row, parent: str) -> list[str]:
    limits, use = row["holds"], row["use"]
    part = 1.0 if row["norm_usage"] is None else row["norm_usage"]
    return [
        f"ClusterName={CLUSTER_NAME} Account={row['account']} UserName={_numbered(row['user']) if row['user'] else ''} "
        f"Partition= Priority=0 ID={row['number']}",
        f"SharesRaw/Norm/Level/Factor={row['shares'] or 1}/{row['norm_shares']:.2f}/{row['siblings']}/{row['fairshare'] or 0:.2f}",
        f"UsageRaw/Norm/Efctv={row['usage']:.2f}/{1.0 if row['of_all'] is None else row['of_all']:.2f}/{part:.2f}",
        f"ParentAccount={parent} Lft={row['number']} DefAssoc={'Yes' if row['default'] else 'No'}",
        f"{_count('GrpJobs', limits.get('grp_jobs'), use['jobs'])} GrpJobsAccrue=N(0)",
        f"{_count('GrpSubmitJobs', limits.get('grp_submit'), use['submitted'])} {_wall(limits, use)}",
        *_groups(limits, use),
        f"{_most('MaxJobs', limits.get('max_jobs_per_user'), use['jobs'])} MaxJobsAccrue= "
        f"{_most('MaxSubmitJobs', limits.get('max_submit_per_user'), use['submitted'])} MaxWallPJ={_minutes(limits, 'max_wall_s')}",
        *_of_jobs(limits),
        "MinPrioThresh=",
    ]


def _qos(
    tables: Mapping[str, Row], uses: Sequence[Row], names: Sequence[str], *, oneliner: bool
) -> Iterator[list[str]]:
    first = sorted(tables.items(), key=lambda entry: entry[0] != NORMAL_QOS)
    for number, (name, row) in enumerate(first, 1):
        if names and name.lower() not in names:
            continue
        own = [use for use in uses if use["qos"] == name]
        use = next((each for each in own if not each["account"] and not each["user"]), NO_USE)
        limits = row["limits"]
        mode = row["preempt_mode"].upper() or "OFF"
        yield [
            f"QOS={name}({number})",
            f"UsageRaw={use['minutes'].get('billing', 0.0) * SECONDS_OF_MINUTE:.6f}",
            f"{_count('GrpJobs', limits.get('grp_jobs'), use['jobs'])} GrpJobsAccrue=N(0) "
            f"{_count('GrpSubmitJobs', limits.get('grp_submit'), use['submitted'])} {_wall(limits, use)}",
            *_groups(limits, use),
            f"MaxWallPJ={_minutes(limits, 'max_wall_s')}",
            *_of_jobs(limits),
            "MinPrioThresh= ",
            f"MinTRESPJ={_plain(limits.get('min_tres_per_job', {}))}",
            f"PreemptMode={mode}",
            f"Priority={row['priority']}",
            *_each("Account", limits, own, oneliner=oneliner),
            *_each("User", limits, own, oneliner=oneliner),
        ]


def _each(title: str, limits: Row, uses: Sequence[Row], *, oneliner: bool) -> Iterator[str]:
    """Yield the lines with each account's or each user's usage of a QoS."""
    kind, mark = title.lower(), f"P{title[0]}"
    there = [use for use in uses if use[kind] and (use["jobs"] or use["submitted"])]
    if not there:
        yield from [f"{title} Limits=No {title}s"] if oneliner else [f"{title} Limits", f"    No {title}s"]
        return
    yield f"{title} Limits=" if oneliner else f"{title} Limits"
    for use in there:
        jobs, submit = limits.get(f"max_jobs_per_{kind}"), limits.get(f"max_submit_per_{kind}")
        whose = use[kind] if kind == "account" else uid_of(use[kind])
        counted = (
            f"{_count(f'MaxJobs{mark}', jobs, use['jobs'])} MaxJobsAccrue{mark}=N(0) "
            f"{_count(f'MaxSubmitJobs{mark}', submit, use['submitted'])}"
        )
        held = f"MaxTRES{mark}={_tres(limits.get(f'max_tres_per_{kind}', {}), use['tres'])}"
        yield from (
            [f"{whose}={{{counted} {held}}}"] if oneliner else [f"  {whose}", f"    {counted}", f"    {held}"]
        )


def _groups(limits: Row, use: Row) -> Iterator[str]:
    yield f"GrpTRES={_tres(limits.get('grp_tres', {}), use['tres'])}"
    yield f"GrpTRESMins={_tres(limits.get('grp_tres_mins', {}), use['minutes'])}"
    yield f"GrpTRESRunMins={_tres(limits.get('grp_tres_run_mins', {}), use['run_minutes'])}"


def _of_jobs(limits: Row) -> Iterator[str]:
    yield f"MaxTRESPJ={_plain(limits.get('max_tres_per_job', {}))}"
    yield f"MaxTRESPN={_plain(limits.get('max_tres_per_node', {}))}"
    yield f"MaxTRESMinsPJ={_plain(limits.get('max_tres_mins_per_job', {}))}"


def _count(name: str, most: int | None, there: float) -> str:
    return f"{name}={'N' if most is None else most}({there})"


def _most(name: str, most: int | None, there: int) -> str:
    return f"{name}=" if most is None else _count(name, most, there)


def _wall(limits: Row, use: Row) -> str:
    return f"GrpWall={_minutes(limits, 'grp_wall_s') or 'N'}({use['minutes'].get('wall', 0.0):.2f})"


def _minutes(limits: Row, name: str) -> str:
    seconds = limits.get(name, limits.get(name.removesuffix("_s")))
    return "" if seconds is None else str(seconds // SECONDS_OF_MINUTE)


def _tres(limits: Mapping[str, int], used: Mapping[str, float]) -> str:
    """Return each TRES with its limit and its usage. TRES that only a limit names come last."""
    names = [*TRES, *sorted(set(limits) - set(TRES))]
    return ",".join(f"{name}={limits.get(name, 'N')}({int(used.get(name, 0))})" for name in names)


def _plain(limits: Mapping[str, int]) -> str:
    names = [*TRES, *sorted(set(limits) - set(TRES))]
    return ",".join(f"{name}={limits[name]}" for name in names if name in limits)
