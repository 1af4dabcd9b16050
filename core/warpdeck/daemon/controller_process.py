"""The controller's process. Start it with python -m warpdeck.daemon.controller_process --home FOLDER."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import logging.handlers
import os
import random
import signal
import socket
import sys
import time

import uvloop

from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.errors import StoreError, UserError
from warpdeck.base.paths import Paths
from warpdeck.config import ConfigError, load
from warpdeck.controller.events.events import NodeAdded
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.daemon.collector import Collector
from warpdeck.daemon.log_limit import RateLimit
from warpdeck.daemon.mailer import Mailer
from warpdeck.daemon.prometheus_exporter import Exporter
from warpdeck.engines.native.engine import native_engine
from warpdeck.fleet.fleet import AgentFleet
from warpdeck.fleet.openfiles import raise_limit
from warpdeck.fleet.outputs import Outputs
from warpdeck.model import Node, NodeName
from warpdeck.server.server import ApiServer
from warpdeck.store import SqliteStore

log = logging.getLogger("warpdeck")

MAX_LOG_BYTES = 16 * 1024 * 1024
"""Size in bytes at which controller.log is renamed to controller.log.1."""


async def serve(paths: Paths, *, local_node: bool) -> None:
    """Run until SIGTERM. A SIGHUP that arrives before the controller is ready is handled as soon as it is
    ready.
    """
    stop, reload_requested = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_requested.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    decoded = load(paths.config)
    for warning in decoded.warnings:
        log.warning("%s", warning.sentence(paths.config))
    check_database(paths)
    store = await SqliteStore.open(paths.database)
    collector = Collector()
    try:
        fleet = AgentFleet(paths, await store.controller_id(), random.Random(), on_ended=collector.collect)
        trees = TreeFiles(paths.trees)
        adapters = Adapters(
            store=store,
            fleet=fleet,
            trees=trees,
            outputs=Outputs(fleet, paths.outputs),
            clock=time.time,
            submit_host=socket.gethostname(),
        )
        controller = Controller(adapters, config=decoded.config, config_lines=decoded.lines)
        with collector.loading():
            await controller.load()
        engine = native_engine(controller, trees, config_path=paths.config)
        server = ApiServer(engine, paths, stop=stop, clock=time.time)
        fleet.answer_calls(server.serve_call)
        async with asyncio.TaskGroup() as group:
            loop_task = group.create_task(controller.run())
            reloads = group.create_task(_reload_on(reload_requested, controller, paths))
            if local_node and not controller.state.nodes:
                await _add_this_machine(controller)
            await server.start()
            exporter = Exporter(controller.state, statistics=controller.statistics, hub=controller.hub)
            controller.rules.on_reload = exporter.apply_config
            await exporter.apply_config(controller.config)
            mailer = Mailer(
                controller.state, hub=controller.hub, rules=controller.rules, clock=controller.clock
            )
            sending = group.create_task(mailer.run())
            leave_starter(paths)
            log.info("serving on %s", paths.socket)
            await stop.wait()
            await server.close()
            reloads.cancel()
            sending.cancel()
            await exporter.close()
            loop_task.cancel()
    finally:
        await store.close()
        collector.close()


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


async def _reload_on(reload_requested: asyncio.Event, controller: Controller, paths: Paths) -> None:
    """Reload the configuration after each SIGHUP. No caller waits for an answer, so errors are logged."""
    while True:
        await reload_requested.wait()
        reload_requested.clear()
        try:
            await controller.reload(paths.config)
        except ConfigError as error:
            for problem in error.problems:
                log.error("configuration not loaded: %s", problem.sentence(error.file))
        except UserError as error:
            log.error("configuration not loaded: %s", error)


async def _add_this_machine(controller: Controller) -> None:
    node = Node(name=NodeName(socket.gethostname().split(".")[0] or "local"))
    await controller.apply(NodeAdded(node=node))
    controller.fleet.connect(node)


def start_log(paths: Paths) -> None:
    """Log to a file of bounded size.

    When both files are full, the older one with MAX_LOG_BYTES of log lines is deleted.
    """
    handler = logging.handlers.RotatingFileHandler(paths.log, maxBytes=MAX_LOG_BYTES, backupCount=1)
    handler.addFilter(RateLimit())
    line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=line, handlers=[handler])
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    logging.raiseExceptions = (
        # A log line that cannot be written because the disk is full is lost. An error message about it would
        # be lost as well.
        False
    )


def leave_starter(paths: Paths) -> None:
    """Redirect standard error to the log file, because its reader has ended.

    The interpreter itself may still write to standard error.
    """
    descriptor = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)


def main() -> int:
    """Take the lock of the home folder and serve. Return the exit status.

    An error at the start is printed to standard error, for the process that started this one.
    """
    parser = argparse.ArgumentParser(prog="warpdeck.controller")
    parser.add_argument("--home", required=True)
    parser.add_argument("--no-local-node", action="store_true")
    args = parser.parse_args()
    paths = Paths(args.home)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # Blocked until a handler is installed.
    os.umask(0o077)
    status = 0
    try:
        # The lock is released when the process ends. Waiting for the lock is therefore the same as waiting
        # for the process to end.
        take_lock(paths)
        start_log(paths)
        raise_limit()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(paths, local_node=not args.no_local_node))
        gc.freeze()  # With frozen objects the interpreter skips one more full collection at its exit.
    except* (UserError, StoreError, OSError) as group:
        status = 1
        _print_error(group.exceptions[0])
    except* Exception:
        status = 1
        log.exception("a bug ended the controller")
    return status


def _print_error(error: Exception) -> None:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    log.error("%s", error)
    print(error, file=sys.stderr)
    if isinstance(error, UserError) and error.hint:
        print(error.hint, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
