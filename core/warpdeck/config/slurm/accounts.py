"""Read accounts, users and QoS from the output of sacctmgr.

The files are created with `sacctmgr dump CLUSTER` and `sacctmgr -P show qos`. A dump names the QoS that an
association may use but does not define them. The second file provides the definitions. Source: sacctmgr(1),
"FLAT FILE DUMP AND LOAD".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.config import tables

from . import values
from .notes import ImportNotes

Fields = dict[str, str]

_DUMP_LINE = re.compile(r"\s*(Cluster|Parent|Account|User)\s*-\s*('[^']*'|[^:\s]+)\s*(.*)", re.IGNORECASE)
_FIELD = re.compile(r":\s*(\w+)\s*=\s*('[^']*'|[^:]*)")

_PARENT_SHARES = "users cannot use the shares of the parent; the user got one share"
LIMITS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "grpjobs": ("grp_jobs", values.count),
    "grpsubmitjobs": ("grp_submit", values.count),
    "grpsubmit": ("grp_submit", values.count),
    "grpwall": ("grp_wall", values.limit_s),
    "grpwallduration": ("grp_wall", values.limit_s),
    "maxjobs": ("max_jobs_per_user", values.count),
    "maxjobsperuser": ("max_jobs_per_user", values.count),
    "maxjobspu": ("max_jobs_per_user", values.count),
    "maxjobsperaccount": ("max_jobs_per_account", values.count),
    "maxjobspa": ("max_jobs_per_account", values.count),
    "maxsubmitjobs": ("max_submit_per_user", values.count),
    "maxsubmitjobsperuser": ("max_submit_per_user", values.count),
    "maxsubmitpu": ("max_submit_per_user", values.count),
    "maxsubmitjobsperaccount": ("max_submit_per_account", values.count),
    "maxsubmitpa": ("max_submit_per_account", values.count),
    "maxwall": ("max_wall", values.limit_s),
    "maxwallduration": ("max_wall", values.limit_s),
    "maxwalldurationperjob": ("max_wall", values.limit_s),
}
TRES_LIMITS = {
    "grptres": "grp_tres",
    "grptresmins": "grp_tres_mins",
    "grptresrunmins": "grp_tres_run_mins",
    "maxtres": "max_tres_per_job",
    "maxtresperjob": "max_tres_per_job",
    "maxtrespernode": "max_tres_per_node",
    "maxtresmins": "max_tres_mins_per_job",
    "maxtresminsperjob": "max_tres_mins_per_job",
    "maxtresperuser": "max_tres_per_user",
    "maxtrespu": "max_tres_per_user",
    "maxtresperaccount": "max_tres_per_account",
    "maxtrespa": "max_tres_per_account",
    "mintres": "min_tres_per_job",
    "mintresperjob": "min_tres_per_job",
}
OLD_LIMITS = {
    "grpcpus": ("grp_tres", "cpu"),
    "grpnodes": ("grp_tres", "node"),
    "grpmemory": ("grp_tres", "mem"),
    "grpcpumins": ("grp_tres_mins", "cpu"),
    "grpcpurunmins": ("grp_tres_run_mins", "cpu"),
    "maxcpus": ("max_tres_per_job", "cpu"),
    "maxcpusperjob": ("max_tres_per_job", "cpu"),
    "maxnodes": ("max_tres_per_job", "node"),
    "maxnodesperjob": ("max_tres_per_job", "node"),
    "maxcpumins": ("max_tres_mins_per_job", "cpu"),
    "maxcpuminsperjob": ("max_tres_mins_per_job", "cpu"),
    "maxcpusperuser": ("max_tres_per_user", "cpu"),
    "maxnodesperuser": ("max_tres_per_user", "node"),
}
"""Names of limits before Slurm 15.08, when each TRES had separate limits."""
IGNORED_FIELDS = values.word_set(
    "name id description organization defaultaccount adminlevel coordinator fairshare share parent qos defaultqos"
    " defaultwckey wckeys flags preempt preemptmode preemptexempttime gracetime priority usagefactor"
)
"""Fields that are not limits. They are read by name, or have no equivalent here."""


class AssociationReader:
    """Reads files of sacctmgr and returns the tables [accounts] and [qos]."""

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self._accounts: dict[str, tables.Account] = {}
        self._lists: dict[str, str] = {}
        self._default_accounts: dict[str, str] = {}
        self._cluster_qos = ""
        self.qos: dict[str, tables.Qos] = {}
        self.users: dict[str, tables.SiteUser] = {}
        self._coordinators: dict[str, dict[str, None]] = {}
        """The coordinators of each account. A dump also names the accounts below."""

    def take(self, text: str, file: str) -> None:
        """Read a dump of sacctmgr or a table of its QoS. The first line shows the kind of file.

        Raises UserError for any other file.
        """
        lines = text.splitlines()
        head = next((line for line in lines if line.strip() and not line.startswith("#")), "")
        if "|" in head and head.lower().startswith("name"):
            self._take_qos_table(lines, head)
        elif _DUMP_LINE.match(head):
            self._take_dump(lines, file)
        else:
            hint = "create it with `sacctmgr dump CLUSTER file=F` or `sacctmgr -P show qos > F`"
            raise UserError(f"{file} is not output of sacctmgr", hint)

    def accounts(self) -> dict[str, tables.Account]:
        """Return the tables by account name. As in the dump, parents come before their children."""
        made: dict[str, tables.Account] = {}
        for name, account in self._accounts.items():
            users = {
                user: msgspec.structs.replace(entry, default=self._is_default(user, name))
                for user, entry in account.users.items()
            }
            names = self._qos_of(name)
            default = account.default_qos
            if default and names is not None and default not in names:
                names = (*names, default)
            coordinators = tuple(self._coordinators.get(name, ()))
            made[name] = msgspec.structs.replace(account, users=users, qos=names, coordinators=coordinators)
        return made

    def _is_default(self, user: str, account: str) -> bool:
        several = sum(user in each.users for each in self._accounts.values()) > 1
        return several and self._default_accounts.get(user) == account

    def _take_dump(self, lines: list[str], file: str) -> None:
        parent = "root"
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            match = _DUMP_LINE.fullmatch(line.rstrip())
            if match is None:
                raise UserError(
                    f"{file}:{number}: not a line of a dump: {line[:60]!r}", "create the dump again"
                )
            name = match[2].strip("'")
            fields = {key.lower(): value.strip("'") for key, value in _FIELD.findall(match[3])}
            match match[1].lower():
                case "cluster":
                    self._cluster_qos = fields.get("qos", "")
                    self._refuse_limits(f"cluster {name}", fields)
                case "parent":
                    parent = name
                case "account":
                    self._take_account(name, parent, fields)
                case _:
                    self._take_user(name, parent, fields)

    def _refuse_limits(self, owner: str, fields: Fields) -> None:
        for key in fields:
            if key in LIMITS or key in TRES_LIMITS or key in OLD_LIMITS:
                self._notes.add(f"{key} of {owner}", "only accounts, users and QoS can have limits")

    def _take_account(self, name: str, parent: str, fields: Fields) -> None:
        shares = self._shares(f"account {name}", fields)
        self._lists[name] = fields.get("qos", "")
        self._accounts[name] = tables.Account(
            parent="" if parent == "root" else parent,
            shares=shares,
            default_qos=fields.get("defaultqos", ""),
            **self._limits(f"account {name}", fields),
        )

    def _take_user(self, name: str, account: str, fields: Fields) -> None:
        if account == "root" and account not in self._accounts:
            if name == "root":
                return  # Every database of Slurm has this entry.
            self._accounts["root"] = tables.Account()
        if account not in self._accounts:
            self._notes.add(f"user {name} of account {account}", "the dump does not contain this account")
            return
        owner = f"user {name} of account {account}"
        if fields.get("partition"):
            self._notes.add(owner, "was limited to one partition; imported for all partitions")
        match fields.get("adminlevel", "").lower():
            case "operator" | "administrator" as level if name != "root":
                self.users[name] = tables.SiteUser(admin_level=level)
        for coordinated in filter(None, fields.get("coordinator", "").split(",")):
            self._coordinators.setdefault(coordinated, {})[name] = None
        self._default_accounts.setdefault(name, fields.get("defaultaccount", account))
        self._accounts[account].users.setdefault(
            name,
            tables.User(
                shares=self._shares(owner, fields),
                qos=self._own_qos(account, fields.get("qos", "")),
                default_qos=fields.get("defaultqos", ""),
                **self._limits(owner, fields),
            ),
        )

    def _shares(self, owner: str, fields: Fields) -> int:
        text = fields.get("fairshare", fields.get("share", "1"))
        if text.lower() == "parent":
            self._notes.add(f"Fairshare=parent of {owner}", _PARENT_SHARES)
            return 1
        return self._notes.attempt(f"Fairshare of {owner}", values.whole, text, 1)

    def _inherited(self, account: str) -> str:
        """Return the account's QoS list, its own or inherited from its parents."""
        seen: set[str] = set()
        while account and account not in seen:
            seen.add(account)
            if self._lists.get(account):
                return self._lists[account]
            account = self._accounts[account].parent if account in self._accounts else ""
        return self._cluster_qos

    def _own_qos(self, account: str, listed: str) -> tuple[str, ...] | None:
        """Return a user's QoS: a complete list, or changes (+ and -) to the account's list."""
        items = values.names(listed) or ()
        plain = [word for word in items if word[0] not in "+-"]
        names = plain or (self._qos_of(account) or ()) if items else ()
        more = [word[1:] for word in items if word.startswith("+")]
        less = {word[1:] for word in items if word.startswith("-")}
        return tuple(name for name in dict.fromkeys([*names, *more]) if name not in less) or None

    def _qos_of(self, account: str) -> tuple[str, ...] | None:
        names = values.names(self._inherited(account)) or ()
        plain = tuple(dict.fromkeys(name.lstrip("+") for name in names if not name.startswith("-")))
        return plain or None

    def _take_qos_table(self, lines: list[str], head: str) -> None:
        keys = [key.strip().lower().replace(" ", "") for key in head.split("|")]
        for line in lines:
            cells = line.split("|")
            if line == head or not line.strip() or len(cells) < len(keys) - 1:
                continue
            fields = {key: cell.strip() for key, cell in zip(keys, cells, strict=False) if key}
            self.qos[fields["name"]] = self._one_qos(fields)

    def _one_qos(self, fields: Fields) -> tables.Qos:
        owner = f"QoS {fields['name']}"
        flags = [flag for flag in fields.get("flags", "").split(",") if flag]
        for flag in flags:
            if flag.lower() not in ("denyonlimit", "overpartqos", "partitiontimelimit"):
                self._notes.add(f"flag {flag} of {owner}", "no equivalent")
        lowered = [flag.lower() for flag in flags]

        def read(key: str, how: Callable[[str], Any], otherwise: Any) -> Any:
            text = fields.get(key, "")
            return self._notes.attempt(f"{key} of {owner}", how, text, otherwise) if text else otherwise

        mode = fields.get("preemptmode", "").lower()
        return tables.Qos(
            priority=read("priority", values.whole, 0),
            preempts=tuple(name for name in fields.get("preempt", "").split(",") if name),
            preempt_mode=mode if mode in ("requeue", "suspend", "cancel", "off") else "",  # type: ignore[arg-type]
            grace_s=read("gracetime", values.exact_s, 0),
            preempt_exempt_s=read("preemptexempttime", values.exact_s, 0),
            usage_factor=read("usagefactor", _factor, 1.0),
            overrides_partition="overpartqos" in lowered or "partitiontimelimit" in lowered,
            deny_on_limit="denyonlimit" in lowered,
            **self._limits(owner, fields),
        )

    def _limits(self, owner: str, fields: Fields) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, field, found in self._read_limits(owner, fields):
            if key in TRES_LIMITS or key in OLD_LIMITS:
                made[field] = made.get(field, {}) | found
            else:
                made[field] = found
        return made

    def _read_limits(self, owner: str, fields: Fields) -> Iterator[tuple[str, str, Any]]:
        for key, text in fields.items():
            if key in LIMITS:
                field, read = LIMITS[key]
                yield key, field, self._notes.attempt(f"{key} of {owner}", read, text, None)
            elif key in TRES_LIMITS or key in OLD_LIMITS:
                field, name = OLD_LIMITS.get(key, (TRES_LIMITS.get(key, ""), ""))
                listed = f"{name}={text}" if name else text
                empty: tuple[dict[str, int], list[str]] = ({}, [])
                found, unknown = self._notes.attempt(f"{key} of {owner}", values.tres, listed, empty)
                for each in unknown:
                    self._notes.add(f"{each} in {key} of {owner}", "this TRES is not counted here")
                yield key, field, found
            elif key not in IGNORED_FIELDS and text and text.lower() not in ("0", "0.000000", "none"):
                self._notes.add(f"{key} of {owner}", "no equivalent")


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{text!r} is not a number") from None
