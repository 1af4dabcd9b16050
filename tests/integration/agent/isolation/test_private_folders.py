"""Private folders of a job: all of its processes share one content, which no other job sees.

The folders are removed when the job ends.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agent.conftest import ADA, BOB, agent_of_root
from tests.integration.agent.steps.test_steps import ended, start
from tests.integration.agent.streams.test_tunnel import ENV, end_of
from tests.support.agent import AgentProcess
from tests.support.processes import kill
from tests.support.waiting import eventually

from warpdeck_agent.storage.tmpdirs import prefix_of
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
PLACES = ["/tmp", "/dev/shm"]


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentProcess]:
    """A root agent whose own folder lies inside one of the private folders."""
    with (
        tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder,
        agent_of_root(Path(folder)) as agent_process,
    ):
        yield agent_process


def given(agent: AgentProcess, **fields: Any) -> dict[str, Any]:
    """Return the fields of a launch of ada with private folders, started in the root folder."""
    return {"user": "ada", "uid": ADA, "cwd": "/", "private_dirs": PLACES, **fields}


def begin(agent: AgentProcess, script: str, **fields: Any) -> int:
    """Start a job that runs `script` and then continues until it is ended; return its id."""
    job = agent.new_id()
    agent.launch(job, f"{script}\nexec sleep 1000", **given(agent, **fields))
    agent.first_process(job)
    return job


def output_of(agent: AgentProcess, script: str, **fields: Any) -> str:
    """Run `script` as a job, check that it succeeds, and return its output."""
    job = agent.new_id()
    report = agent.run(job, script, **given(agent, **fields))
    assert report.exit_code == 0, (report, agent.text(job))
    return agent.text(job)


def leftovers(agent: AgentProcess) -> list[Path]:
    """Return the folders that the agent keeps on the node as backing for private folders."""
    return [path for place in PLACES for path in Path(place).glob(prefix_of(agent.identity) + "*")]


def end(agent: AgentProcess, job: int) -> wire.JobReport:
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    return agent.link.report(job, "exited")


def test_private_folders_are_empty_at_first_and_leave_nothing_on_the_node(agent: AgentProcess) -> None:
    name = f"wd-{secrets.token_hex(6)}"
    found = output_of(
        agent, f"ls -A /dev/shm /tmp; stat -c %a /tmp; echo $TMPDIR; touch /tmp/{name} /dev/shm/{name}"
    )
    top = agent.folder.parts[2]
    assert found.split() == ["/dev/shm:", "/tmp:", top, "1777", "/tmp"], (
        "except for the path to the agent's folder"
    )
    assert not Path("/tmp", name).exists() and not Path("/dev/shm", name).exists()
    assert leftovers(agent) == []


def test_all_processes_of_a_job_share_private_folders_that_others_do_not_see(agent: AgentProcess) -> None:
    job = begin(agent, "echo mine >/tmp/note")
    eventually(
        lambda: any((path / "in/note").exists() for path in leftovers(agent)), what="the file is written"
    )
    start(agent, job, "sh", "-c", "cat /tmp/note; echo step >>/tmp/note")
    ended(agent, job)
    agent.link.send(wire.OpenTunnel(stream=7, job_id=job, restarts=0, env=ENV, argv=["cat", "/tmp/note"]))
    agent.link.send_data(7, b"")
    assert end_of(agent.link, 7).error == ""
    assert bytes(agent.link.data[7]) == b"mine\nstep\n"
    assert output_of(agent, "ls /tmp | grep -c note || true", user="bob", uid=BOB) == "0"
    end(agent, job)
    assert leftovers(agent) == []


def test_a_terminal_sees_the_private_folders_of_its_job(agent: AgentProcess) -> None:
    job = agent.new_id()
    agent.launch(
        job, argv=["sh", "-c", "ls -A /dev/shm; echo in $TMPDIR"], role="tasks", pty=True, **given(agent)
    )
    agent.link.report(job, "running")
    agent.link.send(wire.OpenPty(stream=9, job_id=job, restarts=0, rows=24, cols=80))
    agent.link.report(job, "exited")
    assert agent.text(job).split() == ["in", "/tmp"]


REPLACE = """
python3 -c 'import os, sys; os.rename(sys.argv[1], "/tmp/away")' "$place" 2>&1 | tail -n 1
rmdir "$place" 2>&1
touch "$place/seen"
"""


def test_shared_folders_of_the_site_stay_and_cannot_be_replaced(agent: AgentProcess) -> None:
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        shared.chmod(0o777)
        (shared / "link").symlink_to("/etc")
        requested = {"shared_dirs": [str(shared), f"{shared}/link", "/tmp/wd-is-not-there"]}
        found = output_of(agent, f"place={shared}\n{REPLACE}ls /tmp", **requested)
        assert (shared / "seen").exists()
        assert "busy" in found or "not permitted" in found
        assert "is-not-there" not in found
    finally:
        shutil.rmtree(shared)


def test_output_in_a_private_folder_is_kept(agent: AgentProcess) -> None:
    job = agent.new_id()
    report = agent.run(job, "echo words", **given(agent, stdout="/tmp/wd-out/a.txt"))
    assert report.stdout_path.startswith("spool:") and agent.text(job) == "words"
    assert not Path("/tmp/wd-out").exists()


def test_private_folders_survive_the_agent_and_leave_nothing(agent: AgentProcess) -> None:
    job = begin(agent, "echo mine >/tmp/note")
    eventually(
        lambda: any((path / "in/note").exists() for path in leftovers(agent)), what="the file is written"
    )
    stale = Path(f"/dev/shm/{prefix_of(agent.identity)}999999.0-x/in")
    stale.mkdir(parents=True)
    agent.kill()
    agent.start()
    eventually(lambda: not stale.parent.exists(), what="the folder of a forgotten job is removed")
    start(agent, job, "sh", "-c", "grep -q mine /tmp/note && exit 3")
    assert [each.code for each in ended(agent, job).ends] == [3]
    agent.kill()
    kill([agent.supervisor(), *agent.processes(job)])
    agent.start()
    agent.link.report(job, "lost")
    eventually(lambda: leftovers(agent) == [], what="no process of it is left")


def test_an_agent_without_mount_rights_reports_it_and_runs_the_job(short_tmp: Path) -> None:
    with agent_of_root(short_tmp, "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin") as agent:
        facility = {each.name: each for each in agent.connect().inventory.facilities}["folders"]
        assert (facility.strength, facility.how) == (
            "missing",
            "private_dirs needs an agent of root that may mount",
        )
        assert output_of(agent, "echo $TMPDIR").startswith("/tmp/warpdeck-")


def test_an_agent_of_root_reports_private_folders(agent: AgentProcess) -> None:
    facility = {each.name: each for each in agent.connect().inventory.facilities}["folders"]
    assert (facility.strength, facility.how) == ("enforced", "separate mounts for each job")
