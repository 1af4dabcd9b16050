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
from .jobs.jobs import NativeJobs
from .jobs.orders import NativeOrders
from .jobs.submissions import NativeSubmissions
from .site import NativeSite


def native_engine(controller: Controller, trees: TreeFiles, *, config_path: str) -> Engine:
    """Return the controller as an engine.

    `trees` are the code snapshots that users uploaded, `config_path` is the path of config.toml.
    """
    state, rules, clock = controller.state, controller.rules, controller.clock
    store, fleet, forecaster = controller.store, controller.fleet, controller.forecaster
    lookup = JobLookup(state, store, lambda: rules.config)
    submissions = NativeSubmissions(
        state, rules, apply=controller.apply, lookup=lookup, trees=trees, forecaster=forecaster
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
        jobs=NativeJobs(state, store, lookup=lookup, forecaster=forecaster, clock=clock),
        submissions=submissions,
        orders=NativeOrders(state, store, apply=controller.apply, lookup=lookup, submissions=submissions),
        history=NativeHistory(
            state,
            store,
            records=RecordSearch(state, store),
            curves=CurveReader(state, store, fleet, lookup),
            clock=clock,
        ),
    )
