"""srun and salloc of a gateway run Slurm's own commands, and lose neither bytes nor allocations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Client, Keyboard, Rig
from tests.integration.engines.slurm_rig import commands_of, slurm_rig, small_slurm
from tests.integration.engines.test_slurm_sessions import USER, gateway_in
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import temporary_home
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.processes.steps import SlurmSteps
from warpdeck.ports.engine_streams import CommandText, EndedStep, RunningStep
from warpdeck.protocol import requests as ask
from warpdeck_agent.wire.steps import ERR, EVERY_TASK, OUT, TASK_HEADER

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
ENV = {"PATH": "/usr/bin:/bin"}
GATEWAY_WITH_AN_ALLOCATION = """
import asyncio, sys
from pathlib import Path
from tests.integration.engines.rig import Client
from tests.integration.engines.test_slurm_sessions import USER, gateway_in
from tests.integration.engines.test_slurm_steps import held_by_a_shell
from warpdeck.ports.caller import Caller, LocalClient

async def main(folder, client):
    async with gateway_in(Path(folder)) as engine:
        caller = Caller(USER.who, client=LocalClient(pid=int(client)))
        held = await engine.steps.salloc(caller, held_by_a_shell(folder), Client().progress)
        print(held.answer["job_id"], flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""

GATEWAY_WITH_A_STEP = """
import asyncio, sys
from pathlib import Path
from tests.integration.engines.rig import Client
from tests.integration.engines.test_slurm_sessions import USER, gateway_in
from tests.integration.engines.test_slurm_steps import typing_step
from warpdeck.protocol import requests as ask

async def main(folder):
    async with gateway_in(Path(folder)) as engine:
        client = Client()
        step = await engine.steps.srun(USER, typing_step(folder), client.progress)
        running = asyncio.create_task(step.run(client))
        await client.until(lambda: client.chunks)
        print(step.answer["job_id"], step.answer["step"], flush=True)
        await running

asyncio.run(main(*sys.argv[1:]))
"""


def typing_step(folder: str) -> ask.Srun:
    """Return the request of a step that prints, reads two lines, and prints again."""
    script = "echo begun; read line; echo got-$line; exit 6"
    return ask.Srun(words=("sh", "-c", script), env=ENV, cwd=folder, has_input=True, nonce="7" * 32)


def held_by_a_shell(folder: str) -> ask.Salloc:
    """Return the request of an allocation for a shell."""
    return ask.Salloc(words=("--job-name=kept", "sh"), env=ENV, cwd=folder, nonce="8" * 32)


@contextlib.asynccontextmanager
async def killed_gateway(
    slurm: RealSlurm, program: str = GATEWAY_WITH_A_STEP, *words: str
) -> AsyncIterator[tuple[Path, str]]:
    """Yield a folder in which a gateway was killed, and the step or the job of its client."""
    with temporary_home() as home:
        folder = home.path.parent
        home.path.mkdir()
        commands_of(slurm, folder)
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(folder), *words), stdout=asyncio.subprocess.PIPE
        )
        assert other.stdout is not None
        async with asyncio.timeout(WAIT_S):
            step = ".".join((await other.stdout.readline()).decode().split())
        os.kill(other.pid, signal.SIGKILL)
        await other.wait()
        yield folder, step


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


async def srun(rig: Rig, *words: str, client: Client, has_input: bool = False) -> RunningStep:
    message = ask.Srun(words=words, env=ENV, cwd=str(rig.folder), has_input=has_input)
    step = await rig.engine.steps.srun(rig.user, message, client.progress)
    assert not isinstance(step, (CommandText, EndedStep))
    return step


def printed(client: Client, channel: int, *, begin: int = 0) -> bytes:
    """Return the bytes of a channel from this offset on, and check their offsets."""
    found = b""
    for chunk in client.chunks:
        rank, number, offset = TASK_HEADER.unpack_from(chunk)
        if number == channel:
            assert (rank, offset) == (0, begin + len(found))
            found += chunk[TASK_HEADER.size :]
    return found


def ended_with(client: Client) -> tuple[int, int]:
    assert client.end is not None and client.end.exit is not None
    return client.end.exit.code, client.end.exit.signal


async def test_the_output_of_several_tasks_arrives_as_srun_sorts_it(rig: Rig) -> None:
    client = Client()
    step = await srun(rig, "-n2", "--label", "sh", "-c", "echo $SLURM_PROCID; exit 4", client=client)
    await step.run(client)
    assert sorted(printed(client, OUT).splitlines()) == [b"0: 0", b"1: 1"]
    assert b"srun: error: n1: tasks 0-1: Exited with exit code 4" in printed(client, ERR)
    assert ended_with(client) == (4, 0)


async def test_binary_input_and_output_pass_unchanged(rig: Rig) -> None:
    client, data = Client(), bytes(range(256)) * 4000
    step = await srun(rig, "cat", client=client, has_input=True)
    running = asyncio.create_task(step.run(client))
    for start in range(0, len(data), 32_000):
        step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, start) + data[start : start + 32_000])
    step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, len(data)))
    await running
    assert printed(client, OUT) == data and client.acknowledged > len(data)


async def test_too_much_input_is_refused(rig: Rig) -> None:
    client = Client()
    step = await srun(rig, "sleep", "600", client=client, has_input=True)
    with pytest.raises(UserError) as refused:
        for _ in range(1000):
            step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, 0) + b"x" * 32_000)
    assert refused.value.code == "window"
    step.left()
    await rig.reached(str(step.answer["job_id"]))


async def test_signals_reach_the_tasks(rig: Rig) -> None:
    client = Client()
    script = "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.05; done"
    step = await srun(rig, "sh", "-c", script, client=client)
    running = asyncio.create_task(step.run(client))
    await client.until(lambda: printed(client, OUT) == b"ready\n")
    await step.order(ask.StepOrder(stream=1, what="status"))
    assert client.notes == [f"StepId={step.answer['job_id']}.0: running"]
    await step.order(ask.StepOrder(stream=1, what="signal", signal=signal.SIGUSR1))
    await running
    assert printed(client, OUT) == b"ready\ncaught\n" and ended_with(client) == (7, 0)


async def test_an_order_to_end_and_a_client_that_leaves_end_the_step(rig: Rig) -> None:
    client = Client()
    step = await srun(rig, "sleep", "600", client=client)
    running = asyncio.create_task(step.run(client))
    await step.order(ask.StepOrder(stream=1, what="end"))
    await running
    assert ended_with(client) != (0, 0)
    step = await srun(rig, "sleep", "600", client=Client())
    step.left()
    await rig.reached(str(step.answer["job_id"]))


async def test_a_waiting_srun_tells_why_and_ends_when_its_client_leaves(rig: Rig, slurm: RealSlurm) -> None:
    full = await asyncio.to_thread(slurm.ok, "sbatch", "--parsable", "-c", "16", "--wrap=sleep 600")
    client = Client()
    waiting = asyncio.create_task(srun(rig, "-c", "16", "-J", "waits", "true", client=client))
    await eventually_async(lambda: any("queued and waiting" in line for line in client.lines))
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await asyncio.to_thread(slurm.ok, "squeue", "-h", "-t", "PD", "-n", "waits")) == ""
    await asyncio.to_thread(slurm.ok, "scancel", full.strip())


async def test_text_of_srun_itself_is_the_answer(rig: Rig) -> None:
    message = ask.Srun(words=("--version",), env=ENV, cwd=str(rig.folder))
    found = await rig.engine.steps.srun(rig.user, message, Client().progress)
    assert isinstance(found, CommandText) and found.text.startswith("slurm") and found.code == 0


async def test_others_get_neither_steps_nor_allocations_nor_sessions(rig: Rig) -> None:
    steps, progress = rig.engine.steps, Client().progress
    with pytest.raises(UserError, match="its own user only"):
        await steps.srun(rig.other, ask.Srun(words=("true",), cwd="/"), progress)
    with pytest.raises(UserError, match="its own user only"):
        await steps.salloc(rig.other, ask.Salloc(words=("true",), cwd="/"), progress)
    with pytest.raises(UserError, match="its own user only"):
        await rig.engine.sessions.run(rig.other, ask.Run(words=("true",), errors=2, cwd="/"))
    with pytest.raises(UserError, match="its own user only"):
        await rig.engine.sessions.open(rig.other, ask.Session(words=("--pty", "sh"), cwd="/"))


async def test_a_step_of_an_allocation_has_a_terminal_of_the_users_size(rig: Rig) -> None:
    held = await rig.engine.steps.salloc(
        rig.user, ask.Salloc(words=("sh",), env=ENV, cwd=str(rig.folder)), Client().progress
    )
    job = held.answer["job_id"]
    client = Client()
    words = (f"--jobid={job}", "--pty", "sh")
    message = ask.Srun(words=words, env=ENV, cwd=str(rig.folder), has_input=True, rows=31, cols=97)
    step = await rig.engine.steps.srun(rig.user, message, client.progress)
    assert not isinstance(step, (CommandText, EndedStep))
    assert step.answer["pty"] and step.answer["job_id"] == job
    running = asyncio.create_task(step.run(client))
    keyboard = Keyboard(step)
    keyboard.resize(31, 97)
    keyboard.type("tty; echo size-$(stty size)\n")
    await client.until(lambda: b"size-31 97" in printed(client, OUT))
    assert b"/dev/pts/" in printed(client, OUT)
    keyboard.resize(40, 100)
    # The new size reaches the node a moment later.
    keyboard.type("until [ \"$(stty size)\" = '40 100' ]; do sleep 0.05; done; echo resized-$((1+1))\n")
    await client.until(lambda: b"resized-2" in printed(client, OUT))
    keyboard.type("exit 5\n")
    await running
    assert ended_with(client) == (5, 0)
    await held.release(0)


async def test_a_client_that_leaves_a_terminal_ends_its_step(rig: Rig) -> None:
    client = Client()
    step = await srun(rig, "--pty", "sleep", "600", client=client, has_input=True)
    running = asyncio.create_task(step.run(client))
    step.left()
    running.cancel()
    await rig.reached(str(step.answer["job_id"]))


async def test_errors_of_an_srun_with_a_terminal_are_told(rig: Rig) -> None:
    with pytest.raises(UserError) as refused:
        await srun(rig, "--pty", "--partition=none", "sh", client=Client())
    assert "invalid partition specified" in refused.value.message


async def test_the_prolog_of_the_user_runs_and_ours_does_not_replace_it(rig: Rig) -> None:
    prolog = rig.folder / "prolog"
    prolog.write_text("#!/bin/sh\necho ran >ran\n")
    prolog.chmod(0o755)
    client = Client()
    step = await srun(rig, f"--prolog={prolog}", "echo", "hello", client=client)
    await step.run(client)
    assert printed(client, OUT) == b"hello\n" and (rig.folder / "ran").read_text() == "ran\n"


async def test_an_allocation_has_the_environment_of_salloc(rig: Rig) -> None:
    words = ("-n", "2", "--gres=gpu:1", "--quiet", "--", "sh")
    message = ask.Salloc(words=words, env=ENV, cwd=str(rig.folder))
    client = Client()
    held = await rig.engine.steps.salloc(rig.user, message, client.progress)
    assert held.answer["command"] == ["sh"] and held.answer["nodes"] == [rig.node] and held.answer["quiet"]
    assert held.answer["env"]["SLURM_NTASKS"] == "2"
    revoked = asyncio.ensure_future(held.revoked())
    await rig.cancel(str(held.answer["job_id"]))
    async with asyncio.timeout(WAIT_S):
        assert "has been revoked" in await revoked


async def test_an_allocation_without_a_shell_stays(rig: Rig) -> None:
    message = ask.Salloc(words=("--no-shell",), env=ENV, cwd=str(rig.folder))
    held = await rig.engine.steps.salloc(rig.user, message, Client().progress)
    job = str(held.answer["job_id"])
    assert not held.is_held
    await rig.until(job, lambda row: row.state == "RUNNING")
    await rig.cancel(job)


@contextlib.asynccontextmanager
async def client_process() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in the role of a client."""
    process = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def state_in_slurm(slurm: RealSlurm, job: str) -> str:
    """Return Slurm's own name of the state of a job."""
    return (await asyncio.to_thread(slurm.ok, "squeue", "-h", "-t", "all", "-j", job, "-o", "%T")).strip()


async def test_an_allocation_survives_a_killed_gateway_until_its_client_gives_it_back(
    slurm: RealSlurm,
) -> None:
    async with client_process() as client:
        kept = killed_gateway(slurm, GATEWAY_WITH_AN_ALLOCATION, str(client.pid))
        async with kept as (folder, job):
            async with gateway_in(folder) as engine:
                assert isinstance(engine.steps, SlurmSteps)
                engine.steps.come_back_s = 0.0
                engine.steps.start()
                await eventually_async(lambda: slurm.ok("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING\n")
                attach = ask.SallocAttach(job=int(job))
                held = await engine.steps.salloc_attach(USER, attach)
                engine.steps.stop()
                held.left()  # The second gateway stops.
            assert await state_in_slurm(slurm, job) == "RUNNING"
            async with gateway_in(folder) as engine:
                held = await engine.steps.salloc_attach(USER, attach)
                inside = await asyncio.to_thread(slurm.ok, "srun", f"--jobid={job}", "echo", "inside")
                assert inside == "inside\n"
                revoked = asyncio.ensure_future(held.revoked())
                await held.release(3)
                async with asyncio.timeout(WAIT_S):
                    assert f"Job allocation {job} has been revoked" in await revoked
                assert await state_in_slurm(slurm, job) == "FAILED"
                await eventually_async(lambda: not list((folder / "home" / "steps").iterdir()))
                with pytest.raises(UserError, match="no longer exists"):
                    await engine.steps.salloc_attach(USER, attach)


async def test_a_repeated_request_joins_the_allocation_of_a_killed_gateway(slurm: RealSlurm) -> None:
    async with client_process() as client:
        kept = killed_gateway(slurm, GATEWAY_WITH_AN_ALLOCATION, str(client.pid))
        async with kept as (folder, job), gateway_in(folder) as engine:
            held = await engine.steps.salloc(USER, held_by_a_shell(str(folder)), Client().progress)
            assert str(held.answer["job_id"]) == job and held.answer["env"]["SLURM_JOB_ID"] == job
            listed = await asyncio.to_thread(slurm.ok, "squeue", "-h", "-n", "kept", "-o", "%i")
            assert listed.split() == [job]
            held.left()
            await eventually_async(lambda: slurm.ok("squeue", "-h", "-j", job, "-t", "R") == "")


async def test_an_allocation_ends_without_a_gateway_when_its_client_has_ended(slurm: RealSlurm) -> None:
    async with client_process() as client:
        kept = killed_gateway(slurm, GATEWAY_WITH_AN_ALLOCATION, str(client.pid))
        async with kept as (folder, job):
            assert await state_in_slurm(slurm, job) == "RUNNING"
            client.kill()
            await client.wait()
            await eventually_async(lambda: slurm.ok("squeue", "-h", "-j", job, "-t", "R") == "")
            await eventually_async(lambda: not list((folder / "home" / "steps").iterdir()))


async def test_a_job_that_is_cancelled_while_no_gateway_runs_is_revoked_by_the_next_one(
    slurm: RealSlurm,
) -> None:
    async with client_process() as client:
        kept = killed_gateway(slurm, GATEWAY_WITH_AN_ALLOCATION, str(client.pid))
        async with kept as (folder, job):
            await asyncio.to_thread(slurm.ok, "scancel", job)
            async with gateway_in(folder) as engine:
                held = await engine.steps.salloc_attach(USER, ask.SallocAttach(job=int(job)))
                async with asyncio.timeout(WAIT_S):
                    assert f"Job allocation {job} has been revoked" in await held.revoked()


async def test_an_allocation_ends_with_its_killed_keeper(rig: Rig) -> None:
    held = await rig.engine.steps.salloc(rig.user, held_by_a_shell(str(rig.folder)), Client().progress)
    assert isinstance(rig.engine.steps, SlurmSteps)
    folder = rig.engine.steps.kept.folder_of(f"{held.answer['job_id']}.allocation")
    keeper = int(await asyncio.to_thread(subprocess.check_output, ["pgrep", "-f", folder]))
    os.kill(keeper, signal.SIGKILL)
    async with asyncio.timeout(WAIT_S):
        assert "has been revoked" in await held.revoked()
    await rig.reached(str(held.answer["job_id"]))


async def test_a_step_and_its_output_survive_a_killed_gateway(slurm: RealSlurm) -> None:
    async with killed_gateway(slurm) as (folder, label), gateway_in(folder) as engine:
        client = Client()
        step = await engine.steps.srun_attach(USER, ask.SrunAttach(step=label, have={"0.1": "2"}))
        running = asyncio.create_task(step.run(client))
        step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, 0) + b"typed\n")
        async with asyncio.timeout(WAIT_S):
            await running
        assert printed(client, OUT, begin=2) == b"gun\ngot-typed\n" and ended_with(client) == (6, 0)
        await eventually_async(lambda: not list((folder / "home" / "steps").iterdir()))
        with pytest.raises(UserError, match="no longer exists"):
            await engine.steps.srun_attach(USER, ask.SrunAttach(step=label))


async def test_a_repeated_request_joins_the_step_of_a_killed_gateway(slurm: RealSlurm) -> None:
    async with killed_gateway(slurm) as (folder, label), gateway_in(folder) as engine:
        client = Client()
        step = await engine.steps.srun(USER, typing_step(str(folder)), client.progress)
        assert not isinstance(step, (CommandText, EndedStep))
        assert f"{step.answer['job_id']}.{step.answer['step']}" == label
        running = asyncio.create_task(step.run(client))
        step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, 0) + b"typed\n")
        async with asyncio.timeout(WAIT_S):
            await running
        assert printed(client, OUT) == b"begun\ngot-typed\n"


async def test_a_step_whose_client_does_not_come_back_ends(slurm: RealSlurm) -> None:
    async with killed_gateway(slurm) as (folder, label), gateway_in(folder) as engine:
        assert isinstance(engine.steps, SlurmSteps)
        engine.steps.come_back_s = 0.0
        engine.steps.start()
        job = label.partition(".")[0]
        async with asyncio.timeout(WAIT_S):
            while "RUNNING" in await asyncio.to_thread(
                slurm.ok, "squeue", "-h", "-j", job, "-t", "all", "-o%T"
            ):
                assert job
        await eventually_async(lambda: not list((folder / "home" / "steps").iterdir()))


async def test_a_killed_keeper_is_told_and_its_request_does_not_run_twice(rig: Rig) -> None:
    client, request = Client(), typing_step(str(rig.folder))
    step = await rig.engine.steps.srun(rig.user, request, client.progress)
    assert not isinstance(step, (CommandText, EndedStep)) and isinstance(rig.engine.steps, SlurmSteps)
    running = asyncio.create_task(step.run(client))
    folder = rig.engine.steps.kept.folder_of(f"{step.answer['job_id']}.{step.answer['step']}")
    keeper = int(await asyncio.to_thread(subprocess.check_output, ["pgrep", "-f", folder]))
    os.kill(keeper, signal.SIGKILL)
    async with asyncio.timeout(WAIT_S):
        await running
    assert client.end is not None and "was killed" in client.end.error
    with pytest.raises(UserError, match="was killed"):
        await rig.engine.steps.srun(rig.user, request, client.progress)
    await rig.reached(str(step.answer["job_id"]))
