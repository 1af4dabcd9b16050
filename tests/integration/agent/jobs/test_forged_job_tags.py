"""Job tags on a node without cgroups.

A process counts as a job's only if it runs as the job's user and carries the job's secret.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, BOB, PYTHON, agent_of_root
from tests.integration.agent.isolation.test_containment import FORMS, MIB, WITHOUT
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.isolation.job_processes import JobTag, job_of, job_tag_of, launch_name, pids_by_job_tag
from warpdeck_agent.linux.namespaces import user_of
from warpdeck_agent.linux.procfs import table
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
HOG = "import signal; held = bytearray(400 << 20); print(1, flush=True); signal.pause()"
LIMIT = 100 * MIB
ENTERS_NAMESPACE = """
import ctypes, os, signal, sys
assert ctypes.CDLL(None).unshare(0x10000000) == 0
print(1, flush=True)
sys.stdin.readline()
os.setuid(1)
print(2, flush=True)
signal.pause()
"""
"""Enter a new user namespace and, after the ids are mapped, become another user in it."""


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentProcess]:
    """A root agent on a node without cgroups, with the users ada and bob."""
    with (
        tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder,
        agent_of_root(Path(folder), "sh", "-c", WITHOUT, FORMS["none"]) as agent_process,
    ):
        yield agent_process


def begun(agent: AgentProcess, script: str) -> tuple[int, JobTag]:
    """Start a job of ada with a memory limit; return its id and its tag."""
    job = agent.new_id()
    agent.launch(job, script, user="ada", uid=ADA, mem_bytes=LIMIT)
    agent.link.report(job, "running")
    meta = json.loads(agent.meta(job))
    assert meta["token"] and meta["uid"] == ADA and meta["hold"]["watch_mem_bytes"] == LIMIT
    return job, JobTag(launch_name(job, 0, agent=agent.identity), meta["token"], ADA)


@contextlib.contextmanager
def hog(uid: int, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the given user that uses far more memory than a job may use."""
    with subprocess.Popen(
        [PYTHON, "-c", HOG],
        user=uid,
        group=uid,
        extra_groups=[],
        env=environ,
        cwd="/",
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"1\n"
            yield process
        finally:
            process.kill()


def out_of_memory(agent: AgentProcess) -> None:
    """Wait until the agent has checked memory once: a new job over its limit has been ended."""
    job = agent.new_id()
    report = agent.run(job, f"exec {PYTHON} -c '{HOG}'", user="ada", uid=ADA, mem_bytes=LIMIT)
    assert report.cause == "oom"


def test_a_process_with_a_forged_tag_is_neither_counted_nor_killed(
    agent: AgentProcess,
) -> None:
    job, mark = begun(agent, "exec sleep 1000")
    public = {"WARPDECK_JOB": mark.launch}
    with (
        hog(BOB, public) as bobs,
        hog(BOB, mark.variables()) as who_knows_all,
        hog(ADA, public) as adas,
        hog(ADA, {**public, "WARPDECK_TOKEN": "0" * len(mark.secret)}) as who_guesses,
    ):
        forgers = [each.pid for each in (bobs, who_knows_all, adas, who_guesses)]
        assert [job_of(pid, {mark: job}) for pid in [agent.first_process(job), *forgers]] == [job, 0, 0, 0, 0]
        out_of_memory(agent)
        assert not agent.link.has_report(job, "exited")
        agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
        report = agent.link.report(job, "exited")
        assert report.cause == "cancelled" and report.peak_mem_bytes < LIMIT
        assert [each.poll() for each in (bobs, who_knows_all, adas, who_guesses)] == [None] * 4


def test_a_restarted_agent_recognizes_the_processes_of_its_jobs(agent: AgentProcess) -> None:
    go = agent.folder.parent / "go"
    waits = f"setsid sleep 1003 &\nuntil [ -e {go} ]; do sleep 0.05; done; exec {PYTHON} -c '{HOG}'"
    job, mark = begun(agent, waits)
    agent.kill()
    agent.start()
    go.touch()
    assert agent.link.report(job, "exited").cause == "oom"
    assert mark not in pids_by_job_tag()


@pytest.mark.parametrize("forged", ["WARPDECK_JOB=9999.0@nobody", "WARPDECK_AGENT=1", "WARPDECK_SUBREAPER=1"])
def test_a_detached_process_with_a_forged_tag_ends_with_the_last_job_of_its_user(
    agent: AgentProcess, forged: str
) -> None:
    job = agent.new_id()
    forged = f"env -i {forged} setsid sleep 1003 >/dev/null &\necho $!\n"
    report = agent.run(job, forged, user="bob", uid=BOB)
    assert report.exit_code == 0
    pid = int(agent.text(job))
    eventually(lambda: table(f"/proc/{pid}/status").get("State", "Z")[0] == "Z", what="the job is ended")


def test_a_process_without_the_secret_belongs_to_no_launch() -> None:
    mark = JobTag(f"7.0@{os.getpid()}", "", os.getuid())
    with subprocess.Popen(["sleep", "1000"], env={"WARPDECK_JOB": mark.launch}) as process:
        try:
            eventually(lambda: job_tag_of(process.pid) == mark, what="the job runs")
            assert job_of(process.pid, {mark: 7}) == 7
            assert job_of(process.pid, {mark._replace(secret="x"): 7}) == 0
        finally:
            process.kill()


def test_processes_in_a_user_namespace_belong_to_its_owner() -> None:
    with subprocess.Popen(
        [PYTHON, "-c", ENTERS_NAMESPACE],
        user=ADA,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == b"1\n"
            assert user_of(process.pid) == ADA
            Path(f"/proc/{process.pid}/uid_map").write_text(f"0 {ADA} 1\n1 {10 * ADA} 1\n")
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"2\n"
            assert table(f"/proc/{process.pid}/status")["Uid"].split()[0] == str(10 * ADA)
            assert user_of(process.pid) == ADA
        finally:
            process.kill()
