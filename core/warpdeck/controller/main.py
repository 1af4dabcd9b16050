"""python -m warpdeck.controller.main --home FOLDER: the controller's process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import socket
import sys
import time

import uvloop

from warpdeck.api.server import ApiServer
from warpdeck.errors import StoreError, UserError
from warpdeck.fleet.fleet import AgentFleet
from warpdeck.fleet.outputs import Outputs
from warpdeck.model import Node, NodeName
from warpdeck.paths import Paths
from warpdeck.store import SqliteStore

from .app import Controller
from .config import load_config
from .daemon import rotate_log, take_lock
from .events import NodeAdded
from .trees import TreeFiles

log = logging.getLogger("warpdeck")


async def serve(paths: Paths, *, local_node: bool) -> None:
    """Runs until SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    store = await SqliteStore.open(paths.database)
    try:
        identity = (await store.load(finished_since_unix=time.time())).controller_id
        fleet = AgentFleet(paths, identity, random.Random())
        trees = TreeFiles(paths.trees)
        controller = Controller(
            store,
            fleet,
            trees=trees,
            outputs=Outputs(fleet),
            clock=time.time,
            config=load_config(os.path.join(paths.home, "config.toml")),
            submit_host=socket.gethostname(),
        )
        await controller.load()
        server = ApiServer(controller, trees, paths, stop=stop)
        async with asyncio.TaskGroup() as group:
            loop_task = group.create_task(controller.run())
            if local_node and not controller.state.nodes:
                await _add_this_machine(controller)
            await server.start()
            log.info("serving on %s", paths.socket)
            await stop.wait()
            await server.close()
            loop_task.cancel()
    finally:
        await store.close()


async def _add_this_machine(controller: Controller) -> None:
    node = Node(name=NodeName(socket.gethostname().split(".")[0] or "local"))
    await controller.apply(NodeAdded(node=node))
    controller.fleet.connect(node)


def main() -> int:
    """Takes the home's lock and serves. Errors go to the log, one sentence each."""
    parser = argparse.ArgumentParser(prog="warpdeck.controller")
    parser.add_argument("--home", required=True)
    parser.add_argument("--no-local-node", action="store_true")
    args = parser.parse_args()
    paths = Paths(args.home)
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    try:
        lock = take_lock(paths)
        rotate_log(paths)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(paths, local_node=not args.no_local_node))
        os.close(lock)
    except (UserError, StoreError, OSError) as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
