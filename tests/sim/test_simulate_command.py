"""The command `warpdeck simulate`: results as text and JSON, error messages, and the site's own history."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from warpdeck.cli.main import main
from warpdeck.model import (
    Dependencies,
    Dependency,
    ExitStatus,
    Gpu,
    GpuRequest,
    GpuUuid,
    Job,
    JobId,
    JobState,
    Node,
    NodeName,
    Request,
    Resources,
)
from warpdeck.ports.store import Changes
from warpdeck.store import SqliteStore

DAY0 = 1_700_000_000.0
LOG = "job_id,user,submit_s,runtime_s,timelimit_s,nodes,gpus,cpus\n" + "".join(
    f"{number},u{number % 3},{number * 10},{60 + number % 7},,,{1 + number % 8},\n" for number in range(200)
)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    return str(path)


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["simulate", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("policy", ["fcfs", "fcfs-easy", "conservative", "default"])
def test_a_replayed_log_gives_wait_times_and_utilization(
    capsys: pytest.CaptureFixture[str], log: str, policy: str
) -> None:
    words = ["--trace", log, "--nodes", "2", "--gpus-per-node", "8", "--policy", policy]
    code, out, err = called(capsys, *words, "--json")
    facts = json.loads(out)
    assert code == 0 and facts["jobs"] == 200 and facts["refused"] == 0
    assert 0 < facts["mean_wait_s"] <= facts["max_wait_s"] and facts["p95_wait_s"] <= facts["max_wait_s"]
    assert facts["mean_bounded_slowdown"] > 1 and 0 < facts["utilization"] <= 1
    assert "200 jobs without a time limit got their run time" in err
    _, out, _ = called(capsys, *words)
    assert {line.split()[0] for line in out.splitlines()} == set(facts)


def test_jobs_larger_than_the_cluster_are_reported_as_refused(
    capsys: pytest.CaptureFixture[str], log: str
) -> None:
    code, out, err = called(capsys, "--trace", log, "--cpus", "7", "--limits", "menu", "--json")
    assert code == 0 and json.loads(out)["refused"] == 25
    assert "25 jobs refused: larger than the cluster" in err


def test_a_configuration_can_be_simulated_on_a_log(
    capsys: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    strict = tmp_path / "strict.toml"
    strict.write_text('[scheduler]\nbackfill = "none"\nqueue_order = "submission"\n')
    machine = ["--trace", log, "--cpus", "16", "--json"]
    _, tried, _ = called(capsys, *machine, "--config", str(strict))
    _, fcfs, _ = called(capsys, *machine, "--policy", "fcfs")
    assert json.loads(tried)["mean_wait_s"] == json.loads(fcfs)["mean_wait_s"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--trace", "absent.csv", "--cpus", "4"], 1, "cannot read absent.csv: No such file or directory"),
        (["--trace", "LOG"], 2, "the size of the cluster is missing"),
        (["--trace", "LOG", "--cpus", "4", "--nodes", "2"], 2, "--cpus cannot be combined with --nodes"),
        (["--trace", "LOG", "--nodes", "2"], 2, "--nodes needs --gpus-per-node"),
        (["--trace", "LOG", "--cpus", "4", "--config", "absent.toml"], 1, "no such file: absent.toml"),
        (["--trace", "LOG", "--cpus", "4", "--from", "2026-01-01"], 2, "--from requires --history"),
        (["--history", "--cpus", "4"], 2, "--history uses the nodes of this site"),
        (["--history"], 1, "there is no history"),
    ],
)
def test_invalid_arguments_give_one_message(
    capsys: pytest.CaptureFixture[str],
    log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.setenv("WARPDECK_HOME", str(tmp_path / "home"))
    got, out, err = called(capsys, *(log if word == "LOG" else word for word in words))
    assert (got, out) == (code, "")
    assert err.startswith(f"warpdeck: {message}") and "Traceback" not in err


@pytest.mark.parametrize("count", ["0", "-3", "x", "1" * 40])
def test_an_invalid_machine_size_is_refused(capsys: pytest.CaptureFixture[str], log: str, count: str) -> None:
    code, out, err = called(capsys, "simulate", "--trace", log, "--cpus", count)
    assert (code, out) == (2, "") and "argument --cpus" in err and "is not between 1 and" in err


def past(number: int, *, user: str, submit_s: float, start_s: float, run_s: float, **fields: Any) -> Job:
    request = Request(
        script="#!/bin/sh\n",
        resources=Resources(gpus=GpuRequest(per_node=8)),
        time_limit_s=3600,
        account=user[0],
        **fields,
    )
    return Job(
        id=JobId(number),
        array_job_id=JobId(number),
        request=request,
        user=user,
        uid=1,
        state=JobState.COMPLETED,
        submit_at_unix=DAY0 + submit_s,
        eligible_at_unix=DAY0 + submit_s,
        start_at_unix=DAY0 + start_s,
        end_at_unix=DAY0 + start_s + run_s,
        exit=ExitStatus(),
    )


def write_history(home: Path, jobs: list[Job]) -> None:
    """Write a database of the controller with these jobs and one node of 8 GPUs."""
    home.mkdir(mode=0o700)
    gpus = tuple(
        Gpu(index=index, uuid=GpuUuid(f"g{index}"), name="H100", type="h100", mem_bytes=1)
        for index in range(8)
    )
    node = Node(name=NodeName("a"), cpus=64, mem_bytes=2**40, gpus=gpus)

    async def write() -> None:
        store = await SqliteStore.open(str(home / "state.db"))
        requests = tuple((job.id, job.request) for job in jobs)
        await store.commit(Changes(requests=requests, jobs=tuple(jobs), nodes=(node,)))
        await store.close()

    asyncio.run(write())


def test_the_replayed_history_shows_the_change_of_each_users_wait(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = Dependencies(clauses=(Dependency(kind="afterok", job_id=JobId(1)),))
    jobs = [
        past(1, user="ann", submit_s=0, start_s=0, run_s=1000),
        past(2, user="ann", submit_s=10, start_s=1000, run_s=1000, nice=0),
        past(3, user="bob", submit_s=20, start_s=2000, run_s=1000, priority=10),
        past(4, user="bob", submit_s=30, start_s=3000, run_s=1000, dependencies=after),
    ]
    home = tmp_path / "home"
    write_history(home, jobs)
    monkeypatch.setenv("WARPDECK_HOME", str(home))
    changed = tmp_path / "new.toml"
    changed.write_text('[scheduler]\nqueue_order = "submission"\n')
    code, out, _ = called(capsys, "--history", "--config", str(changed), "--json")
    facts = json.loads(out)
    assert code == 0 and facts["jobs"] == 4 and facts["not_started"] == 0
    ann, bob = sorted(facts["users"], key=lambda change: change["name"])
    assert ann["jobs"] == bob["jobs"] == 2
    assert bob["really_waited_s"] == pytest.approx((1980 + 2000) / 2)
    assert bob["now_waits_s"] == pytest.approx((980 + 2000) / 2)
    assert [change["name"] for change in facts["accounts"]] == ["a", "b"]
    _, out, _ = called(capsys, "--history")
    assert out.splitlines()[0].split() == [
        "USER",
        "JOBS",
        "WAITED",
        "NOW",
        "THEN",
        "CHANGE",
        "SHORTER",
        "LONGER",
    ]
    assert main(["simulate", "--history", "--from", "2001-01-01", "--to", "2001-01-02"]) == 1
    assert "no finished jobs in this time range" in capsys.readouterr().err


def test_a_stricter_policy_lengthens_the_waits_of_affected_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In strict order, bob's small job waits behind ann's large job, which it could pass with backfill."""
    small = Resources(cpus_per_task=1)
    bobs = past(3, user="bob", submit_s=20, start_s=20, run_s=50)
    request = msgspec.structs.replace(bobs.request, resources=small, time_limit_s=60)
    bobs = msgspec.structs.replace(bobs, request=request)
    jobs = [
        past(1, user="ann", submit_s=0, start_s=0, run_s=1000),
        past(2, user="ann", submit_s=10, start_s=1000, run_s=1000),
        bobs,
    ]
    home = tmp_path / "home"
    write_history(home, jobs)
    monkeypatch.setenv("WARPDECK_HOME", str(home))
    _, out, _ = called(capsys, "--history", "--policy", "fcfs", "--json")
    by_name = {change["name"]: change for change in json.loads(out)["users"]}
    assert (by_name["bob"]["now_waits_s"], by_name["bob"]["then_waits_s"]) == (0, 980)
    assert (by_name["bob"]["longer"], by_name["ann"]["difference_s"]) == (1, 0)
