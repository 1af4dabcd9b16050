"""Logs of jobs over a real Slurm, also of jobs that were submitted with sbatch itself."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Client, Rig
from tests.integration.engines.slurm_rig import GRES, NODE, SITE, slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.waiting import eventually_async

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.output import output
from warpdeck.engines.slurm.output.log_paths import LogFinder
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.model import ExitStatus, Job, JobId, JobState, PtySize, Request
from warpdeck.ports.engine_streams import ByteStream, StreamEnd
from warpdeck.protocol import requests as ask

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


async def sbatch(rig: Rig, slurm: RealSlurm, script: str, *options: str) -> str:
    """Submit a job with sbatch itself, and return its number when the gateway knows it."""
    made = await asyncio.to_thread(
        slurm.run, ["sbatch", "--parsable", *options, f"--wrap={script}"], cwd=rig.folder
    )
    job = made.out.strip()
    assert made.rc == 0, made.err
    await rig.until(job.partition(";")[0], lambda row: True) if "--array" not in options else None
    return job


async def log(rig: Rig, job: str, **fields: Any) -> Client:
    client = Client()
    source = await rig.engine.output.log(rig.user, ask.Log(job=job, **fields), client.progress)
    await source(client)
    return client


async def ended(client: Client) -> bytes:
    await client.until(lambda: client.end is not None)
    return client.received


async def test_the_log_of_a_job_of_sbatch_is_found_by_its_pattern(rig: Rig, slurm: RealSlurm) -> None:
    job = await sbatch(
        rig, slurm, "echo here; echo there >&2", "-J", "a b", "--output=%x-%j-%s.txt", "-e", "e-%j"
    )
    await rig.reached(job)
    client = await log(rig, job)
    assert await ended(client) == b"here\n"
    assert client.log is not None and client.log.path == str(rig.folder / f"a b-{job}-batch.txt")
    assert await ended(await log(rig, job, channel="err")) == b"there\n"


async def test_the_log_of_a_long_path_is_found(rig: Rig, slurm: RealSlurm) -> None:
    folder = rig.folder / ("x" * 200)
    folder.mkdir()
    job = await sbatch(rig, slurm, "echo far", f"--output={folder}/out")
    await rig.reached(job)
    assert await ended(await log(rig, job)) == b"far\n"


async def test_the_logs_of_tasks_of_an_array_are_found(rig: Rig, slurm: RealSlurm) -> None:
    job = await sbatch(rig, slurm, "echo task $SLURM_ARRAY_TASK_ID", "--array", "1-2")
    await rig.until(f"{job}_2", lambda row: row.state == "COMPLETED")
    assert await ended(await log(rig, f"{job}_2")) == b"task 2\n"


async def test_binary_output_arrives_as_it_is(rig: Rig, slurm: RealSlurm) -> None:
    data = bytes(range(256)) * 40_000
    (rig.folder / "data").write_bytes(data)
    job = await sbatch(rig, slurm, "cat data data")
    client = await log(rig, job, follow=True)
    assert await ended(client) == data + data
    assert client.end is not None and client.end.exit is not None


async def test_a_file_that_is_replaced_or_truncated_is_followed(rig: Rig, slurm: RealSlurm) -> None:
    job = await sbatch(rig, slurm, "echo one; sleep 600", "--output=turned")
    path = rig.folder / "turned"
    client = await log(rig, job, follow=True)
    await client.until(lambda: client.received == b"one\n")
    fresh = rig.folder / "fresh"
    fresh.write_bytes(b"another file\n")
    fresh.rename(path)
    await client.until(lambda: client.received == b"one\nanother file\n")
    os.truncate(path, 0)
    path.write_bytes(b"two\n")
    await client.until(lambda: client.received == b"one\nanother file\ntwo\n")
    await asyncio.to_thread(slurm.ok, "scancel", job)
    await ended(client)


async def test_a_log_that_cannot_be_read_is_explained(rig: Rig, slurm: RealSlurm) -> None:
    job = await sbatch(rig, slurm, "true", "--output=removed")
    await rig.reached(job)
    (rig.folder / "removed").unlink()
    with pytest.raises(UserError, match="removed does not exist on this machine"):
        await log(rig, job)
    os.mkfifo(rig.folder / "removed")
    with pytest.raises(UserError, match="it is not a regular file"):
        await log(rig, job)
    null = await sbatch(rig, slurm, "true", "--output=/dev/null")
    await rig.reached(null)
    with pytest.raises(UserError, match="/dev/null: it is not a regular file"):
        await log(rig, null)


async def test_a_job_without_a_file_says_so(rig: Rig, slurm: RealSlurm) -> None:
    await asyncio.to_thread(slurm.ok, "srun", "-J", "bare", "true")
    [job] = (await asyncio.to_thread(slurm.ok, "squeue", "-h", "-t", "all", "-n", "bare", "-o", "%A")).split()
    await rig.until(job, lambda row: row.state == "COMPLETED")
    with pytest.raises(UserError, match="has no output file"):
        await log(rig, job)


async def test_a_tunnel_to_a_program_carries_bytes_both_ways(rig: Rig, slurm: RealSlurm) -> None:
    job = await sbatch(rig, slurm, "srun sleep 600", "--gres=gpu:2")
    client = Client()
    message = ask.Tunnel(job=job, argv=("cat",))
    stream = await (await rig.engine.output.tunnel(rig.user, message, client.progress))(client)
    data = bytes(range(256)) * 10_000
    sending = asyncio.create_task(stream.write(data))
    await client.until(lambda: client.received == data)
    await sending
    await stream.write(b"")
    await client.until(lambda: client.end is not None)
    assert client.end == StreamEnd() and client.log is not None and client.log.node == rig.node
    await asyncio.to_thread(slurm.ok, "scancel", job)


async def test_a_program_that_fails_is_explained(rig: Rig, slurm: RealSlurm) -> None:
    job = await sbatch(rig, slurm, "sleep 600")
    client = Client()
    message = ask.Tunnel(job=job, argv=("sh", "-c", "echo no >&2; exit 3"))
    await (await rig.engine.output.tunnel(rig.user, message, client.progress))(client)
    await client.until(lambda: client.end is not None)
    assert client.end == StreamEnd("no")
    missing = Client()
    message = ask.Tunnel(job=job, argv=("/no/such/program",))
    await (await rig.engine.output.tunnel(rig.user, message, missing.progress))(missing)
    await missing.until(lambda: missing.end is not None)
    assert missing.end is not None and "No such file" in missing.end.error
    await asyncio.to_thread(slurm.ok, "scancel", job)


async def test_a_tunnel_to_a_port_carries_bytes_both_ways(rig: Rig, slurm: RealSlurm) -> None:
    server = "import socket; s = socket.create_server(('127.0.0.1', 18888)); c = s.accept()[0]; c.sendall(c.recv(99)); c.close()"
    job = await sbatch(rig, slurm, f'echo up; python3 -c "{server}"; sleep 600', "--output=server")
    await eventually_async(lambda: (rig.folder / "server").exists() and (rig.folder / "server").read_text())
    client, stream = await _to_port(rig, job, 18888)
    await stream.write(b"hello")
    await client.until(lambda: client.received == b"hello")
    await stream.write(b"")
    await client.until(lambda: client.end is not None)
    assert client.end == StreamEnd()
    await asyncio.to_thread(slurm.ok, "scancel", job)


async def _to_port(rig: Rig, job: str, port: int) -> tuple[Client, ByteStream]:
    """Return a client of an open tunnel. The server may not listen yet, so several attempts may be necessary."""
    while True:
        client = Client()
        source = await rig.engine.output.tunnel(rig.user, ask.Tunnel(job=job, port=port), client.progress)
        stream = await source(client)
        await _opened(client)
        if client.log is not None:
            return client, stream
        assert client.end is not None and f"nothing listens on port {port}" in client.end.error


async def _opened(client: Client) -> None:
    await client.until(lambda: client.log is not None or client.end is not None)


async def test_the_file_of_a_job_that_slurm_has_forgotten_is_not_invented() -> None:
    finder = LogFinder(SlurmCommands({"PATH": "/nowhere"}), Allowance(SlurmSettings()))
    job = Job(
        id=JobId(1),
        array_job_id=JobId(1),
        request=Request(name="old", submit_dir="/home/ann"),
        user="ann",
        uid=1,
        state=JobState.COMPLETED,
    )
    with pytest.raises(UserError, match="the output file of job 1 is not known") as refused:
        await finder.paths(job)
    assert "/home/ann" in refused.value.hint


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["20.11", "26.05"])
async def slow_epilog(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """A site whose epilogs wait until the folder of the rig has a file."""
    with tempfile.TemporaryDirectory() as folder:
        epilog = Path(folder) / "epilog"
        epilog.write_text(f"#!/bin/sh\nuntil [ -e {folder}/go ]; do sleep 0.1; done\n")
        epilog.chmod(0o755)
        site = f"Epilog={epilog}\n{SITE}"
        with RealSlurm(site, nodes=(NODE,), gres=GRES, version=request.param) as slurm:
            async for made in slurm_rig(slurm):
                yield replace(made, folder=Path(folder))


async def test_a_terminal_ends_with_its_exit_code_while_the_epilog_still_runs(
    slow_epilog: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, client = slow_epilog, Client()
    monkeypatch.setattr(output, "END_S", 3.0)
    request = Request(
        name="shell",
        argv=("/bin/sh",),
        pty=PtySize(),
        submit_dir=str(rig.folder),
        env={"PATH": "/usr/bin:/bin"},
    )
    job = (await rig.engine.submissions.submit(rig.user, ask.Submit(request=request))).label
    source = await rig.engine.output.terminal(rig.user, ask.Attach(job=job), client.progress)
    stream = await source(client)
    await client.until(lambda: client.log is not None)
    await stream.write(b"exit 4\n")
    await client.until(lambda: client.end is not None)
    assert client.end == StreamEnd(exit=ExitStatus(code=4))
    assert (await rig.detail(job)).row.state == "COMPLETING"
    (rig.folder / "go").touch()
    await rig.reached(job)
    assert (await rig.detail(job)).row.state == "FAILED"
