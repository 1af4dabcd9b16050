"""The termination messages in a job's output, in the format of slurmstepd."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.launch.termination_message import termination_message
from warpdeck_agent.wire import messages as wire

AT = r"AT \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
NAMED = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "n7"}


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        ("cancelled", ""),
        ("preempted", " DUE TO PREEMPTION"),
        ("requeued", " DUE TO JOB REQUEUE"),
    ],
)
def test_the_message_is_in_the_output_before_the_end_is_reported(
    shared: AgentProcess, short_tmp: Path, cause: str, why: str
) -> None:
    number, err = shared.new_id(), short_tmp / "err"
    shared.launch(number, "echo own >&2; exec sleep 1000", stdout="/dev/null", stderr=str(err), env=NAMED)
    eventually(lambda: err.exists() and err.read_text() == "own\n", what="the job runs")
    shared.link.send(wire.Kill(job_id=number, restarts=0, cause=cause, grace_s=30.0))
    shared.link.report(number, "exited")
    line = rf"own\nslurmstepd: error: \*\*\* JOB {number} ON n7 CANCELLED {AT}{why} \*\*\*\n"
    assert re.fullmatch(line, err.read_text()), err.read_text()


def test_a_job_at_its_time_limit_has_a_message_after_its_own_output(
    shared: AgentProcess, short_tmp: Path
) -> None:
    number, out = shared.new_id(), short_tmp / "out"
    script = "trap 'echo saved; exit 0' TERM\nwhile :; do sleep 0.05; done"
    shared.launch(number, script, stdout=str(out), env=NAMED, time_limit_s=0.5, grace_s=30.0)
    shared.link.report(number, "exited")
    output = out.read_text().splitlines()
    assert "saved" in output
    assert [line.endswith(" DUE TO TIME LIMIT ***") for line in output].count(True) == 1


def test_a_job_that_ends_by_itself_has_no_message(shared: AgentProcess, short_tmp: Path) -> None:
    number, out = shared.new_id(), short_tmp / "out"
    shared.launch(number, "kill -9 $$", stdout=str(out), env=NAMED)
    shared.link.report(number, "exited")
    assert out.read_text() == ""


def test_an_out_of_memory_message_has_the_text_of_slurmstepd() -> None:
    assert termination_message(5, "n1", cause="oom", at_unix=0.0) == (
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.batch. "
        "Some of your processes may have been killed by the cgroup out-of-memory handler."
    )
