"""A field has the same value in every command that shows it, and each command requests only the columns it needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.command_site import CommandSite

from warpdeck.controller.presenters.job_columns import JOB_FIELDS
from warpdeck.protocol.node_rows import NodeFacts
from warpdeck.slurm.fields import job_json
from warpdeck.slurm.fields.field import columns, constant, needs_of, table
from warpdeck.slurm.fields.job_fields import JOB
from warpdeck.slurm.fields.key_lines import KeyLines
from warpdeck.slurm.fields.node_fields import NODE
from warpdeck.slurm.sacct import sacct_json
from warpdeck.slurm.sacct.accounted_columns import WIDTHS, needs_of_columns
from warpdeck.slurm.scontrol.job_text import JOB_TEXT, STEP_TEXT
from warpdeck.slurm.viewers.squeue_columns import job_columns

CONFIG = """
[partitions.gpu]
nodes = "n[1-4]"
[partitions.all]
nodes = "n[1-5]"
[scheduler]
default_partition = "gpu"
"""
NODES = ("n1", "n2", "n3", "n4", "n5")


def show(site: CommandSite, *words: str) -> dict[str, str]:
    """Return the pairs that `scontrol show` prints of one object."""
    printed = site.run_words(["scontrol", "show", *words])
    assert printed.code == 0, printed
    pairs = (word.partition("=") for line in printed.lines for word in line.split() if "=" in word)
    return {key: value for key, _, value in pairs}


def as_json(site: CommandSite, *words: str) -> Any:
    return json.loads(site.run_words([*words, "--json"]).out)


# ---- Tables


def test_a_table_gives_each_key_its_field_and_form() -> None:
    fields = columns("id limit_s account") | {"twice": constant(2)}
    made = table("JobId=id TimeLimit=limit_s|clock Account=account|(null) Reboot==0 boards:=1 twice", fields)
    row = {"id": 12, "limit_s": 60, "account": ""}
    assert {key: field.value(row) for key, field in made.items()} == {
        "JobId": 12,
        "TimeLimit": "00:01:00",
        "Account": "(null)",
        "Reboot": "0",
        "boards": 1,
        "twice": 2,
    }
    assert needs_of(made.values()) == ["id", "limit_s", "account"]


@pytest.mark.parametrize("word", ["JobId=nosuch", "JobId=id|nosuch"])
def test_a_table_with_an_unknown_name_is_refused(word: str) -> None:
    with pytest.raises(KeyError, match="nosuch"):
        table(word, columns("id"))


def test_pairs_are_left_out_when_they_are_empty_or_details() -> None:
    fields = columns("id comment parts")
    text = KeyLines("JobId=id Comment=comment?\nComment=comment?\n@parts!\nPower==", fields)
    row = {"id": 1, "comment": "", "parts": ["  a", "  b"]}
    assert text.lines(row) == ["JobId=1", "Power="]
    assert text.lines(row | {"comment": "x"}, details=True) == [
        "JobId=1 Comment=x",
        "Comment=x",
        "  a",
        "  b",
        "Power=",
    ]


# ---- Columns that are requested


def test_fields_name_columns_of_the_controller() -> None:
    needs = {
        *needs_of(JOB.values()),
        *job_json.NEEDS,
        *sacct_json.NEEDS,
        *JOB_TEXT.needs,
        *STEP_TEXT.needs,
        *needs_of_columns(WIDTHS),
        *(name for column in job_columns(now=0).values() for name in column.needs.split()),
    }
    assert needs <= set(JOB_FIELDS)


def test_fields_of_nodes_are_made_of_node_facts_alone(site: CommandSite) -> None:
    [row, *_] = site.connect().call("nodes", facts=True)["nodes"]
    assert set(row) == set(NodeFacts.__struct_fields__)
    assert [name for name, field in NODE.items() if field.needs] == []
    for name, field in NODE.items():
        assert field.value(row) is None or name, name


def test_a_few_columns_of_sacct_need_a_few_columns_of_jobs() -> None:
    assert set(needs_of_columns(["JobIDRaw", "State", "User"])) == {
        *("id", "user"),
        *("state", "exit_cause", "ended_by_uid"),
    }


# ---- Jobs


def test_the_minimum_of_cpus_on_a_node_counts_in_every_command(site: CommandSite) -> None:
    job = str(site.submit("-H", "--mincpus=5", "-c2", "--ntasks-per-node=2"))
    assert site.run(f"squeue -h -j {job} -o %c").out == "5\n"
    assert show(site, "job", job)["MinCPUsNode"] == "5"
    [shown] = as_json(site, "squeue", "-j", job)["jobs"]
    assert shown["minimum_cpus_per_node"] == 5


def test_a_job_that_waits_for_its_begin_is_expected_then(site: CommandSite) -> None:
    """A held job has no planned start, but it cannot start earlier either."""
    for held in ((), ("-H",)):
        job = str(site.submit("--begin=now+2hours", "-t", "10", *held))
        times = site.run_words(["squeue", "-h", "-j", job, "-o", "%S|%e"]).out.strip().split("|")
        shown = show(site, "job", job)
        assert [shown["StartTime"], shown["EndTime"]] == times and "N/A" not in times


def test_tasks_behind_the_limit_of_their_array_are_not_eligible(site: CommandSite) -> None:
    first = site.submit("--array=1-3%1")
    site.until(
        lambda: "JobArrayTaskLimit" in site.run(f"squeue -h -j {first} -t PD -o %r").out,
        what="the rest waits for the limit",
    )
    columns = "jobid,eligibletime:,accruetime:|"
    [line] = site.run(f"squeue -h -j {first} -t PD -O {columns}").lines
    assert "N/A" in line
    [waiting] = [
        job
        for job in as_json(site, "scontrol", "show", "job", str(first))["jobs"]
        if job["array_task_string"]
    ]
    assert waiting["eligible_time"] == 0 and waiting["accrue_time"] > 0


def test_suspended_time_is_no_elapsed_time(site: CommandSite) -> None:
    job = site.start("-w", "n4")
    for word, after_s in (("suspend", 100), ("resume", 50)):
        site.now += after_s
        site.run(f"scontrol {word} {job}")
    site.now += 25
    site.end(job)
    assert site.run(f"sacct -n -P -j {job} -o jobid,elapsed,suspended").lines == [
        f"{job}|00:02:05|00:00:50",
        f"{job}.batch|00:02:05|00:00:50",
        f"{job}.extern|00:02:05|00:00:50",
    ]
    [shown] = as_json(site, "sacct", "-j", str(job))["jobs"]
    times = [each["time"] for each in (shown, *shown["steps"])]
    assert {(time["elapsed"], time["suspended"]) for time in times} == {(125, 50)}


# ---- Nodes


def test_flags_of_a_node_are_told_in_slurms_order(site: CommandSite) -> None:
    job = site.start("-w", "n3", "-n2")
    for line in (
        "scontrol create reservation reservationname=m starttime=now duration=60 users=root nodes=n3 flags=maint,ignore_jobs",
        "scontrol update nodename=n3 state=drain reason=fan",
    ):
        assert site.run(line).code == 0
    assert show(site, "node", "n3")["State"] == "MIXED+DRAIN+MAINTENANCE+RESERVED"
    # sinfo shows a drained node that runs jobs as allocated.
    complete = site.run("sinfo -h -N -p gpu -n n3 -O statecomplete:").out.strip()
    assert complete == "allocated+drain+maintenance+reserved"
    [node] = as_json(site, "scontrol", "show", "node", "n3")["nodes"]
    assert (node["state"], node["state_flags"]) == ("mixed", ["DRAIN", "MAINTENANCE", "RESERVED"])
    assert site.run("sinfo -h -N -p gpu -t resv -o %N").out == "n3\n"
    site.run(f"scancel {job}")
    assert show(site, "node", "n3")["State"] == "MIXED+COMPLETING+DRAIN+MAINTENANCE+RESERVED"
    site.end(job, signal=15)
    assert show(site, "node", "n3")["State"] == "IDLE+DRAIN+MAINTENANCE+RESERVED"


def test_a_nodes_partitions_and_address_are_the_same_in_scontrol_and_sinfo(site: CommandSite) -> None:
    [shown] = [node for node in as_json(site, "sinfo")["nodes"] if node["name"] == "n1"]
    assert shown["partitions"] == ["gpu", "all"], "the order of config.toml"
    pairs = show(site, "node", "n1")
    assert pairs["Partitions"] == "gpu,all"
    assert pairs["NodeAddr"] == shown["address"] == site.run("sinfo -h -n n1 -p all -o %o").out.strip()


def test_a_wrong_time_format_is_reported_once(site: CommandSite) -> None:
    printed = site.run("squeue -h -t all -o %V", env={"SLURM_TIME_FORMAT": "nosuch"})
    assert len(printed.lines) > 1
    assert printed.err == "squeue: error: invalid SLURM_TIME_FORMAT = 'nosuch'\n"
    assert site.run("squeue -h -o %i", env={"SLURM_TIME_FORMAT": "nosuch"}).err == ""
