"""Makes the engine of a controller."""

from __future__ import annotations

from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.launch.tree_collection import TreeCollector
from warpdeck.controller.loop.controller import Controller
from warpdeck.engines.shared.history import StateHistory
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.job_records import RecordSearch
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.engines.shared.jobs import StateJobs
from warpdeck.engines.shared.past_nodes import PastNodes
from warpdeck.engines.shared.subscriptions import Changes, StateNodes
from warpdeck.engines.shared.timeline import Timelines
from warpdeck.ports.engine import Engine

from .accounting import NativeAccounting
from .curves import CurveReader
from .jobs.orders import NativeOrders
from .jobs.submissions import NativeSubmissions
from .nodes.health_check import HealthCheck
from .nodes.node_joining import NodeJoining
from .nodes.nodes import NativeNodes
from .nodes.past_measurements import AgentMeasurements
from .output.node_streams import NodeStreams
from .output.output import NativeOutput
from .processes.allocations import Allocations
from .processes.sessions import NativeSessions
from .processes.step_leases import StepLeases
from .processes.step_requests import NativeSteps
from .processes.step_streams import StepContext
from .site import NativeSite
from .standby import NativeStandby, StandbyKeeper


def native_engine(
    controller: Controller, trees: TreeFiles, *, config_path: str, keeper: StandbyKeeper | None = None
) -> Engine:
    """Return the controller as an engine.

    `trees` are the code snapshots that users uploaded, `config_path` is the path of config.toml.
    `keeper` keeps a standby up to date.
    """
    state, store, rules, apply = controller.state, controller.store, controller.rules, controller.apply
    forecaster, clock = controller.forecaster, controller.clock
    records = RecordSearch(state, store)
    lookup = JobLookup(state=state, store=store, config=lambda: rules.config)
    waits = _waits(controller)
    streams = NodeStreams(state=state, fleet=controller.fleet, waits=waits)
    collector = TreeCollector(state=state, trees=trees, clock=clock)
    submissions = NativeSubmissions(
        state=state,
        rules=rules,
        apply=apply,
        lookup=lookup,
        trees=trees,
        collector=collector,
        forecaster=forecaster,
    )
    site = NativeSite(
        state=state,
        rules=rules,
        statistics=controller.statistics,
        clock=clock,
        put_in_force=controller.reload,
        config_path=config_path,
        keeper=keeper,
        claim=controller.claim,
        recovery=controller.recovery,
        collector=collector,
    )
    return Engine(
        site=site,
        accounting=NativeAccounting(
            state=state, rules=rules, forecaster=forecaster, lookup=lookup, clock=clock
        ),
        jobs=_jobs(controller, site, lookup),
        submissions=submissions,
        orders=NativeOrders(state=state, store=store, apply=apply, lookup=lookup, submissions=submissions),
        nodes=_nodes(controller, records, lookup),
        history=_history(controller, records, lookup),
        output=_output(controller, lookup, streams),
        sessions=NativeSessions(
            store=store,
            apply=apply,
            submissions=submissions,
            waits=waits,
            streams=streams,
            config=lambda: rules.config,
            clock=clock,
        ),
        steps=_steps(controller, submissions, waits),
        standby=NativeStandby(keeper=keeper),
    )


def _waits(controller: Controller) -> JobWaits:
    rules = controller.rules
    return JobWaits(
        state=controller.state,
        ends=controller.ends,
        hub=controller.hub,
        collector=controller.outputs,
        clock=controller.clock,
        names_jobs=lambda: "jobs" not in rules.config.access.private_data,
    )


def _output(controller: Controller, lookup: JobLookup, streams: NodeStreams) -> NativeOutput:
    return NativeOutput(
        state=controller.state,
        lookup=lookup,
        waits=streams.waits,
        streams=streams,
        collector=controller.outputs,
        submit_host=controller.submit_host,
    )


def _history(controller: Controller, records: RecordSearch, lookup: JobLookup) -> StateHistory:
    state, store = controller.state, controller.store
    return StateHistory(
        state=state,
        store=store,
        search=records,
        lookup=lookup,
        curve_reader=CurveReader(state=state, store=store, fleet=controller.fleet, lookup=lookup),
        clock=controller.clock,
    )


def _jobs(controller: Controller, site: NativeSite, lookup: JobLookup) -> StateJobs:
    state, clock = controller.state, controller.clock
    return StateJobs(
        state=state,
        store=controller.store,
        lookup=lookup,
        forecaster=controller.forecaster,
        change_feed=Changes(
            state=state,
            nodes=StateNodes(state=state),
            about=site.about,
            hub=controller.hub,
            watched=controller.nodes.watched,
            clock=clock,
        ),
        end_waiters=controller.ends,
        clock=clock,
    )


def _nodes(controller: Controller, records: RecordSearch, lookup: JobLookup) -> NativeNodes:
    state, fleet, clock, apply = controller.state, controller.fleet, controller.clock, controller.apply
    store = controller.store
    return NativeNodes(
        state=state,
        apply=apply,
        clock=clock,
        lookup=lookup,
        past_nodes=PastNodes(
            store=store, measurements=AgentMeasurements(fleet=fleet), records=records, clock=clock
        ),
        timelines=Timelines(
            state=state,
            store=store,
            records=records,
            gpus=lambda: sum(len(node.gpus) for node in state.nodes.values()),
            clock=clock,
        ),
        health_check=HealthCheck(
            state=state, fleet=fleet, apply=apply, config=lambda: controller.config, clock=clock
        ),
        joining=NodeJoining(state=state, fleet=fleet, apply=apply),
    )


def _steps(controller: Controller, submissions: NativeSubmissions, waits: JobWaits) -> NativeSteps:
    state, clock, apply = controller.state, controller.clock, controller.apply
    leases = StepLeases(state, apply, clock)
    context = StepContext(
        state=state,
        fleet=controller.fleet,
        hub=controller.hub,
        apply=apply,
        commits=controller.ends.commits,
        leases=leases,
        flushed=controller.effects.flushed,
    )
    allocations = Allocations(
        state=state,
        store=controller.store,
        apply=apply,
        submissions=submissions,
        waits=waits,
        leases=leases,
        config=lambda: controller.config,
        clock=clock,
    )
    return NativeSteps(
        context=context,
        allocations=allocations,
        first_steps=controller.events.initial_steps,
        config=lambda: controller.config,
        clock=clock,
    )
