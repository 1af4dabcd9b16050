"""Opens the engine over a real Slurm: its record, its copy of the cluster, and the task that reads Slurm."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.config import Config
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.engines.shared.jobs import StateJobs
from warpdeck.engines.shared.subscriptions import Changes
from warpdeck.ports.engine import UNSUPPORTED, Engine
from warpdeck.store import SqliteStore

from .cluster.cluster import Cluster
from .cluster.poller import Poller
from .cluster.polling import Allowance
from .cluster.quick_looks import SlurmWaits
from .commands import SlurmCommands
from .forecasts import SlurmForecasts
from .output.log_paths import LogFinder
from .output.output import SlurmOutput
from .settings import SlurmSettings
from .site import SlurmSite
from .versions import read_version


class Missing:
    """A part of the engine that does not exist yet."""

    def __getattr__(self, name: str) -> Any:
        raise UserError("this is not possible over Slurm yet", code=UNSUPPORTED)


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """All objects that the parts of the engine share."""

    cluster: Cluster
    poller: Poller
    commands: SlurmCommands
    allowance: Allowance
    settings: SlurmSettings
    lookup: JobLookup
    site: SlurmSite
    paths: Paths
    clock: Callable[[], float]


@asynccontextmanager
async def slurm_engine(
    paths: Paths,
    settings: SlurmSettings,
    *,
    clock: Callable[[], float],
    commands: SlurmCommands | None = None,
) -> AsyncGenerator[Engine, None]:
    """Open the record, find Slurm's version, and read Slurm until the block ends.

    Raises UserError if Slurm's commands are missing or too old, and StoreError if the record cannot be read. If Slurm
    does not answer, the engine opens all the same, and shows the record and the problem.
    """
    async with gateway(paths, settings, clock=clock, commands=commands) as made:
        yield _engine(made)


@asynccontextmanager
async def gateway(
    paths: Paths,
    settings: SlurmSettings,
    *,
    clock: Callable[[], float],
    commands: SlurmCommands | None = None,
) -> AsyncGenerator[Gateway, None]:
    """Open the objects that the parts of the engine share. The errors are those of `slurm_engine`."""
    commands = commands or SlurmCommands()
    version = read_version(await commands.read("sbatch", "--version"))
    store = await SqliteStore.open(paths.database)
    try:
        cluster = Cluster(store, uid=os.geteuid(), keep_ended_s=settings.keep_ended_s, clock=clock)
        await cluster.load()
        allowance = Allowance(settings)
        poller = Poller(cluster, commands, allowance)
        site = SlurmSite(
            cluster=cluster, poller=poller, version=version, name=await _cluster_name(commands, allowance)
        )
        lookup = JobLookup(state=cluster.state, store=store, config=Config)
        async with poller.running():
            yield Gateway(
                cluster=cluster,
                poller=poller,
                commands=commands,
                allowance=allowance,
                settings=settings,
                lookup=lookup,
                site=site,
                paths=paths,
                clock=clock,
            )
    finally:
        await store.close()


async def _cluster_name(commands: SlurmCommands, allowance: Allowance) -> str:
    """Return the name of the cluster, or "" if Slurm does not answer now."""
    allowance.count(1, 0.0)
    try:
        text = await commands.read("scontrol", "show", "config")
    except UserError:
        return ""
    lines = [line.partition("=") for line in text.splitlines()]
    return next((value.strip() for key, _, value in lines if key.strip() == "ClusterName"), "")


def _engine(made: Gateway) -> Engine:
    cluster, clock = made.cluster, made.clock
    missing: Any = Missing()
    jobs = StateJobs(
        state=cluster.state,
        store=cluster.store,
        lookup=made.lookup,
        forecaster=SlurmForecasts(made.cluster),
        change_feed=Changes(
            state=cluster.state,
            nodes=cluster.nodes,
            about=made.site.about,
            hub=cluster.hub,
            watched=made.poller.watched,
            clock=clock,
        ),
        end_waiters=cluster.ends,
        clock=clock,
    )
    site: Any = made.site
    return Engine(
        site=site,
        accounting=missing,
        jobs=jobs,
        submissions=missing,
        orders=missing,
        nodes=missing,
        history=missing,
        output=_output(made),
        sessions=missing,
        steps=missing,
    )


def _output(made: Gateway) -> SlurmOutput:
    cluster = made.cluster
    waits = JobWaits(state=cluster.state, ends=cluster.ends, hub=cluster.hub, clock=made.clock)
    return SlurmOutput(
        cluster=cluster,
        lookup=made.lookup,
        waits=SlurmWaits(waits=waits, poller=made.poller),
        finder=LogFinder(made.commands, made.allowance),
    )
