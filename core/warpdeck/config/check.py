"""Checks that the tables are consistent with each other.

Referenced names must exist, account trees must have no cycles, and values must not contradict each other. The
checks are pure. Nodes are added at run time, so a node without a [nodes] table is not an error. Doubtful
settings give warnings.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.base.errors import UserError
from warpdeck.model import CHECKS
from warpdeck.model.reservation import PERIOD_S, Repeat
from warpdeck.notation.config.toml_lines import Path
from warpdeck.notation.filters.reservation_flags import FLAGS, BadFlags, flag_fields, parse_flags
from warpdeck.notation.values.hostlist import expand

from .problems import Problem
from .tables import Account, Config, LimitTable, Reservation, User

Problems = Iterator[Problem]

RUNTIME_ONLY_FLAGS = frozenset({"PURGE_COMP", "TIME_FLOAT", "REPLACE", "REPLACE_DOWN"})
"""Reservation flags that a table of the file may not have.

They end the reservation, move it or change its nodes.
"""
MAX_PORT = 65_535

SYSTEM = frozenset(
    ["/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"]
)
"""Folders that a job needs in the node's own version."""
QOS_ONLY_LIMITS = {
    "max_jobs_per_account": "grp_jobs",
    "max_submit_per_account": "grp_submit",
    "max_tres_per_account": "grp_tres",
}
"""Limits that only a QoS has, with the corresponding limit for accounts and users."""
_NAME = re.compile(r"[^\s,=\"']{1,128}")


def cross_check(config: Config) -> tuple[list[Problem], list[Problem]]:
    """Check the configuration. Returns (errors, warnings)."""
    checks: tuple[Callable[[Config], Problems], ...] = (
        _names,
        _scheduler,
        _partitions,
        _qos,
        _idle_gpus,
        _accounts,
        _association_limits,
        _default_accounts,
        _reservations,
        _nodes,
        _paths,
        _monitoring,
    )
    errors = [problem for check in checks for problem in check(config)]
    return errors, [] if errors else list(_warnings(config))


def _unknown(path: Path, names: Iterable[str], known: Mapping[str, object], kind: str) -> Problems:
    for name in names:
        if name not in known:
            known_names = ", ".join(list(known)[:8]) or "none"
            yield Problem(path=path, text=f"there is no {kind} {name!r}; there are: {known_names}")


def _names(config: Config) -> Problems:
    """Check that names can be used in comma-separated lists and in columns."""
    for table in ("licenses", "partitions", "qos", "accounts", "reservations"):
        for name in getattr(config, table):
            if not _NAME.fullmatch(name):
                yield Problem(path=(table, name), text="names must not contain spaces, commas, = or quotes")
    for account, entry in config.accounts.items():
        for user in entry.users:
            if not _NAME.fullmatch(user):
                yield Problem(path=("accounts", account, "users", user), text="is not a user name")


def _paths(config: Config) -> Problems:
    """Check that paths are absolute. They are used on the nodes, where there is no current folder."""
    hooks = config.hooks
    written = {("hooks", "prolog"): hooks.prolog, ("hooks", "epilog"): hooks.epilog}
    written |= {("hooks", "task_prolog"): hooks.task_prolog, ("hooks", "task_epilog"): hooks.task_epilog}
    written["mail", "program"] = config.mail.program
    written["containment", "tmp_dir"] = config.containment.tmp_dir
    if config.mail.webhook and not config.mail.webhook.startswith(("http://", "https://")):
        yield Problem(path=("mail", "webhook"), text="is not an HTTP URL: write https://HOST/PATH")
    if config.retention.archive and not config.retention.archive.startswith("/"):
        yield Problem(
            path=("retention", "archive"), text="is not an absolute path: write the path of a folder"
        )
    for path, value in written.items():
        if value and not value.startswith("/"):
            yield Problem(path=path, text="is not an absolute path: write its path on the nodes")
    yield from _private_dirs(config)


def _private_dirs(config: Config) -> Problems:
    containment = config.containment
    for name, folders in (
        ("private_dirs", containment.private_dirs),
        ("shared_dirs", containment.shared_dirs),
    ):
        path = ("containment", name)
        for folder in folders:
            if not folder.startswith("/") or posixpath.normpath(folder) != folder:
                yield Problem(path=path, text=f"{folder!r} is not an absolute path such as /tmp")
            elif name == "private_dirs" and folder in SYSTEM:
                yield Problem(
                    path=path, text=f"{folder} cannot be private: jobs need the node's own {folder}"
                )
    for folder in containment.private_dirs:
        enclosing = next((each for each in containment.private_dirs if folder.startswith(each + "/")), "")
        if enclosing:
            text = f"{folder} is inside {enclosing}, which is already private"
            yield Problem(path=("containment", "private_dirs"), text=text)


def _scheduler(config: Config) -> Problems:
    name = config.scheduler.default_partition
    path = ("scheduler", "default_partition")
    yield from _unknown(path, [name] if name else [], config.partitions, "partition")
    table = config.scheduler
    if table.reservation_holds == "start" and (table.backfill == "conservative" or table.reservations > 1):
        text = (
            '"start" works only with backfill = "easy" and reservations = 1; change these, or write "nodes"'
        )
        yield Problem(path=("scheduler", "reservation_holds"), text=text)
    yield from _licenses_known(config)


def _licenses_known(config: Config) -> Problems:
    for path, counts in _limit_sets(config):
        for tres in counts:
            kind, _, name = tres.partition("/")
            if kind == "license":
                yield from _unknown(path, [name], config.licenses, "license")


def _limit_sets(config: Config) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """Yield every TRES list of the configuration."""
    fields = (
        "grp_tres",
        "grp_tres_mins",
        "grp_tres_run_mins",
        "max_tres_per_job",
        "max_tres_per_node",
        "max_tres_per_user",
        "max_tres_per_account",
        "max_tres_mins_per_job",
        "min_tres_per_job",
    )
    yield ("scheduler", "billing_weights"), config.scheduler.billing_weights
    yield ("scheduler", "weights", "tres"), config.scheduler.weights.tres
    for name, qos in config.qos.items():
        for field in fields:
            yield ("qos", name, field), getattr(qos, field)
    for name, account in config.accounts.items():
        for field in (*fields, "quota"):
            yield ("accounts", name, field), getattr(account, field)
        for user, entry in account.users.items():
            for field in fields:
                yield ("accounts", name, "users", user, field), getattr(entry, field)


def _partitions(config: Config) -> Problems:
    for name, partition in config.partitions.items():
        path = ("partitions", name)
        for field, known, kind in (
            ("allow_accounts", config.accounts, "account"),
            ("deny_accounts", config.accounts, "account"),
            ("allow_qos", config.qos, "QoS"),
            ("deny_qos", config.qos, "QoS"),
        ):
            yield from _unknown((*path, field), getattr(partition, field) or (), known, kind)
        yield from _unknown((*path, "qos"), [partition.qos] if partition.qos else [], config.qos, "QoS")
        longest, default = partition.max_time, partition.default_time
        if longest is not None and default is not None and default > longest:
            yield Problem(path=(*path, "default_time"), text="is longer than max_time")
        if partition.max_nodes is not None and partition.min_nodes > partition.max_nodes:
            yield Problem(path=(*path, "min_nodes"), text="is more than max_nodes")


def _qos(config: Config) -> Problems:
    for name, qos in config.qos.items():
        yield from _unknown(("qos", name, "preempts"), qos.preempts, config.qos, "QoS")
    cycle = _find_cycle({name: qos.preempts for name, qos in config.qos.items()})
    if cycle:
        yield Problem(path=("qos", cycle[0], "preempts"), text=f"is circular: {' -> '.join(cycle)}")


def _idle_gpus(config: Config) -> Problems:
    known = {NORMAL_QOS: None} | dict.fromkeys(config.qos)
    yield from _unknown(("idle_gpus", "qos"), config.idle_gpus.qos, known, "QoS")


def _accounts(config: Config) -> Problems:
    for name, account in config.accounts.items():
        path = ("accounts", name)
        parent = [account.parent] if account.parent else []
        yield from _unknown((*path, "parent"), parent, config.accounts, "account")
        yield from _association_qos(config, path, account)
        for user, entry in account.users.items():
            yield from _association_qos(config, (*path, "users", user), entry)
    cycle = _find_cycle({name: [each.parent] for name, each in config.accounts.items() if each.parent})
    if cycle:
        yield Problem(path=("accounts", cycle[0], "parent"), text=f"is circular: {' -> '.join(cycle)}")


def _association_limits(config: Config) -> Problems:
    """Check that accounts and users have none of the limits that only a QoS has."""
    tables: list[tuple[tuple[str, ...], LimitTable]] = []
    for name, account in config.accounts.items():
        tables.append((("accounts", name), account))
        tables += [(("accounts", name, "users", user), entry) for user, entry in account.users.items()]
    for path, table in tables:
        for field, instead in QOS_ONLY_LIMITS.items():
            if getattr(table, field):
                yield Problem(path=(*path, field), text=f"is a QoS limit; for accounts use {instead}")


def _association_qos(config: Config, path: tuple[str, ...], association: Account | User) -> Problems:
    yield from _unknown((*path, "qos"), association.qos or (), config.qos, "QoS")
    default = [association.default_qos] if association.default_qos else []
    yield from _unknown((*path, "default_qos"), default, config.qos, "QoS")
    if default and association.qos is not None and association.default_qos not in association.qos:
        yield Problem(path=(*path, "default_qos"), text=f"{association.default_qos!r} is not in qos")


def _default_accounts(config: Config) -> Problems:
    chosen: dict[str, str] = {}
    for name, account in config.accounts.items():
        for user, entry in account.users.items():
            if entry.default and chosen.setdefault(user, name) != name:
                yield Problem(
                    path=("accounts", name, "users", user, "default"),
                    text=f"account {chosen[user]} is already this user's default",
                )


def _reservations(config: Config) -> Problems:
    for name, entry in config.reservations.items():
        path = ("reservations", name)
        yield from _unknown((*path, "accounts"), entry.accounts, config.accounts, "account")
        if entry.end is not None and entry.duration is not None:
            yield Problem(path=(*path, "duration"), text="cannot be combined with end; keep one of them")
        if entry.duration is not None and entry.start is None:
            yield Problem(path=(*path, "duration"), text="needs a start")
        if entry.start and entry.end and entry.end.timestamp() <= entry.start.timestamp():
            yield Problem(path=(*path, "end"), text="is not after start")
        flag_problems = list(_flags(entry, path))
        if flag_problems:
            yield from flag_problems
            continue
        kind = flag_fields(parse_flags(",".join(entry.flags)).added)
        repeat = kind["repeat"] or entry.repeat
        if repeat:
            yield from _repeats(entry, path, repeat)
        if not (entry.maintenance or kind["maintenance"]) and not entry.users and not entry.accounts:
            yield Problem(path=path, text="has no users or accounts; add some, or write maintenance = true")


def _flags(entry: Reservation, path: Path) -> Problems:
    """Check a reservation's flags.

    They are those of scontrol, except flags that only run-time reservations can have.
    """
    where = (*path, "flags")
    try:
        parsed = parse_flags(",".join(entry.flags))
        kind = flag_fields(parsed.added)
    except BadFlags:
        yield Problem(path=where, text=f"unknown reservation flag; known flags: {', '.join(FLAGS)}")
        return
    except UserError as error:
        yield Problem(path=where, text=f"{error.message}; {error.hint}")
        return
    for name in sorted(parsed.removed):
        yield Problem(path=where, text=f"-{name} has no effect here; remove it")
    for name in sorted(RUNTIME_ONLY_FLAGS & parsed.added.keys()):
        yield Problem(
            path=where,
            text=f"{name} is only for reservations created with `warpdeck reservation create` or scontrol",
        )
    if kind["repeat"] and entry.repeat not in ("", kind["repeat"]):
        yield Problem(
            path=where,
            text=f"{kind['repeat'].upper()} conflicts with repeat = {entry.repeat!r}; keep one of them",
        )


def _repeats(entry: Reservation, path: Path, repeat: Repeat) -> Problems:
    """Check that a repeating reservation ends before its next occurrence."""
    length_s = entry.duration
    if entry.start is not None and entry.end is not None:
        length_s = int(entry.end.timestamp() - entry.start.timestamp())
    if entry.start is None or length_s is None:
        yield Problem(path=(*path, "repeat"), text="needs a start and a duration")
    elif length_s > PERIOD_S[repeat]:
        yield Problem(path=(*path, "repeat"), text="starts again before its end")


def _nodes(config: Config) -> Problems:
    """Check that no two tables give a node different values for the same key.

    Several tables may describe a node.
    """
    values_by_key: dict[tuple[str, str], tuple[str, object]] = {}
    for hosts, table in config.nodes.items():
        try:
            names = expand(hosts)
        except UserError as error:
            yield Problem(path=("nodes", hosts), text=f"{error.message}; {error.hint}")
            continue
        for field in ("switch", "weight", "comment", "extra"):
            value = getattr(table, field)
            for name in names if value is not None else ():
                other, before = values_by_key.setdefault((name, field), (hosts, value))
                if before != value:
                    text = f"conflicts with nodes.{other!r}, which sets {before!r} for {name}"
                    yield Problem(path=("nodes", hosts, field), text=text)
                    break


def _monitoring(config: Config) -> Problems:
    if config.metrics_port > MAX_PORT:
        yield Problem(path=("metrics_port",), text=f"is not a port; use a number up to {MAX_PORT}")
    table = config.health
    for key in ("ignore", "requeue_on"):
        yield from _unknown(("health", key), getattr(table, key), CHECKS, "check")
    if table.program and not table.program.startswith("/"):
        yield Problem(path=("health", "program"), text="is not an absolute path: write its path on the nodes")


def _warnings(config: Config) -> Problems:
    if len(config.partitions) > 1 and not config.scheduler.default_partition:
        text = "is not set: each job must name its partition"
        yield Problem(path=("scheduler", "default_partition"), text=text)
    if config.nodes:
        known = {name for hosts in config.nodes for name in expand(hosts)}
        for name, partition in config.partitions.items():
            unknown = [node for node in partition.nodes or () if node not in known]
            if unknown:
                text = f"no [nodes] table contains {', '.join(unknown[:4])}{' ...' if unknown[4:] else ''}"
                yield Problem(path=("partitions", name, "nodes"), text=text)
    listed = {account for account in config.accounts if config.accounts[account].users}
    parents = {account.parent for account in config.accounts.values()}
    for name in config.accounts:
        if name not in listed and name not in parents:
            yield Problem(path=("accounts", name), text="has no users and no subaccounts")


def _find_cycle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the names of a cycle, or [] if there is no cycle.

    The first and last name are the same. The search is iterative, so its depth is unlimited.
    """
    done: set[str] = set()
    for start in edges:
        open_names: list[str] = []
        branches: list[Iterator[str]] = [iter([start])]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                if open_names:
                    done.add(open_names.pop())
            elif name in open_names:
                return [*open_names[open_names.index(name) :], name]
            elif name not in done:
                open_names.append(name)
                branches.append(iter(edges.get(name, ())))
    return []
