"""Requests of admins are completed even if the client disconnects."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.served import Raw, served
from tests.support.waiting import eventually_async

from warpdeck.config import Config


@pytest.mark.parametrize(
    ("asked", "fields"),
    [("reload", {}), ("amend", {"changes": [{"path": ["partitions", "gpu"], "values": {}}]})],
)
async def test_a_configuration_comes_into_force_whole_though_its_author_hangs_up(
    short_tmp: Path, asked: str, fields: dict[str, object]
) -> None:
    begun, go, told = asyncio.Event(), asyncio.Event(), list[Config]()

    async def slowly(config: Config) -> None:
        begun.set()
        await go.wait()
        told.append(config)

    async with served(short_tmp / "h") as site:
        Path(site.paths.config).write_text("" if asked == "amend" else "[partitions.gpu]\n")
        site.controller.rules.on_reload = slowly
        raw = await Raw.connect(site.paths)
        raw.send(asked, id=1, **fields)
        await begun.wait()
        await raw.close()
        await eventually_async(lambda: not site.server.connections, what="the controller has noticed it")
        go.set()
        await eventually_async(lambda: bool(told), what="the rest is done too")
        assert list(told[0].partitions) == ["gpu"]
