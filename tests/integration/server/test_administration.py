"""Requests of admins are completed even if the client disconnects."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.served import Raw, served
from tests.support.waiting import eventually_async

from warpdeck.config import Config


@pytest.mark.parametrize(
    ("message_type", "fields"),
    [("reload", {}), ("amend", {"changes": [{"path": ["partitions", "gpu"], "values": {}}]})],
)
async def test_a_configuration_change_completes_although_its_client_disconnects(
    short_tmp: Path, message_type: str, fields: dict[str, object]
) -> None:
    begun, go, reported = asyncio.Event(), asyncio.Event(), list[Config]()

    async def slowly(config: Config) -> None:
        begun.set()
        await go.wait()
        reported.append(config)

    async with served(short_tmp / "h") as site:
        Path(site.paths.config).write_text("" if message_type == "amend" else "[partitions.gpu]\n")
        site.controller.rules.on_reload = slowly
        raw = await Raw.connect(site.paths)
        raw.send(message_type, id=1, **fields)
        await begun.wait()
        await raw.close()
        await eventually_async(
            lambda: not site.server.connections, what="the controller has noticed the change"
        )
        go.set()
        await eventually_async(lambda: bool(reported), what="the other requests are done too")
        assert list(reported[0].partitions) == ["gpu"]
