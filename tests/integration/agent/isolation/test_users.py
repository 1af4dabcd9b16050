"""Jobs of a root agent run as their users from the first instruction on.

They cannot reach the agent or other jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, BOB, LAB, PYTHON, agent_of_root
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck.fleet.build import build_zipapp
from warpdeck_agent.attach.job_access import MAX_CALLS
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, json_frame
from warpdeck_agent.wire.steps import CALL_WINDOW_BYTES, CallOpened, PortReserved, ReservePort

pytestmark = pytest.mark.lab


@pytest.fixture
def agent(short_tmp: Path) -> Iterator[AgentProcess]:
    with agent_of_root(short_tmp) as agent_process:
        yield agent_process


def test_a_job_has_the_ids_and_groups_of_its_user(agent: AgentProcess) -> None:
    assert agent.run(1, "id -u; id -g; id -G; echo $HOME $USER", user="ada", uid=ADA).exit_code == 0
    uid, gid, groups, account = agent.text(1).splitlines()
    assert (uid, gid, sorted(groups.split())) == (str(ADA), str(ADA), [str(ADA), str(LAB)])
    assert account == "/tmp ada"


def test_a_terminal_runs_although_the_user_cannot_read_the_agents_python(
    agent: AgentProcess, short_tmp: Path
) -> None:
    closed = short_tmp / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python3").symlink_to(PYTHON)
    agent.kill()
    agent.program = [str(closed / "python3") if word == PYTHON else word for word in agent.program]
    agent.start()
    for job, user, uid in ((1, "ada", ADA), (2, "root", 0)):
        agent.launch(job, role="tasks", argv=["id", "-u"], pty=True, user=user, uid=uid)
        agent.link.report(job, "running")
        agent.link.send(wire.OpenPty(stream=job, job_id=job, restarts=0, rows=24, cols=80))
        assert agent.link.report(job, "exited").exit_code == 0
        assert agent.text(job) == str(uid)


def test_an_unknown_user_is_refused(agent: AgentProcess) -> None:
    agent.launch(1, "true", user="nobody-knows", uid=1)
    message = agent.link.expect(wire.LaunchFailed).message
    assert message.startswith("the job's user nobody-knows (uid 1) does not exist on this node:")


def test_a_user_of_the_same_name_with_another_uid_is_refused(agent: AgentProcess) -> None:
    for role in ("batch", "hold"):
        agent.launch(1, "true" if role == "batch" else "", role=role, user="ada", uid=BOB)
        message = agent.link.expect(wire.LaunchFailed).message
        assert message == (
            f"user ada has uid {ADA} on this node, but the job belongs to ada with uid {BOB}: give the account the same uid on"
            " all machines, or submit the job again as the new user"
        )
    assert agent.records() == {}


def test_an_agent_without_root_runs_everything_as_itself(
    short_tmp: Path,
) -> None:
    short_tmp.chmod(0o755)
    zipapp, _ = build_zipapp(str(short_tmp))
    drop = ["setpriv", f"--reuid={ADA}", f"--regid={ADA}", "--clear-groups", "--"]
    with contextlib.closing(
        AgentProcess(short_tmp / "agent", program=[*drop, PYTHON, "-I", zipapp])
    ) as agent:
        agent.folder.mkdir()
        os.chown(agent.folder, ADA, ADA)
        agent.start()
        assert agent.run(1, "id -u", user="ada-at-home", uid=BOB).exit_code == 0
        assert agent.text(1) == str(ADA)


def test_the_output_file_is_opened_as_the_user(agent: AgentProcess, short_tmp: Path) -> None:
    private, open_to_all = short_tmp / "private", open_folder(short_tmp)
    private.mkdir(mode=0o700)
    report = agent.run(1, "echo in", user="ada", uid=ADA, stdout=str(private / "out"))
    assert report.message == f"cannot write the output file {private}/out"
    assert list(private.iterdir()) == []
    assert agent.run(2, "echo in", user="ada", uid=ADA, stdout=str(open_to_all / "a/out")).exit_code == 0
    assert (open_to_all / "a/out").stat().st_uid == ADA


def test_no_program_on_the_users_path_runs_as_root(agent: AgentProcess, short_tmp: Path) -> None:
    programs, seen = short_tmp / "mine", short_tmp / "seen"
    programs.mkdir()
    seen.touch()
    seen.chmod(0o666)
    for name in ("setpriv", "setsid", "sh", "env", "mkdir", "echo", "sleep"):
        (programs / name).write_text(f"#!/bin/sh\n/usr/bin/id -u >>{seen}\n")
        (programs / name).chmod(0o755)
    environ = {"PATH": f"{programs}:/usr/bin:/bin"}
    report = agent.run(1, "sleep 1", user="ada", uid=ADA, env=environ, stdout=f"{short_tmp}/deep/out")
    assert report.message.startswith("cannot create the folder")
    assert agent.run(2, "sleep 1", user="ada", uid=ADA, env=environ).exit_code == 0
    assert set(seen.read_text().split()) == {str(ADA)}


def test_a_job_cannot_access_other_spools_or_the_agents_files(agent: AgentProcess) -> None:
    agent.run(1, "echo secret; echo $0", user="ada", uid=ADA)
    script = agent.text(1).split()[1]
    assert script.startswith(f"{agent.folder}/jobs/scripts/")
    tries = [f"cat {path}" for path in (agent.job(1, "out"), script, agent.folder / "jobs" / "table")]
    tries += [f"ls {Path(script).parent}"]
    tries += [f"ls {agent.folder}/trees", f"ls {agent.folder}/jobs", f"cat {agent.folder}/identity"]
    agent.run(2, "\n".join(f"{text} && echo reached" for text in tries), user="bob", uid=BOB)
    seen = agent.text(2)
    assert "secret" not in seen and "reached" not in seen
    assert seen.count("Permission denied") == len(tries)


def test_a_job_cannot_change_its_records_in_the_agent(agent: AgentProcess) -> None:
    script = "\n".join(
        [
            f"cd {agent.folder}/jobs || exit 9",
            "rm -f table && echo removed",
            "mkfifo pipe && echo made a pipe",
            "echo x >>table && echo wrote",
            "touch 1.0/cause 2.0 && echo made",
            "kill -9 $PPID && echo killed the supervisor",
            "exit 4",
        ]
    )
    agent.launch(1, script, user="ada", uid=ADA)
    assert agent.link.report(1, "exited").exit_code == 4
    output = agent.text(1).replace("cannot", "")
    assert not [word for word in ("removed", "made", "wrote", "killed") if word in output]


def test_a_script_changed_by_a_job_does_not_affect_other_jobs(agent: AgentProcess) -> None:
    script = 'echo as submitted; chmod u+w "$0"; echo "echo changed" >>"$0"; exit 0'
    for job in (1, 2):
        agent.run(job, script, user="ada", uid=ADA)
        assert agent.text(job) == "as submitted"


def test_a_log_is_read_only_if_it_belongs_to_the_user(agent: AgentProcess, short_tmp: Path) -> None:
    requested = wire.OpenLog(stream=4, job_id=99, restarts=0, path="/etc/shadow", uid=ADA)
    agent.link.send(requested)
    assert "cannot read /etc/shadow: Permission denied" in agent.link.expect(wire.StreamEnd).error


def test_a_terminal_belongs_to_its_user(agent: AgentProcess) -> None:
    agent.launch(1, "id -u; read word; exit 6", user="ada", uid=ADA, pty=True)
    agent.link.report(1, "running")
    agent.link.send(wire.OpenPty(stream=1, job_id=1, restarts=0, rows=24, cols=80))
    agent.link.output(1, str(ADA).encode())
    agent.link.send_data(1, b"go\n")
    assert agent.link.report(1, "exited").exit_code == 6


def test_a_terminal_socket_of_another_user_is_not_joined(agent: AgentProcess, short_tmp: Path) -> None:
    with socket.socket(socket.AF_UNIX) as roots:
        roots.bind(str(short_tmp / "roots"))
        roots.listen()
        linked = open_folder(short_tmp) / "linked"
        other_end = agent.job(1, "terminal") / "pty.sock"
        script = f"ln -sf {short_tmp}/roots {other_end} && touch {linked}; sleep 1000"
        agent.launch(1, script, user="ada", uid=ADA, pty=True)
        eventually(linked.exists, what="the link exists")
        agent.link.send(wire.OpenPty(stream=1, job_id=1, restarts=0, rows=24, cols=80))
        assert "does not belong to the job's user" in agent.link.expect(wire.StreamEnd).error


def open_folder(base: Path) -> Path:
    """Create a folder that all users may write to."""
    folder = base / "open"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


MANY_CALLS = """
import collections, contextlib, itertools, resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
made = collections.deque(maxlen=2000)
for number in itertools.count():
    made.append(socket.socket(socket.AF_UNIX))
    with contextlib.suppress(OSError):
        made[-1].connect(sys.argv[1])
        if number % 2:
            made[-1].sendall(bytes.fromhex(sys.argv[2]))
    if number == 2000:
        print("connected", flush=True)
"""
ONE_CALL = """
import socket, sys
with socket.socket(socket.AF_UNIX) as link:
    link.connect(sys.argv[1])
    link.sendall(bytes.fromhex(sys.argv[2]))
    with link.makefile("rb") as answer:
        print(answer.read(40), flush=True)
"""
MAX_DESCRIPTORS = MAX_CALLS + 100
"""Limit for an agent with a few jobs, far below the usual limit of 1,024."""


def test_a_job_with_endless_connections_does_not_block_other_jobs_of_its_user(
    agent: AgentProcess,
) -> None:
    """Half of the connections send nothing and half a valid proof. Refused or dropped ones are reopened."""
    address = str(agent.folder / "access.sock")
    proofs = []
    for job in (1, 2):
        agent.launch(job, "sleep 1000", user="ada", uid=ADA)
        agent.link.report(job, "running")
        token = json.loads(agent.meta(job))["token"]
        proofs.append(json_frame({"t": "access", "job": f"{job}.0@{agent.identity}", "token": token}).hex())
    assert agent.process is not None
    command = [PYTHON, "-c", MANY_CALLS, address, proofs[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, user=ADA) as many:
        try:
            assert many.stdout is not None
            assert many.stdout.readline() == b"connected\n"
            for _ in range(3):
                command = [PYTHON, "-c", ONE_CALL, address, proofs[1]]
                with subprocess.Popen(command, stdout=subprocess.PIPE, user=ADA) as one:
                    opened = agent.link.expect(CallOpened, lambda call: call.job_id == 2)
                    agent.link.send_data(opened.stream, b"x" * 40)
                    assert one.stdout is not None and b"joined" in one.stdout.readline()
            assert len(os.listdir(f"/proc/{agent.process.pid}/fd")) < MAX_DESCRIPTORS
        finally:
            many.kill()


def test_a_half_closed_connection_keeps_no_descriptor(agent: AgentProcess) -> None:
    agent.launch(1, "sleep 1000", user="ada", uid=ADA)
    agent.link.report(1, "running")
    token = json.loads(agent.meta(1))["token"]
    assert agent.process is not None
    folder = f"/proc/{agent.process.pid}/fd"
    before = len(os.listdir(folder))
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(agent.folder / "access.sock"))
        deaf.sendall(json_frame({"t": "access", "job": f"1.0@{agent.identity}", "token": token}))
        opened = agent.link.expect(CallOpened)
        for _ in range(2 * CALL_WINDOW_BYTES // DATA_CHUNK_BYTES):
            agent.link.send_data(opened.stream, bytes(DATA_CHUNK_BYTES))
        agent.link.expect(wire.StreamAck)
        agent.link.send(ReservePort(ask=1, job_id=1, restarts=0))
        agent.link.expect(PortReserved)  # by now the rest waits for the process that does not read
        deaf.shutdown(socket.SHUT_WR)
        agent.link.expect(wire.StreamEnd, lambda message: message.stream == opened.stream)
        eventually(lambda: len(os.listdir(folder)) <= before, what="its descriptor is closed")
