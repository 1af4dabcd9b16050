from typing import Any

from warpdeck.slurm.sacct.reports import (
    AmountForm,
    ReportWindow,
    UsageReport,
    as_one_account,
    by_people,
    utilization,
)
from warpdeck.slurm.sacct.size_reports import AccountLines, sizes

DAY = 86_400.0
WINDOW = ReportWindow(DAY, 2 * DAY)
HAVE = {"cpu": 10, "gres/gpu": 4}


def job(
    number: int = 1,
    *,
    user: str = "ann",
    account: str = "bio",
    start: float | None = DAY,
    end: float | None = DAY + 3600,
    cpus: int = 2,
    **tres: Any,
) -> dict[str, Any]:
    held = {"cpu": cpus, **({"gres/gpu": tres["gpus"]} if "gpus" in tres else {})}
    row = {"id": number, "user": user, "uid": 1000, "account": account, "start": start, "end": end}
    return {**row, "cpus": cpus, "tres": held, "suspended_s": tres.get("suspended_s", 0.0)}


def used(report: UsageReport) -> dict[tuple[str, str], str]:
    return {(row["Account"], row["Login"]): row["Used"] for row in report.rows}


def test_only_the_part_of_a_job_in_the_window_counts() -> None:
    jobs = [
        job(start=0.0, end=DAY + 60),
        job(start=2 * DAY - 60, end=None),
        job(start=None, end=None),
        job(start=DAY, end=DAY + 120, suspended_s=60.0),
    ]
    [row] = utilization(jobs, HAVE, WINDOW, AmountForm()).rows
    assert (row["Allocated"], row["Idle"], row["Reported"]) == ("6", "14394", "14400")


def test_each_tres_has_a_line_and_its_share() -> None:
    report = utilization(
        [job(end=DAY + 3600 * 12, gpus=2)], HAVE, WINDOW, AmountForm("hours", "too", ("cpu", "gres/gpu"))
    )
    assert [(row["TresName"], row["Allocated"]) for row in report.rows] == [
        ("cpu", "24(10.00%)"),
        ("gres/gpu", "24(25.00%)"),
    ]
    assert "TresName" in report.shown


def test_the_users_who_held_most_come_first() -> None:
    jobs = [job(user="ann"), job(user="bob", end=DAY + 7200), job(user="cy", end=DAY + 60)]
    report = by_people(jobs, HAVE, WINDOW, AmountForm(), report="top", top=2)
    assert list(used(report).items()) == [(("bio", "bob"), "240"), (("bio", "ann"), "120")]
    assert report.heading[0].startswith("Top 2 Users ")


def test_the_accounts_of_a_user_are_one_where_that_is_asked() -> None:
    jobs = as_one_account([job(account="ml"), job(), job(user="bob")])
    found = used(by_people(jobs, HAVE, WINDOW, AmountForm(), report="top", top=10))
    assert found == {("bio, ml", "ann"): "240", ("bio", "bob"): "120"}


def test_an_account_is_the_sum_of_its_users_and_root_that_of_all() -> None:
    jobs = [job(user="ann"), job(user="bob"), job(user="cy", account="")]
    found = used(by_people(jobs, HAVE, WINDOW, AmountForm(), report="account"))
    assert found == {
        ("root", ""): "360",
        ("root", "cy"): "120",
        ("bio", ""): "240",
        ("bio", "ann"): "120",
        ("bio", "bob"): "120",
    }
    assert next(iter(found)) == ("root", "")


def test_an_accounts_use_is_in_the_sums_of_all_above_it() -> None:
    lines = AccountLines({"lab": "inst", "inst": ""})
    found = used(
        by_people([job(account="lab")], HAVE, WINDOW, AmountForm(), report="account", above=lines.upwards)
    )
    assert list(found) == [("root", ""), ("inst", ""), ("lab", ""), ("lab", "ann")]
    assert set(found.values()) == {"120"}


def test_jobs_are_sorted_into_sizes() -> None:
    jobs = [job(cpus=1), job(cpus=4), job(cpus=4, account="chem"), job(cpus=9), job(end=DAY + 0.5)]
    lines = AccountLines({}, flat=True)
    report = sizes(jobs, WINDOW, AmountForm(), lines=lines, groups=(2, 8), count=True)
    assert [row["Account"] for row in report.rows] == ["bio", "chem"]
    assert report.rows[0] | {"0-1 CPUs": "1", "2-7 CPUs": "1", ">= 8 CPUs": "1"} == report.rows[0]
    assert report.rows[1]["% of cluster"] == "25.00%"
    [row] = sizes(
        [job(gpus=2), job()], WINDOW, AmountForm("hours", "too", ("gres/gpu",)), lines=AccountLines({})
    ).rows
    assert (row["Account"], row["0-49 TRES"]) == ("root", "2(100.00%)")


def test_sizes_are_of_the_accounts_that_are_named_with_all_below_them() -> None:
    above = {"lab": "inst", "inst": "", "bio": ""}
    jobs = [job(account="lab"), job(account="bio")]

    def accounts(lines: AccountLines) -> list[str]:
        return [row["Account"] for row in sizes(jobs, WINDOW, AmountForm(), lines=lines, groups=None).rows]

    assert accounts(AccountLines(above)) == ["root"]
    assert accounts(AccountLines(above, ("inst",))) == ["inst"]
    assert accounts(AccountLines(above, as_parents=True)) == ["bio", "inst"]
    assert accounts(AccountLines(above, ("inst",), as_parents=True)) == ["lab"]
    assert accounts(AccountLines(above, ("inst",), flat=True)) == ["lab"]
