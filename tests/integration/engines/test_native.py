"""The native engine keeps the contract: a controller in this process, with a real agent on this machine."""

from __future__ import annotations

import asyncio
import os
import pwd
import random
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.integration.engines.contract import EngineContract
from tests.integration.engines.rig import Rig
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually_async

from warpdeck.base.paths import Paths
from warpdeck.config import Config
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.daemon.controller_process import begin_start
from warpdeck.engines.native.engine import native_engine
from warpdeck.fleet.fleet import AgentFleet
from warpdeck.fleet.outputs import Outputs
from warpdeck.ports.caller import Caller, Principal
from warpdeck.protocol import requests as ask
from warpdeck.standby.link import StandbyLink
from warpdeck.store import SqliteStore

NODE = "n1"


async def native_rig(home: Home) -> AsyncIterator[Rig]:
    """Yield a rig with a controller whose only node is this machine."""
    paths, trees = Paths(str(home.path)), TreeFiles(str(home.path / "trees"))
    store = await SqliteStore.open(paths.database)
    starts = await begin_start(store)
    fleet = AgentFleet(paths, starts.identity, random.Random(1), on_ended=lambda: None)
    adapters = Adapters(
        store=store,
        fleet=fleet,
        trees=trees,
        outputs=Outputs(fleet, paths.outputs),
        clock=time.time,
        submit_host="here",
        starts=starts,
    )
    controller = Controller(adapters, config=Config())
    await controller.load()
    standby = StandbyLink(
        paths, store.log, controller_id=starts.identity.controller_id, on_superseded=lambda: None
    )
    engine = native_engine(controller, trees, config_path=paths.config, keeper=standby)
    uid = os.geteuid()
    user = Principal(user=pwd.getpwuid(uid).pw_name, uid=uid)
    admin = Caller(Principal(user=user.user, uid=uid, admin=True))
    running = asyncio.create_task(controller.run())
    engine.steps.start()

    async def ignore(line: str) -> None:
        return None

    try:
        added = await engine.nodes.add(admin, ask.NodeAdd(target="local", name=NODE), ignore)
        await eventually_async(
            lambda: fleet.is_up(controller.state.nodes[next(iter(controller.state.nodes))].name)
        )
        folder = home.path.parent / "work"
        folder.mkdir()
        yield Rig(
            engine=engine,
            user=Caller(user),
            other=Caller(Principal(user="somebody", uid=uid + 1)),
            admin=admin,
            node=added.name,
            folder=folder,
        )
    finally:
        engine.steps.stop()
        running.cancel()
        await asyncio.wait([running])
        await store.close()


@pytest.mark.asyncio(loop_scope="class")
class TestNative(EngineContract):
    """All tests share one controller."""

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def rig(self) -> AsyncIterator[Rig]:
        with temporary_home() as home:
            home.path.mkdir()
            async for made in native_rig(home):
                yield made
