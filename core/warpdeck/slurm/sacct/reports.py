"""sreport's usage reports: resources that jobs held, by cluster, account and user. Pure functions.

A job counts with the part of its run time that lies in the report's time window, multiplied by the TRES that
it held. The times during which nodes were down or reserved are not recorded; they count as idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.format.account_tree import ROOT
from warpdeck.slurm.format.units import moment

Texts = dict[str, str]
FIELDS = ("id", "user", "uid", "account", "tres", "start", "end", "cpus", "suspended_s")
PER_WIDTH = 17
"""Width of an amount with its percentage."""
UNITS_S = {"seconds": 1, "minutes": 60, "hours": 3600}
ALL_USERS = 10
"""Number of users that TopUsage lists by default."""


class ReportWindow(NamedTuple):
    """A time window in whole seconds, as in Slurm. `until` is the first second after the window."""

    since: float
    until: float

    @property
    def length_s(self) -> int:
        return int(self.until - self.since)

    def part_s(self, job: Row) -> float:
        """Return how many seconds of the window the job ran, without suspended time."""
        if job["start"] is None:
            return 0.0
        ran_s = int(min(job["end"] or self.until, self.until)) - int(max(job["start"], self.since))
        return max(0.0, float(ran_s) - float(job["suspended_s"]))

    def text(self) -> str:
        return f"{moment(self.since)} - {moment(self.until - 1)}"


class AmountForm(NamedTuple):
    """Format of amounts: the time unit, whether a percentage is shown, and the TRES to report."""

    unit: str = "minutes"
    percent: str = ""
    """Percentage mode: "only" shows it alone, "too" adds it to the amount, and an empty string shows none."""
    tres: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        return self.tres or ("cpu",)

    def line(self) -> str:
        what, unit = "TRES" if self.tres else "CPU", self.unit.capitalize()
        if self.percent == "only":
            return "Usage reported in Percentage of Total"
        return f"Usage reported in {what} {unit}{'/Percentage of Total' if self.percent else ''}"

    def amount(self, seconds: float, whole: float) -> str:
        share = f"{100 * seconds / whole if whole else 0:.2f}%"
        if self.percent == "only":
            return share
        text = f"{seconds / UNITS_S[self.unit]:.0f}"
        return f"{text}({share})" if self.percent else text

    def width(self) -> int:
        return PER_WIDTH if self.percent == "too" else 8


class UsageReport(NamedTuple):
    """The definition of a usage report.

    It has a heading, the widths and titles of its fields, the fields that are shown without format=, and its
    rows.
    """

    heading: list[str]
    widths: dict[str, int]
    titles: dict[str, str]
    shown: list[str]
    rows: list[Texts]


def utilization(
    jobs: Iterable[Row], have: Mapping[str, int], window: ReportWindow, form: AmountForm
) -> UsageReport:
    """Return the report "cluster Utilization". `have` is the total capacity of all nodes for each TRES."""
    held = _held(jobs, window)
    rows = []
    for tres in form.named:
        if tres == "node":  # Slurm records no usage of nodes.
            continue
        whole = float(have.get(tres, 0) * window.length_s)
        used = min(held.get(tres, 0.0), whole)
        parts = {"Allocated": used, "Down": 0, "PlannedDown": 0, "Idle": whole - used, "Planned": 0}
        texts = {name: form.amount(count, whole) for name, count in {**parts, "Reported": whole}.items()}
        rows.append({"Cluster": CLUSTER_NAME, "TresName": tres, "TresCount": str(have.get(tres, 0)), **texts})
    amounts = ["Allocated", "Down", "PlannedDown", "Idle", "Planned", "Reported"]
    widths = {"Cluster": 9, "TresName": 14, **dict.fromkeys(amounts, form.width()), "TresCount": 10}
    shown = ["Cluster", *(["TresName"] if form.tres else []), *amounts]
    titles = {"TresName": "TRES Name", "PlannedDown": "PLND Down", "TresCount": "TRES Count"}
    return UsageReport([f"Cluster Utilization {window.text()}", form.line()], widths, titles, shown, rows)


def by_people(
    jobs: Iterable[Row],
    have: Mapping[str, int],
    window: ReportWindow,
    form: AmountForm,
    *,
    report: str,
    top: int | None = None,
    above: Callable[[str], list[str]] = lambda account: list(dict.fromkeys((account, ROOT))),
) -> UsageReport:
    """Return a report by account and user.

    `report` is "account" (AccountUtilizationByUser), "user" (UserUtilizationByAccount) or "top" (TopUsage,
    with the first `top` users). `above` returns an account and all accounts whose sums include it.
    """
    sums: dict[tuple[str, str], dict[str, float]] = {}
    for job in jobs:
        of_job = _held([job], window)
        account = job["account"] or ROOT
        keys = [(account, job["user"])]
        if report == "account":
            keys += [(each, "") for each in above(account)]
        for key in keys:
            into = sums.setdefault(key, {})
            for tres, seconds in of_job.items():
                into[tres] = into.get(tres, 0.0) + seconds
    first = form.named[0]
    order: Callable[[tuple[str, str]], Any] = lambda key: (-sums[key].get(first, 0.0), key)  # noqa: E731
    if report == "account":
        order = lambda key: (above(key[0])[::-1], key[1])  # noqa: E731
    keys = [key for key in sorted(sums, key=order) if any(sums[key].values())]
    keys = keys if top is None else keys[: max(1, top)]  # For a count of 0, Slurm prints one user.
    rows = [
        {"depth": " " * (len(above(key[0])) - (not key[1])), "Energy": form.amount(0.0, 0.0)}
        | _person(
            key, tres, form.amount(sums[key].get(tres, 0.0), float(have.get(tres, 0) * window.length_s))
        )
        for key in keys
        for tres in form.named
    ]
    widths = {"Cluster": 9, "Account": 15, "Login": 9, "Proper": 15, "TresName": 14}
    widths |= {"Used": form.width(), "Energy": form.width()}
    people = ["Account", "Login", "Proper"] if report == "account" else ["Login", "Proper", "Account"]
    shown = ["Cluster", *people, *(["TresName", "Used"] if form.tres else ["Used", "Energy"])]
    heads = {
        "account": "Cluster/Account/User Utilization",
        "user": "Cluster/User/Account Utilization",
        "top": f"Top {top} Users",
    }
    heading = [f"{heads[report]} {window.text()} ({window.length_s} secs)", form.line()]
    return UsageReport(heading, widths, {"Proper": "Proper Name", "TresName": "TRES Name"}, shown, rows)


def as_one_account(jobs: Iterable[Row]) -> list[Row]:
    """Return the jobs with each user's accounts merged into one, which is named after all of them."""
    jobs = list(jobs)
    accounts: dict[str, set[str]] = {}
    for job in jobs:
        accounts.setdefault(job["user"], set()).add(job["account"] or ROOT)
    return [{**job, "account": ", ".join(sorted(accounts[job["user"]]))} for job in jobs]


EMPTY = {
    "user_wckey": "Cluster/User/WCKey Utilization",
    "wckey_user": "Cluster/WCKey/User Utilization",
    "reservation": "Reservation Utilization",
}
"""Reports on objects that do not exist here -> their headings."""
RESERVED_WIDTHS = {"": 20, "only": 20, "too": 29}


def empty(kind: str, window: ReportWindow, form: AmountForm) -> UsageReport:
    """Return a report without rows, as on a site without wckeys or reservation usage."""
    length = f" ({window.length_s} secs)"
    unit_line = form.line()
    titles = {"Proper": "Proper Name", "TresName": "TRES Name"}
    if kind == "reservation":
        widths = {"Cluster": 9, "Name": 9, "Start": 19, "End": 19, "TresName": 14}
        widths |= dict.fromkeys(("Allocated", "Idle"), RESERVED_WIDTHS[form.percent])
        unit_line, length = unit_line.replace(" CPU ", " TRES "), ""
    else:
        people = {"Login": 9, "Proper": 15}
        who = {**people, "WCKey": 15} if kind == "user_wckey" else {"WCKey": 15, **people}
        widths = {"Cluster": 9, **who, **({"TresName": 14} if form.tres else {}), "Used": form.width()}
    return UsageReport(
        [f"{EMPTY[kind]} {window.text()}{length}", unit_line], widths, titles, list(widths), []
    )


def _held(jobs: Iterable[Row], window: ReportWindow) -> dict[str, float]:
    """Return the usage of each TRES: the amount multiplied by the seconds that it was held."""
    held: dict[str, float] = {}
    for job in jobs:
        ran_s = window.part_s(job)
        for tres, amount in (job["tres"] or {}).items() if ran_s else ():
            held[tres] = held.get(tres, 0.0) + amount * ran_s
    return held


def _person(key: tuple[str, str], tres: str, used: str) -> Texts:
    from warpdeck.base.passwd import full_name_of

    account, user = key
    named = {"Cluster": CLUSTER_NAME, "Account": account, "Login": user, "TresName": tres}
    return {**named, "Proper": full_name_of(user) if user else "", "Used": used}
