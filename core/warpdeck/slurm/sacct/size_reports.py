"""sreport's job size reports: usage by account and by the number of CPUs or the amount of a TRES per job.

Without options, the account root has the only line. Named accounts have one line each, which includes the
accounts below them. With acctasparent, each account directly below a named one has a line. With flatview,
every account has its own line. All functions are pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.format.account_tree import ROOT

from .reports import UNITS_S, AmountForm, ReportWindow, UsageReport

GROUPS = (50, 250, 500, 1000)
WIDTHS = {"": 13, "only": 13, "too": 20}
"""Width of a size column, with a percentage or without."""


class AccountLines(NamedTuple):
    """Selects the lines of a report. `parents` maps an account to its parent."""

    parents: Mapping[str, str]
    named: tuple[str, ...] = ()
    flat: bool = False
    as_parents: bool = False

    def upwards(self, account: str) -> list[str]:
        """Return the account and those above it, with root last."""
        found = [account]
        while (above := self.parents.get(found[-1], "")) and above not in found:
            found.append(above)
        return found if ROOT in found else [*found, ROOT]

    def has(self, account: str) -> bool:
        """Check if the account or one above it is named, or no account is named at all."""
        return not self.named or not set(self.named).isdisjoint(self.upwards(account))

    def of(self, account: str) -> list[str]:
        """Return the lines to which a job of the account is added."""
        upwards = self.upwards(account)
        if self.flat:
            return [account] if self.has(account) else []
        meant = self.named or (ROOT,)
        if self.as_parents:
            return [each for each, above in pairwise(upwards) if above in meant]
        return [each for each in upwards if each in meant]


def sizes(
    jobs: Iterable[Row],
    window: ReportWindow,
    form: AmountForm,
    *,
    lines: AccountLines,
    groups: tuple[int, ...] | None = GROUPS,
    count: bool = False,
) -> UsageReport:
    """Return the report. It sums the usage, or with `count` the number of jobs.

    `groups` holds the lower bounds of the next sizes. If it is None, each size has its own column.
    """
    jobs = [job for job in jobs if window.part_s(job)]
    amounts = [_amount(job, form) for job in jobs]
    there = sorted(set(amounts))
    titles = _titles(groups, there, form)
    sums: dict[str, list[float]] = {}
    for job, amount in zip(jobs, amounts, strict=True):
        for line in lines.of(job["account"] or ROOT):
            into = sums.setdefault(line, [0.0] * len(titles))
            into[_place(amount, groups, there)] += 1 if count else window.part_s(job) * amount
    whole = sum(map(sum, sums.values()))
    rows = [_row(account, found, titles, whole, form, count=count) for account, found in sorted(sums.items())]
    widths = {"Cluster": 9, "Account": 9, **dict.fromkeys(titles, WIDTHS[form.percent]), "% of cluster": 12}
    return UsageReport(
        heading(f"Job Sizes {window.text()}", window, form, count=count), widths, {}, [*widths], rows
    )


def empty(name: str, first: Mapping[str, int], window: ReportWindow, form: AmountForm) -> UsageReport:
    """Return an empty report by wckeys, because there are no wckeys here."""
    sized = dict.fromkeys(_titles(GROUPS, [], form), WIDTHS[form.percent])
    widths = {"Cluster": 9, **first, **sized, "% of cluster": 12}
    return UsageReport(heading(f"{name} {window.text()}", window, form), widths, {}, [*widths], [])


def heading(title: str, window: ReportWindow, form: AmountForm, *, count: bool = False) -> list[str]:
    """Return the lines above the table."""
    tres = [f"TRES type is {form.tres[0]}"] if form.tres else []
    unit_line = form.line().replace("TRES ", "").replace("CPU ", "").replace("Usage", "Time")
    return [
        f"{title} ({window.length_s} secs)",
        *tres,
        "Units are in number of jobs ran" if count else unit_line,
    ]


def _amount(job: Row, form: AmountForm) -> int:
    if not form.tres or form.tres[0] == "cpu":
        return int(job["cpus"])
    return int((job["tres"] or {}).get(form.tres[0], 0))


def _place(amount: int, groups: tuple[int, ...] | None, there: Sequence[int]) -> int:
    return bisect_left(there, amount) if groups is None else sum(amount >= each for each in groups)


def _titles(groups: tuple[int, ...] | None, amounts: Iterable[int], form: AmountForm) -> list[str]:
    what = "CPUs" if not form.tres or form.tres[0] == "cpu" else "TRES"
    if groups is None:
        return [f"{amount} {what}" for amount in amounts]
    lows = (0, *groups[:-1])
    spans = [f"{low}-{high - 1} {what}" for low, high in zip(lows, groups, strict=True)]
    return [*spans, f">= {groups[-1]} {what}"]


def _row(
    account: str, found: list[float], titles: list[str], whole: float, form: AmountForm, *, count: bool
) -> dict[str, str]:
    own = sum(found)
    amounts = [f"{each / (1 if count else UNITS_S[form.unit]):.0f}" for each in found]
    if form.percent and not count:
        shares = [f"{100 * each / own if own else 0:.2f}%" for each in found]
        amounts = (
            shares if form.percent == "only" else [f"{n}({p})" for n, p in zip(amounts, shares, strict=True)]
        )
    of_cluster = f"{100 * own / whole if whole else 0:.2f}%"
    named = {"Cluster": CLUSTER_NAME, "Account": account, "% of cluster": of_cluster}
    return named | dict(zip(titles, amounts, strict=True))
