"""The limits and their use that `scontrol show assoc_mgr` prints. The functions are pure.

A record begins with QOS= or ClusterName= at the start of a line. Its other lines are indented and contain KEY=VALUE. A
value is LIMIT(USE), or a list of TRES=LIMIT(USE); the limit N means no limit. Within a QoS, the lines of a user or an
account follow its name. Only administrators choose these names.

Depending on the version, a user within a QoS has a name or only a uid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from warpdeck.protocol.site_rows import UseRow

_PAIR = re.compile(r"(\w+)=(\S*)")
_OWNER = re.compile(r"^\s+([^=\s]+)$")
_COUNT = re.compile(r"(N|\d+)\(([\d.]+)\)")
_TRES = re.compile(r"([\w/:.-]+)=(N|\d+)\(([\d.]+)\)")
_UID = re.compile(r"\(\d+\)$")


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of a group of jobs and its use. `tres` is "" for a number of jobs."""

    key: str
    tres: str = ""
    limit: int | None = None
    used: float = 0.0


class Holder(msgspec.Struct, kw_only=True):
    """An association (account, or user in an account), a QoS, or a user or account within a QoS."""

    qos: str = ""
    account: str = ""
    user: str = ""
    partition: str = ""
    counts: list[Counted] = msgspec.field(default_factory=list)

    def used(self, *keys: str) -> int:
        """Return the first use above zero among these limits, or 0."""
        return next((int(each.used) for each in self.counts if each.key in keys and each.used), 0)

    def by_tres(self, *keys: str) -> dict[str, float]:
        """Return the use of a limit by TRES, without zeros."""
        return {each.tres: each.used for each in self.counts if each.key in keys and each.tres and each.used}


def read_holders(text: str, user_of: Callable[[int], str]) -> list[Holder]:
    """Return all records, with the users and accounts within a QoS as records of their own."""
    found: list[Holder] = []
    section = ""
    for line in text.splitlines():
        pairs = _PAIR.findall(line)
        if line.startswith("QOS="):
            found.append(Holder(qos=_UID.sub("", pairs[0][1])))
            section = ""
        elif line.startswith("ClusterName="):
            fields = dict(pairs)
            user = _UID.sub("", fields.get("UserName", ""))
            found.append(
                Holder(account=fields.get("Account", ""), user=user, partition=fields.get("Partition", ""))
            )
        elif line.strip() in ("Account Limits", "User Limits"):
            section = line.split()[0]
        elif line.startswith(" ") and found and section and (match := _OWNER.match(line)):
            name = _UID.sub("", match[1])
            is_user = section == "User"
            name = user_of(int(name)) if is_user and name.isdigit() else name
            found.append(
                Holder(qos=found[-1].qos, user=name if is_user else "", account="" if is_user else name)
            )
        elif line.startswith(" ") and found:
            found[-1].counts += _counts(pairs)
    return found


def use_rows(holders: Iterable[Holder]) -> list[UseRow]:
    """Return a row for each holder that has jobs or past use."""
    rows = []
    for each in holders:
        wall = each.used("GrpWall")
        minutes = each.by_tres("GrpTRESMins") | ({"wall": float(wall)} if wall else {})
        row = UseRow(
            qos=each.qos,
            account=each.account,
            user=each.user,
            jobs=each.used("GrpJobs", "MaxJobsPU", "MaxJobsPA"),
            submitted=each.used("GrpSubmitJobs", "MaxSubmitJobsPU", "MaxSubmitJobsPA"),
            tres={
                name: int(used) for name, used in each.by_tres("GrpTRES", "MaxTRESPU", "MaxTRESPA").items()
            },
            minutes=minutes,
            run_minutes=each.by_tres("GrpTRESRunMins"),
        )
        if row.jobs or row.submitted or row.tres or row.minutes or row.run_minutes:
            rows.append(row)
    return rows


def _counts(pairs: Iterable[tuple[str, str]]) -> list[Counted]:
    found = []
    for key, value in pairs:
        if match := _COUNT.fullmatch(value):
            found.append(Counted(key=key, limit=_limit(match[1]), used=float(match[2])))
        else:
            found += [
                Counted(key=key, tres=name, limit=_limit(limit), used=float(used))
                for name, limit, used in _TRES.findall(value)
            ]
    return found


def _limit(text: str) -> int | None:
    return None if text == "N" else int(text)
