"""The table of handlers: it is complete, and it refuses what the scheduler cannot do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tests.support.core import make_request
from tests.support.served import served

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.engines.native.site import EVERYTHING, NativeSite
from warpdeck.ports.engine import UNSUPPORTED, Action
from warpdeck.protocol import requests
from warpdeck.protocol.request_base import RequestMessage, message_kinds
from warpdeck.server.handlers import Handlers
from warpdeck.server.server import ApiServer

REASON = "This site's scheduler cannot hold jobs."


class SiteWithoutHolds(NativeSite):
    """A scheduler that cannot hold jobs."""

    def capabilities(self) -> Mapping[Action, str]:
        return {**EVERYTHING, Action.HOLD: REASON}


async def test_each_request_has_a_handler_and_each_action_is_a_request(short_tmp: Path) -> None:
    kinds = set(message_kinds(RequestMessage))
    tags = {kind.__struct_config__.tag for kind in kinds}
    assert {str(action) for action in Action} <= tags
    async with served(short_tmp / "h") as site:
        assert set(Handlers(site.server.engine).table) == kinds


async def test_an_impossible_action_is_refused_with_the_engines_reason(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        engine = site.server.engine
        native = engine.site
        assert isinstance(native, NativeSite)
        limited = SiteWithoutHolds(**{each.name: getattr(native, each.name) for each in fields(native)})
        paths = Paths(str(short_tmp / "limited"))
        Path(paths.home).mkdir()
        server = ApiServer(
            replace(engine, site=limited), paths, stop=asyncio.Event(), clock=site.controller.clock
        )
        await server.start()
        async with await AsyncioClient.connect(paths, start=False) as client:
            made = await client.ask(requests.Submit(request=make_request(hold=True)))
            with pytest.raises(UserError) as refused:
                await client.ask(requests.Hold(jobs=(made.label,)))
            assert (refused.value.message, refused.value.code) == (REASON, UNSUPPORTED)
            assert (await client.ask(requests.Release(jobs=(made.label,)))).jobs == [made.label]
        await server.close()
