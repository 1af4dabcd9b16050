"""Makes the engine of a controller."""

from __future__ import annotations

from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.controller import Controller
from warpdeck.ports.engine import Engine

from .accounting import NativeAccounting
from .history.curves import CurveReader
from .history.history import NativeHistory
from .history.job_records import RecordSearch
from .jobs.job_lookup import JobLookup
from .jobs.job_waits import JobWaits
from .jobs.jobs import NativeJobs
from .jobs.orders import NativeOrders
from .jobs.submissions import NativeSubmissions
from .jobs.subscriptions import Changes
from .nodes.health_check import HealthCheck
from .nodes.node_joining import NodeJoining
from .nodes.nodes import NativeNodes
from .nodes.past_nodes import PastNodes
from .output.node_streams import NodeStreams
from .output.output import NativeOutput
from .processes.allocations import Allocations
from .processes.processes import NativeProcesses
from .processes.runs import Runs
from .processes.sessions import Sessions
from .processes.step_leases import StepLeases
from .processes.step_requests import StepRequests
from .processes.step_streams import StepContext
from .site import NativeSite


def native_engine(controller: Controller, trees: TreeFiles, *, config_path: str) -> Engine:
    """Return the controller as an engine.

    `trees` are the code snapshots that users uploaded, `config_path` is the path of config.toml.
    """
    state, rules, clock = controller.state, controller.rules, controller.clock
    store, fleet, forecaster = controller.store, controller.fleet, controller.forecaster
    apply, records = controller.apply, RecordSearch(state, store)
    lookup = JobLookup(state, store, lambda: rules.config)
    waits = JobWaits(state, controller.ends, controller.hub, outputs=controller.outputs, clock=clock)
    streams = NodeStreams(state, fleet, waits)
    submissions = NativeSubmissions(
        state, rules, apply=apply, lookup=lookup, trees=trees, forecaster=forecaster
    )
    return Engine(
        site=NativeSite(
            state,
            rules,
            controller.statistics,
            clock=clock,
            reload=controller.reload,
            config_path=config_path,
        ),
        accounting=NativeAccounting(state, rules, forecaster=forecaster, lookup=lookup, clock=clock),
        jobs=NativeJobs(
            state,
            store,
            lookup=lookup,
            forecaster=forecaster,
            changes=Changes(state, controller.hub, watched=controller.nodes.watched, clock=clock),
            ends=controller.ends,
            clock=clock,
        ),
        submissions=submissions,
        orders=NativeOrders(state, store, apply=apply, lookup=lookup, submissions=submissions),
        nodes=_nodes(controller, records),
        history=NativeHistory(
            state, store, records=records, curves=CurveReader(state, store, fleet, lookup), clock=clock
        ),
        output=NativeOutput(
            state,
            lookup=lookup,
            waits=waits,
            streams=streams,
            outputs=controller.outputs,
            submit_host=controller.submit_host,
        ),
        processes=_processes(controller, submissions, waits, streams),
    )


def _nodes(controller: Controller, records: RecordSearch) -> NativeNodes:
    state, fleet, clock, apply = controller.state, controller.fleet, controller.clock, controller.apply
    return NativeNodes(
        state,
        apply=apply,
        clock=clock,
        past=PastNodes(controller.store, fleet, records=records, clock=clock),
        health=HealthCheck(state, fleet, apply=apply, config=lambda: controller.config, clock=clock),
        joining=NodeJoining(state, fleet, apply=apply),
    )


def _processes(
    controller: Controller, submissions: NativeSubmissions, waits: JobWaits, streams: NodeStreams
) -> NativeProcesses:
    state, store = controller.state, controller.store
    apply, clock = controller.apply, controller.clock
    leases = StepLeases(state, apply, clock)
    allocations = Allocations(
        state,
        store,
        apply=apply,
        submissions=submissions,
        waits=waits,
        leases=leases,
        config=lambda: controller.config,
        clock=clock,
    )
    context = StepContext(
        state=state,
        fleet=controller.fleet,
        hub=controller.hub,
        apply=apply,
        commits=controller.ends.commits,
        leases=leases,
        flushed=controller.effects.flushed,
    )
    return NativeProcesses(
        Runs(store, apply=apply, submissions=submissions, waits=waits, streams=streams, clock=clock),
        Sessions(apply=apply, submissions=submissions, config=lambda: controller.config, clock=clock),
        StepRequests(
            context,
            allocations=allocations,
            first_steps=controller.events.first_steps,
            config=lambda: controller.config,
            clock=clock,
        ),
        allocations,
    )
