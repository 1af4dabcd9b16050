"""Makes the engine of a controller."""

from __future__ import annotations

from warpdeck.controller.loop.controller import Controller
from warpdeck.ports.engine import Engine

from .accounting import NativeAccounting
from .history.curves import CurveReader
from .history.history import NativeHistory
from .history.job_records import RecordSearch
from .job_lookup import JobLookup
from .jobs import NativeJobs
from .site import NativeSite


def native_engine(controller: Controller, *, config_path: str) -> Engine:
    """Return the controller as an engine. `config_path` is the path of config.toml."""
    state, rules, clock = controller.state, controller.rules, controller.clock
    store, fleet, forecaster = controller.store, controller.fleet, controller.forecaster
    lookup = JobLookup(state, store, lambda: rules.config)
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
        history=NativeHistory(
            state,
            store,
            records=RecordSearch(state, store),
            curves=CurveReader(state, store, fleet, lookup),
            clock=clock,
        ),
    )
