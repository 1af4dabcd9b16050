"""The controller's process. Start it with python -m warpdeck.daemon.controller_process --home FOLDER."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so collections during the imports are in vain. They take a fifth of the time of the start.
    # `Collector.loading` enables them.
    gc.disable()

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from warpdeck.backup.pending import finish_moves
from warpdeck.base.controller_starts import SiteIdentity, StartMaker, fenced_sentence
from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of
from warpdeck.base.paths import OWN, Paths
from warpdeck.base.site_seal import SiteSeal
from warpdeck.base.standby_files import serving_elsewhere
from warpdeck.config import ConfigError, Decoded, load
from warpdeck.controller.events.events import NodeAdded
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.launch.tree_collection import TreeCollector
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.daemon.collector import Collector
from warpdeck.daemon.home_process import argument_parser, handle_signals, leave_starter, run_process
from warpdeck.daemon.idle_gpus import IdleGpuWatch
from warpdeck.daemon.mailer import Mailer
from warpdeck.daemon.prometheus_exporter import Exporter
from warpdeck.daemon.retention import Retention
from warpdeck.engines.native.engine import native_engine
from warpdeck.fleet.fleet import AgentFleet
from warpdeck.fleet.outputs import Outputs
from warpdeck.model import Node, NodeName
from warpdeck.ports.caller import Principal
from warpdeck.ports.store import Changes
from warpdeck.server.server import ApiServer
from warpdeck.standby.link import StandbyLink
from warpdeck.store import SqliteStore

log = logging.getLogger("warpdeck")

INSTANCE_BYTES = 8
"""Random bytes of the name of a start."""


async def serve(paths: Paths, *, local_node: bool) -> None:
    """Run until SIGTERM. A SIGHUP that arrives before the controller is ready is handled as soon as it is
    ready.
    """
    stop, reload_requested = handle_signals()
    decoded = prepare_home(paths)
    store = await SqliteStore.open(paths.database)
    collector = Collector()
    try:
        controller_id = await store.controller_id()
        standby = StandbyLink(paths, store.log, controller_id=controller_id, on_superseded=stop.set)
        is_asked = await standby.check_successor()
        starts = await begin_start(store)
        fleet = AgentFleet(paths, starts.identity, random.Random(), on_ended=collector.collect)
        trees = TreeFiles(paths.trees)
        adapters = Adapters(
            store=store,
            fleet=fleet,
            trees=trees,
            outputs=Outputs(fleet, paths.outputs),
            clock=time.time,
            submit_host=socket.gethostname(),
            starts=starts,
        )
        controller = Controller(adapters, config=decoded.config, config_lines=decoded.lines)
        with collector.loading():
            await controller.load()
        standby.on_change = controller.hub.wake
        engine = native_engine(controller, trees, config_path=paths.config, keeper=standby)
        server = ApiServer(engine, paths, stop=stop, clock=time.time)
        fleet.answer_calls(server.serve_call)
        standby.serve_client = server.serve_relayed
        async with asyncio.TaskGroup() as group:
            await standby.start()
            loop_task = group.create_task(controller.run())
            reloads = group.create_task(_reload_on(reload_requested, controller, server))
            if local_node and not controller.state.nodes:
                await _add_this_machine(controller)
            if not is_asked:
                await controller.claim.wait_for_answers()  # They know whether the standby has taken over.
            await server.start()
            exporter = Exporter(controller.state, statistics=controller.statistics, hub=controller.hub)
            controller.rules.on_reload = exporter.apply_config
            await exporter.apply_config(controller.config)
            services = [group.create_task(work) for work in _services(controller, store, trees)]
            leave_starter(paths)
            log.info("serving on %s", paths.socket)
            await stop.wait()
            await server.close()
            await standby.close()
            for each in (reloads, *services):
                each.cancel()
            await exporter.close()
            loop_task.cancel()
    finally:
        await store.close()
        collector.close()


def prepare_home(paths: Paths) -> Decoded:
    """Finish a restore that was killed, check that this home may serve its site, and return its configuration.

    Raises UserError.
    """
    if finish_moves(paths.home):
        log.warning("finished a restore that was killed")
    decoded = load(paths.config)
    for warning in decoded.warnings:
        log.warning("%s", warning.sentence(paths.config))
    check_database(paths)
    if elsewhere := serving_elsewhere(paths):
        raise elsewhere
    return decoded


def _services(
    controller: Controller, store: SqliteStore, trees: TreeFiles
) -> list[Coroutine[Any, Any, None]]:
    """Return the tasks besides the controller's own: mail, the purge of ended jobs, the removal of unneeded code, and
    the watch of idle GPUs.
    """
    state, rules, clock = controller.state, controller.rules, controller.clock
    return [
        Mailer(state, hub=controller.hub, rules=rules, clock=clock).run(),
        Retention(state, purger=store.purger, rules=rules, clock=clock).run(),
        TreeCollector(state=state, trees=trees, clock=clock).run(),
        IdleGpuWatch(state, controller.events, rules=rules, clock=clock).run(),
    ]


async def begin_start(store: SqliteStore) -> StartMaker:
    """Commit the start of this process before it contacts an agent. A fenced controller begins none.

    Returns the maker of further starts.
    """
    maker = StartMaker(
        identity=SiteIdentity(await store.controller_id(), SiteSeal(await store.site_secret())),
        host=socket.gethostname(),
        pid=os.getpid(),
        clock=time.time,
        new_instance=partial(secrets.token_hex, INSTANCE_BYTES),
    )
    known = await store.starts()
    if known.fenced_by is None:
        await store.commit(Changes(start=maker.next(known.start, None)))
    else:
        log.error("%s", fenced_sentence(known.start, known.fenced_by))
    return maker


def check_database(paths: Paths) -> None:
    """Raise UserError if the database is missing or empty although the home has been used before.

    With a new database, the controller would assign the ids of earlier jobs again.
    """
    with contextlib.suppress(FileNotFoundError):
        if os.stat(paths.database).st_size:
            return
    existing = [
        path for path in (paths.agent, paths.trees, paths.outputs) if os.path.isdir(path) and os.listdir(path)
    ]
    if existing:
        raise UserError(
            f"{paths.database} is empty or missing, but earlier jobs have left {' and '.join(existing)}",
            "Restore a copy of the database. To start without the earlier jobs, move these folders away.",
        )


async def _reload_on(reload_requested: asyncio.Event, controller: Controller, server: ApiServer) -> None:
    """Reload the configuration after each SIGHUP. No caller waits for an answer, so errors are logged.

    Root and the controller's own user can send the signal. The kernel does not tell which of them has sent it.
    """
    uid = os.geteuid()
    sender = Principal(user=name_of(uid), uid=uid, admin=True)
    while True:
        await reload_requested.wait()
        reload_requested.clear()
        try:
            changes, _ = await controller.reload(server.paths.config)
            server.audit.reloaded_by_signal(sender, changes)
        except UserError as error:
            server.audit.reloaded_by_signal(sender, error)
            problems = error.problems if isinstance(error, ConfigError) else ()
            for problem in problems:
                log.error("configuration not loaded: %s", problem.sentence(server.paths.config))
            if not problems:
                log.error("configuration not loaded: %s", error)


async def _add_this_machine(controller: Controller) -> None:
    node = Node(name=NodeName(socket.gethostname().split(".")[0] or "local"))
    await controller.apply(NodeAdded(node=node))
    controller.fleet.connect(node)


def main() -> int:
    """Take the lock of the home folder and serve. Return the exit status."""
    parser = argument_parser("controller")
    parser.add_argument("--no-local-node", action="store_true")
    args = parser.parse_args()
    paths = Paths(args.home, wanted_engine=OWN)
    return run_process(paths, lambda: serve(paths, local_node=not args.no_local_node))


if __name__ == "__main__":
    sys.exit(main())
