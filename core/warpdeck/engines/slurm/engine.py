"""Opens the engine over a real Slurm: its record, its copy of the cluster, and the task that reads Slurm."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from warpdeck.base.paths import Paths
from warpdeck.config import Config
from warpdeck.controller.loop.scheduler_statistics import SchedulerStatistics
from warpdeck.engines.shared.history import StateHistory
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.job_records import RecordSearch
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.engines.shared.past_nodes import PastNodes
from warpdeck.engines.shared.subscriptions import Changes
from warpdeck.engines.shared.timeline import Timelines
from warpdeck.ports.engine import Engine
from warpdeck.store import SqliteStore

from .accounting import SlurmAccounting
from .cluster.answers import Answers
from .cluster.cluster import Cluster
from .cluster.job_changes import JobChanges
from .cluster.kept_answers import KeptAnswers
from .cluster.poller import Poller
from .cluster.polling import Allowance, Source
from .cluster.quick_looks import SlurmWaits
from .commands import TOKEN, SlurmCommands
from .forecasts.forecasts import SlurmForecasts
from .forecasts.starts import ExpectedStarts
from .gpus.agent_files import AgentFiles
from .gpus.gathered import Gathered
from .gpus.readings import GpuReadings
from .gpus.samplers import Samplers
from .history.accounting import INTERVAL_S, Accounting
from .history.curves import Recorder, SlurmCurves
from .jobs import SlurmJobs
from .nodes.node_looks import NodeLooks
from .nodes.nodes import SlurmNodes
from .nodes.past_nodes import NoMeasurements
from .orders.commands import OrderCommands
from .orders.orders import SlurmOrders
from .output.job_links import JobLinks
from .output.log_paths import LogFinder
from .output.output import SlurmOutput
from .processes.kept_commands import KeptCommands
from .processes.output_files import remove_old
from .processes.sessions import SlurmSessions
from .processes.steps import SlurmSteps
from .programs import Programs
from .rest.source import RestSource
from .settings import SlurmSettings
from .site import SlurmSite
from .site_gateway.client import SiteGateway
from .standby import SlurmStandby
from .submitting.job_folder import JobFolders
from .submitting.opening import open_submissions, shared_folder
from .submitting.recorded_code import RecordedCode
from .submitting.running_files import RunningFiles
from .submitting.submissions import SlurmSubmissions
from .submitting.upkeep import Upkeep
from .versions import Version, read_version


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """All objects that the parts of the engine share."""

    cluster: Cluster
    poller: Poller
    gpu_readings: GpuReadings
    recorder: Recorder
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
        programs = Programs(shared_folder(settings))
        submissions = open_submissions(
            made.cluster,
            made.poller,
            made.commands,
            made.allowance,
            made.settings,
            made.lookup,
            made.site.version,
            programs,
        )
        files = RunningFiles(cluster=made.cluster, poller=made.poller)
        links = _links(made, programs)
        steps, upkeep, samplers = _steps(made, programs), Upkeep(submissions), _samplers(made, programs)
        agents = _agents(made)
        looks = NodeLooks(cluster=made.cluster, commands=made.commands, allowance=made.allowance)
        await asyncio.to_thread(remove_old, shared_folder(settings))
        async with (
            submissions.running(),
            upkeep.running(),
            files.running(),
            links.running(),
            steps.running(),
            samplers.running(),
            agents.running(),
            looks.running(),
        ):
            yield _engine(made, submissions, links, steps, samplers, agents, looks)


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
    token = commands.environ.get(TOKEN, "")
    if settings.rest_url:
        commands = commands.without_token()  # With a token that is too old, they would fail like slurmrestd.
    version = read_version(await commands.read("sbatch", "--version"))
    store = await SqliteStore.open(paths.database)
    try:
        cluster = Cluster(store, uid=os.geteuid(), keep_ended_s=settings.keep_ended_s, clock=clock)
        await cluster.load()
        allowance = Allowance(settings)
        rest = RestSource(settings.rest_url, token, preempts=lambda: cluster.config.get("PreemptMode", ""))
        site = _site(cluster, commands, settings, allowance, rest=rest, version=version)
        poller = site.poller
        lookup = JobLookup(state=cluster.state, store=store, config=Config)
        cluster.script_folder = JobFolders(shared_folder(settings)).path
        accounting = Accounting(
            cluster,
            commands,
            user=pwd.getpwuid(cluster.uid).pw_name,
            interval_s=max(2.0, min(INTERVAL_S, 360 / settings.requests_per_minute)),
        )
        recorder = Recorder(cluster=cluster, clock=clock)
        gpu_readings = GpuReadings(cluster, taken=recorder.take)
        poller.on_demand[Source.USAGE] = Gathered(cluster=cluster, commands=commands, readings=gpu_readings)

        async def after_queue(changes: JobChanges) -> None:
            await accounting.after_queue(changes)
            gpu_readings.forget_ended(changes)

        poller.after_queue = after_queue
        async with poller.running(), accounting.running(), recorder.running():
            await poller.first_look()
            yield Gateway(
                cluster=cluster,
                poller=poller,
                gpu_readings=gpu_readings,
                recorder=recorder,
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


def _site(
    cluster: Cluster,
    commands: SlurmCommands,
    settings: SlurmSettings,
    allowance: Allowance,
    *,
    rest: RestSource,
    version: Version,
) -> SlurmSite:
    """Return the site with its poller. Both read from the site gateway, slurmrestd or the commands."""
    site_gateway = SiteGateway(
        folder=settings.site_gateway, owner=settings.site_gateway_owner, config=lambda: cluster.config
    )
    answers = Answers(commands, allowance, shared=site_gateway, rest=rest)
    poller = Poller(cluster, commands, allowance, answers)
    return SlurmSite(
        cluster=cluster,
        poller=poller,
        version=version,
        kept=KeptAnswers(commands=commands, allowance=allowance, answers=answers, poller=poller),
        site_gateway=site_gateway,
        rest=rest,
        statistics=SchedulerStatistics(cluster.clock()),
    )


def _engine(
    made: Gateway,
    submissions: SlurmSubmissions,
    links: JobLinks,
    steps: SlurmSteps,
    samplers: Samplers,
    agents: AgentFiles,
    looks: NodeLooks,
) -> Engine:
    cluster, clock = made.cluster, made.clock
    output = _output(made, links)
    records = RecordSearch(cluster.state, cluster.store)
    return Engine(
        site=made.site,
        accounting=SlurmAccounting(cluster=cluster, lookup=made.lookup, kept=made.site.kept),
        jobs=_jobs(made, samplers, agents),
        submissions=submissions,
        orders=_orders(made, submissions),
        nodes=_nodes(made, looks, records),
        history=StateHistory(
            state=cluster.state,
            store=cluster.store,
            search=records,
            lookup=made.lookup,
            curve_reader=SlurmCurves(recorder=made.recorder, cluster=cluster, lookup=made.lookup),
            clock=clock,
        ),
        output=output,
        sessions=SlurmSessions(
            cluster=cluster,
            submissions=submissions,
            output=output,
            folder=shared_folder(made.settings),
            clock=clock,
        ),
        steps=steps,
        standby=SlurmStandby(),
    )


def _nodes(made: Gateway, looks: NodeLooks, records: RecordSearch) -> SlurmNodes:
    cluster, clock = made.cluster, made.clock
    return SlurmNodes(
        cluster=cluster,
        commands=made.commands,
        allowance=made.allowance,
        kept=made.site.kept,
        looks=looks,
        past_nodes=PastNodes(
            store=cluster.store, measurements=NoMeasurements(), records=records, clock=clock
        ),
        timelines=Timelines(
            state=cluster.state,
            store=cluster.store,
            records=records,
            gpus=lambda: sum(len(row.gpus) for row in cluster.nodes.rows.values()),
            clock=clock,
        ),
    )


def _jobs(made: Gateway, samplers: Samplers, agents: AgentFiles) -> SlurmJobs:
    cluster = made.cluster

    @contextmanager
    def watched() -> Iterator[None]:
        with made.poller.watched(), samplers.screen(), agents.screen():
            yield

    return SlurmJobs(
        poller=made.poller,
        samplers=samplers,
        agents=agents,
        state=cluster.state,
        store=cluster.store,
        lookup=made.lookup,
        forecaster=_forecasts(made),
        change_feed=Changes(
            state=cluster.state,
            nodes=cluster.nodes,
            about=made.site.about,
            hub=cluster.hub,
            watched=watched,
            clock=made.clock,
        ),
        end_waiters=cluster.ends,
        clock=made.clock,
    )


def _orders(made: Gateway, submissions: SlurmSubmissions) -> SlurmOrders:
    cluster = made.cluster
    return SlurmOrders(
        cluster=cluster,
        poller=made.poller,
        commands=made.commands,
        version=made.site.version,
        runs=OrderCommands(cluster, made.commands, made.allowance),
        code=RecordedCode(submissions),
    )


def _forecasts(made: Gateway) -> SlurmForecasts:
    return SlurmForecasts(
        cluster=made.cluster,
        poller=made.poller,
        commands=made.commands,
        allowance=made.allowance,
        version=made.site.version,
        kept=made.site.kept,
        starts=ExpectedStarts(
            state=made.cluster.state, commands=made.commands, allowance=made.allowance, poller=made.poller
        ),
    )


def _samplers(made: Gateway, programs: Programs) -> Samplers:
    return Samplers(
        cluster=made.cluster,
        commands=made.commands,
        allowance=made.allowance,
        allocations=made.poller.allocations,
        programs=programs,
        version=made.site.version,
        readings=made.gpu_readings,
    )


def _agents(made: Gateway) -> AgentFiles:
    settings = made.settings
    return AgentFiles(
        cluster=made.cluster,
        readings=made.gpu_readings,
        folder=settings.readings_folder,
        owner=settings.readings_owner,
    )


def _links(made: Gateway, programs: Programs) -> JobLinks:
    return JobLinks(
        commands=made.commands, allowance=made.allowance, version=made.site.version, programs=programs
    )


def _waits(made: Gateway) -> SlurmWaits:
    cluster = made.cluster
    waits = JobWaits(state=cluster.state, ends=cluster.ends, hub=cluster.hub, clock=made.clock)
    return SlurmWaits(waits=waits, poller=made.poller)


def _steps(made: Gateway, programs: Programs) -> SlurmSteps:
    folder = os.path.join(made.paths.home, "steps")
    return SlurmSteps(
        kept=KeptCommands(folder=folder, commands=made.commands, programs=programs),
        cluster=made.cluster,
        waits=_waits(made),
        commands=made.commands,
        allowance=made.allowance,
        clock=made.clock,
    )


def _output(made: Gateway, links: JobLinks) -> SlurmOutput:
    return SlurmOutput(
        cluster=made.cluster,
        lookup=made.lookup,
        waits=_waits(made),
        finder=LogFinder(made.commands, made.allowance),
        links=links,
    )
