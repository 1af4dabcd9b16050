"""Terminals of jobs over a real Slurm survive clients, the gateway and slurmctld."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Client, Rig, nonce
from tests.integration.engines.slurm_rig import OFTEN, commands_of, slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import temporary_home
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.engine import slurm_engine
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import Engine
from warpdeck.ports.engine_streams import ByteStream
from warpdeck.protocol import requests as ask

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
ENV = {"PATH": "/usr/bin:/bin", "PS1": "$ "}
USER = Caller(Principal(user=pwd.getpwuid(os.geteuid()).pw_name, uid=os.geteuid()))
OTHER_GATEWAY = """
import asyncio, sys
from pathlib import Path
from tests.integration.engines.rig import Client
from tests.integration.engines.test_slurm_sessions import attached, gateway_in, typed

async def main(folder, job):
    async with gateway_in(Path(folder)) as engine:
        client = Client()
        await typed(client, await attached(engine, job, client), "X=4; echo seen-$((X+1))", b"seen-5")
        print("attached", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@contextlib.asynccontextmanager
async def gateway_in(folder: Path) -> AsyncIterator[Engine]:
    """Open a gateway with the programs and the state below a folder."""
    commands = SlurmCommands({**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
    settings = SlurmSettings(
        requests_per_minute=OFTEN, idle_requests_per_minute=OFTEN, folder=f"{folder}/shared"
    )
    async with slurm_engine(Paths(f"{folder}/home"), settings, clock=time.time, commands=commands) as engine:
        yield engine


async def session(engine: Engine, folder: Path, *words: str) -> str:
    """Open a session with a shell, and return its job."""
    message = ask.Session(words=("--pty", *words, "/bin/sh"), env=ENV, cwd=str(folder), nonce=nonce())
    return str((await engine.sessions.open(USER, message)).job_id)


async def attached(
    engine: Engine, job: str, client: Client, *, offset: int = 0, watch: bool = False
) -> ByteStream:
    """Join the terminal of a job."""
    message = ask.Attach(job=job, offset=offset, watch=watch)
    stream = await (await engine.output.terminal(USER, message, client.progress))(client)
    await client.until(lambda: client.log is not None)
    return stream


async def typed(client: Client, stream: ByteStream, line: str, expected: bytes) -> None:
    """Type a line, and wait for its output. The output must differ from the line."""
    await stream.write(f"{line}\n".encode())
    await client.until(lambda: expected in client.received)


async def exit_code(client: Client) -> int:
    """Return the exit code with which the stream ends."""
    await client.until(lambda: client.end is not None)
    assert client.end is not None and client.end.exit is not None
    return client.end.exit.code


async def scancel(slurm: RealSlurm, job: str) -> None:
    await asyncio.to_thread(slurm.ok, "scancel", job)


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


async def test_several_clients_share_a_terminal_and_watchers_cannot_type(rig: Rig, slurm: RealSlurm) -> None:
    job = await session(rig.engine, rig.folder)
    first, second, watcher = Client(), Client(), Client()
    stream = await attached(rig.engine, job, first)
    await typed(first, stream, "echo one-$((1+1))", b"one-2")
    other = await attached(rig.engine, job, second)
    await second.until(lambda: b"one-2" in second.received)
    watching = await attached(rig.engine, job, watcher, watch=True)
    await watching.write(b"exit 9\n")
    await typed(second, other, "echo two-$((1+2))", b"two-3")
    await first.until(lambda: b"two-3" in first.received)
    await watcher.until(lambda: b"two-3" in watcher.received)
    assert watcher.log is not None and b"exit 9" not in first.received
    await other.write(b"exit 4\n")
    assert [await exit_code(client) for client in (first, second, watcher)] == [4, 4, 4]


async def test_a_client_that_was_cut_off_continues_at_its_offset(rig: Rig, slurm: RealSlurm) -> None:
    job = await session(rig.engine, rig.folder)
    client, again = Client(), Client()
    stream = await attached(rig.engine, job, client)
    await typed(client, stream, "echo one-$((1+1))", b"one-2\r\n")
    await stream.close()
    seen = len(client.received)
    await attached(rig.engine, job, again, offset=seen)
    assert again.log is not None and again.log.offset == seen and b"one-2" not in again.received
    await scancel(slurm, job)
    await again.until(lambda: again.end is not None)


async def test_a_canceled_session_ends_at_once_and_keeps_its_last_screen(rig: Rig, slurm: RealSlurm) -> None:
    job, client, log = await session(rig.engine, rig.folder), Client(), Client()
    stream = await attached(rig.engine, job, client)
    await typed(client, stream, "echo one-$((1+1))", b"one-2")
    began = time.monotonic()
    await scancel(slurm, job)
    await client.until(lambda: client.end is not None)
    assert time.monotonic() - began < 20, "Slurm kills the processes after 30 s"
    assert client.end is not None and client.end.error == ""
    with pytest.raises(UserError) as refused:
        await rig.engine.output.terminal(USER, ask.Attach(job=job), client.progress)
    assert refused.value.code == ask.ENDED
    assert b"one-2" in await log.all(await rig.engine.output.log(USER, ask.Log(job=job), log.progress))


async def test_a_session_on_a_full_cluster_waits_and_tells_the_reason(rig: Rig, slurm: RealSlurm) -> None:
    first = (
        await asyncio.to_thread(slurm.ok, "sbatch", "--parsable", "-c", "16", "--wrap=sleep 600")
    ).strip()
    job, client = await session(rig.engine, rig.folder, "-c", "16"), Client()
    joining = asyncio.create_task(attached(rig.engine, job, client))
    await eventually_async(lambda: client.lines)
    assert client.lines[0].startswith("waiting: ")
    await scancel(slurm, first)
    stream = await joining
    await typed(client, stream, "echo one-$((1+1))", b"one-2")
    await scancel(slurm, job)


async def test_a_terminal_survives_a_killed_gateway(slurm: RealSlurm) -> None:
    with temporary_home() as home:
        folder = home.path.parent
        home.path.mkdir()
        commands_of(slurm, folder)
        async with gateway_in(folder) as engine:
            job = await session(engine, folder)
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OTHER_GATEWAY, str(folder), job), stdout=asyncio.subprocess.PIPE
        )
        assert other.stdout is not None
        async with asyncio.timeout(WAIT_S):
            assert await other.stdout.readline() == b"attached\n"
        other.send_signal(signal.SIGKILL)
        await other.wait()
        async with gateway_in(folder) as engine:
            client = Client()
            stream = await attached(engine, job, client)
            await client.until(lambda: b"seen-5" in client.received)
            await typed(client, stream, "echo again-$((X+2))", b"again-6")
            await scancel(slurm, job)
            await client.until(lambda: client.end is not None)


async def test_bytes_flow_while_slurmctld_is_down() -> None:
    with small_slurm() as slurm, temporary_home() as home:
        folder = home.path.parent
        home.path.mkdir()
        commands_of(slurm, folder)
        async with gateway_in(folder) as engine:
            client = Client()
            job = await session(engine, folder)
            stream = await attached(engine, job, client)
            pid = (slurm.folder / "slurmctld.pid").read_text().strip()
            await asyncio.to_thread(slurm.ok, "kill", "-9", pid)
            await typed(client, stream, "echo down-$((1+1))", b"down-2")
            again, tunnel = Client(), Client()
            await typed(again, await attached(engine, job, again), "echo joined-$((1+2))", b"joined-3")
            source = await engine.output.tunnel(
                USER, ask.Tunnel(job=job, argv=("echo", "hi")), tunnel.progress
            )
            assert await tunnel.all(source) == b"hi\n"
        async with gateway_in(folder) as engine:  # It has no connection to the job yet.
            with pytest.raises(UserError, match="Unable to contact slurm controller") as refused:
                await attached(engine, job, Client())
            assert refused.value.code == ask.LOST


async def test_a_tunnel_leads_to_the_node_that_is_named() -> None:
    with RealSlurm() as slurm, temporary_home() as home:
        folder = home.path.parent
        home.path.mkdir()
        commands_of(slurm, folder)
        async with gateway_in(folder) as engine:
            line = ("sbatch", "--parsable", "-N2", "-n2", "--wrap=sleep 600")
            job = (await asyncio.to_thread(slurm.ok, *line)).strip()
            rig = Rig(engine=engine, user=USER, other=USER, admin=USER, node="n1", folder=folder)
            await rig.until(job, lambda row: row.state == "RUNNING")
            for node in ("n1", "n2"):
                client = Client()
                message = ask.Tunnel(job=job, node=node, argv=("printenv", "SLURMD_NODENAME"))
                source = await engine.output.tunnel(USER, message, client.progress)
                assert await client.all(source) == f"{node}\n".encode()
            with pytest.raises(UserError, match="does not run on n4"):
                await engine.output.tunnel(USER, ask.Tunnel(job=job, node="n4", port=1), Client().progress)
