"""PMI for the tasks of a step on a real agent.

The tests use Slurm's own client library for PMI-2, raw commands for PMI-1, and invalid input.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import steps as wire

PATIENCE_S = 60
START = f"""
import os, signal
signal.alarm({PATIENCE_S})
line, rank = int(os.environ["PMI_FD"]), int(os.environ["PMI_RANK"])
def ask(words):
    os.write(line, words.encode() + b"\\n")
    return answer()
def answer():
    found = b""
    while not found.endswith(b"\\n"):
        more = os.read(line, 1)
        if not more: return "closed"
        found += more
    return found.decode().strip()
ask("cmd=init pmi_version=1 pmi_subversion=1")
"""
LIBRARY = f"""
import ctypes, os, signal, sys
signal.alarm({PATIENCE_S})
pmi = ctypes.CDLL("libpmi2.so.0")
number = [ctypes.c_int() for _ in range(4)]
assert pmi.PMI2_Init(*map(ctypes.byref, number)) == 0
_, size, rank, _ = [each.value for each in number]
def text(): return ctypes.create_string_buffer(1024)
def get(key):
    value, length = text(), ctypes.c_int()
    pmi.PMI2_KVS_Get(None, -1, key, value, 1024, ctypes.byref(length))
    return value.value.decode()
pmi.PMI2_KVS_Put(b"from%d" % rank, b"a;b=%d" % rank)
pmi.PMI2_KVS_Fence()
value, flag = text(), ctypes.c_int()
pmi.PMI2_Info_GetJobAttr(b"PMI_process_mapping", value, 1024, ctypes.byref(flag))
mapping = value.value.decode()
if rank == 1:
    pmi.PMI2_Info_PutNodeAttr(b"shared", b"memory")
pmi.PMI2_Info_GetNodeAttr(b"shared", value, 1024, ctypes.byref(flag), 1)
job = text()
pmi.PMI2_Job_GetId(job, 1024)
print(rank, size, get(b"from%d" % (1 - rank)), mapping, value.value.decode(), job.value.decode())
print("published" if pmi.PMI2_Nameserv_publish(b"name", None, b"port") == 0 else "refused", flush=True)
if len(sys.argv) > 1 and rank == 1:
    pmi.PMI2_Abort(1, b"so be it")
if len(sys.argv) > 1:
    signal.pause()
pmi.PMI2_Finalize()
"""


def start(agent: AgentProcess, program: str, *arguments: str, tasks: int = 1, nodes: int = 1) -> int:
    """Launch a job, start a step with the given number of ranks in it, and return the job's id."""
    job = agent.new_id()
    agent.launch(job, "exec sleep 600")
    agent.link.report(job, "running")
    agent.link.send(
        wire.StepLaunch(
            job_id=job,
            restarts=0,
            step=0,
            env={"PATH": os.environ["PATH"]},
            cwd=str(agent.folder.parent),
            argv=[sys.executable, "-c", program, *arguments],
            tasks=[wire.StepTask(rank=rank, env={"SLURM_PROCID": str(rank)}) for rank in range(tasks)],
            pmi=wire.Pmi(name="7.0.0", size=tasks * nodes, nodes=nodes, mapping="(vector,(0,1,2))"),
        )
    )
    return job


def ended(agent: AgentProcess, job: int) -> wire.StepReport:
    return agent.link.expect(
        wire.StepReport,
        lambda report: (report.job_id, report.phase) == (job, "exited"),
    )


def output_of_ranks(agent: AgentProcess, program: str, *, tasks: int = 1) -> list[str]:
    """Return the output of rank 0 after all ranks have succeeded."""
    job = start(agent, START + program, tasks=tasks)
    found = ended(agent, job)
    errors = agent.text(job, "steps/0/0/err")
    assert [end.code for end in found.ends] == [0] * tasks, errors
    return agent.text(job, "steps/0/0/out").splitlines()


def test_a_pmi_2_library_finds_the_other_rank(agent: AgentProcess) -> None:
    job = start(agent, LIBRARY, tasks=2)
    found = ended(agent, job)
    assert [end.code for end in found.ends] == [0, 0], agent.text(job, "steps/0/0/err")
    for rank in (0, 1):
        text = f"{rank} 2 a;b={1 - rank} (vector,(0,1,2)) memory 7.0.0"
        assert agent.text(job, f"steps/0/{rank}/out").splitlines() == [text, "refused"]


def test_a_pmi_2_abort_ends_the_step(agent: AgentProcess) -> None:
    job = start(agent, LIBRARY, "abort", tasks=2)
    found = agent.link.expect(wire.StepReport, lambda report: report.abort is not None)
    assert found.abort is not None and (found.abort.rank, found.job_id) == (1, job)
    assert found.message == "rank 1 called MPI_Abort: so be it"


def test_an_abort_ends_the_step_with_any_exit_code(agent: AgentProcess) -> None:
    for text, status in (("3", 3), ("-1", 255), ("--5", 1), ("x", 1), ("9" * 900, 1)):
        job = start(agent, START + f"ask('cmd=abort exitcode={text}')")
        found = agent.link.expect(
            wire.StepReport,
            lambda report, job=job: report.job_id == job and report.abort is not None,
        )
        assert found.abort is not None and found.abort.code == status, text


def test_pmi_1_commands_have_the_expected_answers(agent: AgentProcess) -> None:
    program = """
print(ask("cmd=get_maxes"))
print(ask("cmd=get_appnum"))
print(ask("cmd=get_universe_size"))
print(ask("cmd=get_my_kvsname"))
print(ask("cmd=put kvsname=7.0.0 key=mine value=some words"))
print(ask("cmd=barrier_in"))
print(ask("cmd=get kvsname=7.0.0 key=mine"))
print(ask("cmd=get kvsname=7.0.0 key=theirs"))
print(ask("cmd=publish_name service=x port=y"))
print(ask("mcmd=spawn\\nnprocs=1\\nendcmd"))
print(ask("cmd=finalize"))
"""
    assert output_of_ranks(agent, program) == [
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
        "cmd=appnum appnum=0",
        "cmd=universe_size size=1",
        "cmd=my_kvsname kvsname=7.0.0",
        "cmd=put_result rc=0 msg=success",
        "cmd=barrier_out",
        "cmd=get_result rc=0 msg=success value=some words",
        "cmd=get_result rc=-1 msg=key_not_found value=unknown",
        "cmd=publish_result rc=-1 msg=names_cannot_be_published_here",
        "cmd=spawn_result rc=-1 msg=no_more_processes_can_be_started_here",
        "cmd=finalize_ack",
    ]


def test_a_key_or_a_value_that_is_too_long_is_refused(agent: AgentProcess) -> None:
    program = """
print(ask("cmd=put key=" + "k" * 65 + " value=v").split()[1])
print(ask("cmd=put key=k value=" + "v" * 1025).split()[1])
print(ask("cmd=put key=" + "k" * 64 + " value=" + "v" * 1024).split()[1])
ask("cmd=finalize")
"""
    assert output_of_ranks(agent, program) == ["rc=-1", "rc=-1", "rc=0"]


def test_the_data_of_ranks_between_two_fences_is_limited(agent: AgentProcess) -> None:
    program = """
value, number = "v" * 1024, 0
while "rc=0" in ask(f"cmd=put key={number} value={value}"): number += 1
print(number * 1024 // 2 ** 20)
ask("cmd=barrier_in")
print(ask("cmd=put key=k value=v").split()[1])
ask("cmd=finalize")
"""
    assert output_of_ranks(agent, program) == ["3", "rc=0"]


def test_several_programs_of_a_task_can_use_pmi_one_after_the_other(agent: AgentProcess) -> None:
    program = """
ask("cmd=finalize")
print(ask("cmd=init pmi_version=2 pmi_subversion=0"))
os.write(line, b"    13cmd=finalize;")
print(os.read(line, 100))
print(ask("cmd=init pmi_version=1 pmi_subversion=1"))
ask("cmd=finalize")
"""
    assert output_of_ranks(agent, program) == [
        "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0",
        repr(b"    31cmd=finalize-response;rc=0;".replace(b"    31", b"    27")),
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("b'cmd=nonsense\\n'", "the command 'nonsense' is unknown"),
        ("b'nonsense\\n'", "is not NAME=VALUE"),
        ("b'x' * 70000", "a message is too long"),
        ("b'cmd=init pmi_version=2\\n999999'", "a message has no valid length"),
        ("b'cmd=init pmi_version=2\\n     x'", "a message has no valid length"),
        ("b'cmd=get_appnum\\n' * 400000", "does not read the answers"),
    ],
)
def test_invalid_pmi_messages_end_only_the_step(agent: AgentProcess, text: str, why: str) -> None:
    program = f"""
try:
    data = {text}
    while data: data = data[os.write(line, data):]
except (BrokenPipeError, ConnectionResetError): pass
signal.pause()
"""
    job = start(agent, START + program)
    found = agent.link.expect(wire.StepReport, lambda report: report.abort is not None)
    assert why in found.message
    assert found.job_id == job
    assert output_of_ranks(agent, 'ask("cmd=finalize"); print("well")') == ["well"]


def test_a_rank_that_ends_without_finalize_is_reported(agent: AgentProcess) -> None:
    job = start(agent, START + "raise SystemExit(4)")
    found = ended(agent, job)
    assert found.abort == wire.TaskEnded(rank=0, code=4)
    assert "rank 0 exited with code 4 before MPI_Finalize" in found.message
    assert ended(agent, start(agent, "raise SystemExit(5)")).abort is None


def test_ranks_of_several_nodes_wait_for_the_controller(agent: AgentProcess) -> None:
    program = """
print(ask(f"cmd=put key=k{rank} value=v{rank}"))
ask("cmd=barrier_in")
print(ask("cmd=get key=far"))
ask("cmd=barrier_in")
ask("cmd=finalize")
"""
    job = start(agent, START + program, tasks=2, nodes=2)
    fence = agent.link.expect(wire.StepFence)
    assert (fence.job_id, fence.number, fence.last) == (job, 0, True)
    assert fence.values == {"k0": "v0", "k1": "v1"}
    agent.connect()  # a controller that reconnects gets the pending fence again
    assert agent.link.expect(wire.StepFence) == fence
    fields: dict[str, Any] = {"job_id": job, "restarts": 0, "step": 0}
    agent.link.send(wire.StepFenced(number=0, values={"far": "away"}, last=False, **fields))
    agent.link.send(wire.StepFenced(number=0, values=fence.values, last=True, **fields))
    agent.link.expect(wire.StepFence, lambda fence: fence.number == 1)
    agent.link.send(wire.StepFenced(number=0, values={"far": "changed"}, last=True, **fields))  # a duplicate
    agent.link.send(wire.StepFenced(number=1, values={}, last=True, **fields))
    assert [end.code for end in ended(agent, job).ends] == [0, 0]
    assert agent.text(job, "steps/0/0/out").endswith("value=away")


# ---- an agent that is killed while ranks run


WAITS = """
import pathlib, time
def wait_for(name):
    while not pathlib.Path(name).exists(): time.sleep(0.02)
"""


def begin_anew(agent: AgentProcess) -> None:
    agent.kill()
    agent.start()


def test_ranks_continue_after_an_agent_restart(agent: AgentProcess, short_tmp: Path) -> None:
    """One rank waits in a fence and the other has not reached it. Values put before the kill are still
    known.
    """
    program = f"""{WAITS}
ask(f"cmd=put key=k{{rank}} value=v{{rank}}")
if rank == 1:
    pathlib.Path("{short_tmp}/put").touch()
    wait_for("{short_tmp}/gate")
print(ask("cmd=barrier_in"))
print(ask(f"cmd=get key=k{{1 - rank}}"))
print(ask("cmd=finalize"))
"""
    job = start(agent, START + program, tasks=2)
    eventually((short_tmp / "put").exists, what="the rank has put its key")
    begin_anew(agent)
    (short_tmp / "gate").touch()
    assert [end.code for end in ended(agent, job).ends] == [0, 0]
    for rank in (0, 1):
        text = ["cmd=barrier_out", f"cmd=get_result rc=0 msg=success value=v{1 - rank}", "cmd=finalize_ack"]
        assert agent.text(job, f"steps/0/{rank}/out").splitlines() == text


def test_a_pmi_2_library_continues_after_an_agent_restart_with_its_data(
    agent: AgentProcess, short_tmp: Path
) -> None:
    middle = (
        f"{WAITS}\npathlib.Path('{short_tmp}/fenced').touch()\nwait_for('{short_tmp}/gate')\nvalue, flag ="
    )
    job = start(agent, LIBRARY.replace("value, flag =", middle), tasks=2)
    eventually((short_tmp / "fenced").exists, what="the ranks have passed the fence")
    begin_anew(agent)
    (short_tmp / "gate").touch()
    assert [end.code for end in ended(agent, job).ends] == [0, 0], agent.text(job, "steps/0/0/err")
    for rank in (0, 1):
        text = f"{rank} 2 a;b={1 - rank} (vector,(0,1,2)) memory 7.0.0"
        assert agent.text(job, f"steps/0/{rank}/out").splitlines() == [text, "refused"]


def test_a_fence_of_several_nodes_is_reported_again_after_a_restart(agent: AgentProcess) -> None:
    program = """
ask(f"cmd=put key=k{rank} value=v{rank}")
ask("cmd=barrier_in")
print(ask("cmd=get key=far"))
ask("cmd=finalize")
"""
    job = start(agent, START + program, tasks=2, nodes=2)
    fence = agent.link.expect(wire.StepFence)
    begin_anew(agent)
    assert agent.link.expect(wire.StepFence) == fence
    agent.link.send(
        wire.StepFenced(
            job_id=job, restarts=0, step=0, number=0, values={**fence.values, "far": "away"}, last=True
        )
    )
    assert [end.code for end in ended(agent, job).ends] == [0, 0]
    assert agent.text(job, "steps/0/1/out").endswith("value=away")


def test_a_rank_that_dies_without_an_agent_ends_the_step(agent: AgentProcess) -> None:
    program = 'print("here", flush=True)\nask("cmd=barrier_in") if rank == 0 else signal.pause()'
    job = start(agent, START + program, tasks=2)
    eventually(lambda: agent.text(job, "steps/0/1/out") == "here", what="the job has started")
    (pid,) = [pid for pid in agent.processes(job) if rank_of(pid) == b"1" and is_python(pid)]
    agent.kill()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: agent.text(job, "steps/0/1/rc").endswith("end"), what="the end is recorded")
    (found,) = agent.start().steps
    assert found.abort == wire.TaskEnded(rank=1, code=137)


def test_ranks_with_lost_connections_end_with_a_message(agent: AgentProcess) -> None:
    """The supervisor, which keeps the connections of the ranks, is killed before the agent."""
    start(agent, START + 'ask("cmd=barrier_in")\nsignal.pause()', tasks=2, nodes=2)
    agent.link.expect(wire.StepFence)
    os.kill(agent.supervisor(), signal.SIGKILL)
    agent.kill()
    (found,) = agent.start().steps
    assert found.abort is not None and "PMI connections of the ranks were lost" in found.message


def rank_of(pid: int) -> bytes:
    text = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((word.partition(b"=")[2] for word in text if word.startswith(b"SLURM_PROCID=")), b"")


def is_python(pid: int) -> bool:
    return sys.executable.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:1]
