"""The gateway to a real Slurm: its load on slurmctld, and a queue of 50,000 jobs.

The peer is `watch squeue`, measured with one user. Each further user adds as many requests. turm asks as often (every 2
seconds), and s9s every 10 seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.slurm_parity.peer.real_slurm import PACKAGES, SITE, RealSlurm
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.protocol import requests

from .table import Line, Measured, Table

APPS = (1, 10, 50)
MOVING_APPS = (1, 10)
REST_S = 2.0
"""Seconds for which the cursor of a moving app rests on a job."""
LOG_BYTES = 16 * 1024
WARPDECK = (sys.executable, "-m", "warpdeck.cli.main")
MINUTE_S = 60.0
JOBS = 50_000
SCREEN_ROWS = 50
MANY = SITE.replace("JobCompType", f"MaxJobCount={4 * JOBS}\nJobCompType")


def rpcs_line(apps: int) -> Line:
    return Line(f"RPCs a minute, {apps} open apps over Slurm", "", budget=6, slurm=f"rpcs{apps}")


def moving_line(apps: int) -> Line:
    words = "open app whose cursor moves" if apps == 1 else "open apps whose cursors move"
    return Line(f"RPCs a minute, {apps} {words}", "", budget=6)


FIRST_SCREEN = Line(f"first screen after squeue's answer, {JOBS:,} jobs", "s", budget=2)
ALL_ROWS = Line(f"all rows after squeue's answer, {JOBS:,} jobs", "s")
MEMORY = Line(f"memory of the gateway, {JOBS:,} jobs", "MB", budget=200)
SQUEUE = Line(f"squeue alone, {JOBS:,} jobs", "s")


def measure(table: Table) -> None:
    """Measure a gateway that was started by the command that a user types."""
    if os.geteuid() or not PACKAGES.is_dir():
        table.left_out(rpcs_line(1), "it needs root and the packages of tests/setup.sh")
        return
    with RealSlurm() as slurm, _gateway(slurm) as paths:
        alone = _watch_rpcs(slurm)
        table.add_slurm({f"rpcs{apps}": apps * alone for apps in APPS})
        for apps in APPS:
            table.add(rpcs_line(apps), Measured([asyncio.run(_app_rpcs(slurm, paths, apps))]))
        jobs = _jobs(slurm)
        for apps in MOVING_APPS:
            table.add(moving_line(apps), Measured([asyncio.run(_app_rpcs(slurm, paths, apps, jobs=jobs))]))
    with RealSlurm(MANY) as slurm:
        slurm.submit_many(JOBS)
        _measure_many(table, slurm)


@contextmanager
def _gateway(slurm: RealSlurm) -> Iterator[Paths]:
    """Run a gateway in a new home."""
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as folder:
        home = Path(folder) / "home"
        environ = {**os.environ, **slurm.wrappers(Path(folder) / "bin"), "WARPDECK_HOME": str(home)}
        subprocess.run(
            [*WARPDECK, "--engine", "slurm", "up"], env=environ, check=True, stdout=subprocess.DEVNULL
        )
        try:
            yield Paths(str(home))
        finally:
            subprocess.run([*WARPDECK, "down"], env=environ, check=True, stdout=subprocess.DEVNULL)


def _watch_rpcs(slurm: RealSlurm) -> int:
    """Return the requests of one user's `watch squeue` in a minute."""
    slurm.ok("sdiag", "--reset")
    slurm.run(
        ["timeout", f"{MINUTE_S:.0f}", "sh", "-c", "while squeue; do sleep 2; done"], timeout_s=2 * MINUTE_S
    )
    return slurm.rpcs()


def _jobs(slurm: RealSlurm) -> list[tuple[str, str]]:
    """Submit a running, a waiting and a failed job. Return their ids with what the preview requests about each."""
    shown = (
        ("log", ["--wrap=while echo step; do sleep 1; done"]),
        ("forecast", ["--hold", "--wrap=true"]),
        ("ended", ["--wrap=echo boom; exit 3"]),
    )
    return [(slurm.ok("sbatch", "--parsable", "--chdir=/tmp", *words).strip(), kind) for kind, words in shown]


async def _app_rpcs(
    slurm: RealSlurm, paths: Paths, apps: int, *, jobs: Sequence[tuple[str, str]] = ()
) -> int:
    """Return the requests of open apps in the busiest kind of minute: all have just been opened.

    If `jobs` are given, the cursor of each app moves between them, and the apps ask for the user's quota.
    """
    clients = [await AsyncioClient.connect(paths) for _ in range(apps)]
    try:
        slurm.ok("sdiag", "--reset")
        feeds = [asyncio.create_task(_follow(client)) for client in clients]
        if jobs:
            feeds += [asyncio.create_task(_move(client, jobs)) for client in clients]
        await asyncio.sleep(MINUTE_S)
        found = await asyncio.to_thread(slurm.rpcs)
        for feed in feeds:
            feed.cancel()
        await asyncio.wait(feeds)
        return found
    finally:
        for client in clients:
            await client.close()


async def _follow(client: AsyncioClient) -> None:
    async for _ in client.subscribe():
        pass


async def _move(client: AsyncioClient, jobs: Sequence[tuple[str, str]]) -> None:
    """Request all that the app requests for its strips, and for its preview while the cursor moves between the jobs."""
    for request in (requests.QosList(), requests.Shares(), requests.LimitUse()):
        with contextlib.suppress(UserError):
            await client.ask(request)
    while True:
        for job, kind in jobs:
            with contextlib.suppress(UserError, TimeoutError):
                async with asyncio.timeout(REST_S):
                    await _look(client, job, kind)
                    await asyncio.Event().wait()


async def _look(client: AsyncioClient, job: str, kind: str) -> None:
    """Request what the preview shows of a job."""
    if kind == "forecast":
        await client.ask(requests.Forecast(job=job))
        return
    async with client.log(job, channel="out", offset=-LOG_BYTES, follow=kind == "log") as log:
        async for _ in log:
            pass
    await client.ask(requests.JobInfo(job=job))


def _measure_many(table: Table, slurm: RealSlurm) -> None:
    """Measure a gateway that is started for this queue. Its own start counts."""
    begun = time.perf_counter()
    slurm.ok("squeue", "--noheader", "--all", "--states=all")
    alone_s = time.perf_counter() - begun
    begun = time.perf_counter()
    with _gateway(slurm) as paths:
        screen_at, all_at = asyncio.run(_rows(paths))
        pid = int(Path(paths.lock).read_text().split()[0])
        peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in line)
    table.add(SQUEUE, Measured([alone_s]))
    table.add(FIRST_SCREEN, Measured([screen_at - begun - alone_s]))
    table.add(ALL_ROWS, Measured([all_at - begun - alone_s]))
    table.add(MEMORY, Measured([int(peak.split()[1]) / 1024]))


async def _rows(paths: Paths) -> tuple[float, float]:
    """Return the times at which a screen full of rows, and all rows, have arrived."""
    client, found, screen_at = await AsyncioClient.connect(paths), set[int](), 0.0
    try:
        async for delta in client.subscribe():
            found.update(row.id for row in delta.jobs)
            if len(found) >= SCREEN_ROWS and not screen_at:
                screen_at = time.perf_counter()
            if len(found) >= JOBS:
                break
        return screen_at, time.perf_counter()
    finally:
        await client.close()
