"""The dialog that adds a machine: a host key that is not accepted, and a machine that is still being added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tests.tui.app.stage import on_stage

from warpdeck.base.errors import UserError
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.data.connection import Core
from warpdeck_tui.screens.node_add import NodeAdd

ASKS = UserError(
    "unknown host key",
    code="host_key",
    details={"fingerprint": "SHA256:abc", "key_type": "ed25519", "host": "gpu99"},
)


class Machines:
    """As much of the core as adds nodes: asks for the host key, then never ends."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def node_add(
        self, target: str, *, name: str, accept_host_key: str, progress: Callable[[str], None]
    ) -> NodeRow:
        self.asked.append((target, accept_host_key))
        if not accept_host_key:
            raise ASKS
        progress("agent copied")
        return await asyncio.Event().wait()  # type: ignore[return-value]


async def test_another_machine_can_be_named_after_a_host_key_was_not_accepted(folder: Path) -> None:
    machines = Machines()
    async with on_stage(folder) as stage:
        stage.app.push_screen(NodeAdd(cast(Core, machines)))
        await stage.shows("Add a node")
        await stage.type("gpu99")
        await stage.press("enter")
        await stage.shows("SHA256:abc", "Type yes")
        await stage.type("no")
        await stage.press("enter")
        await stage.shows("Host key not accepted; nothing was changed")
        await stage.hides("SHA256:abc")
        await stage.type("gpu98")
        await stage.shows("node add gpu98")
        await stage.press("enter")
        await stage.shows("SHA256:abc")
        assert machines.asked == [("gpu99", ""), ("gpu98", "")]


async def test_a_machine_that_is_being_added_is_not_begun_anew_and_one_who_leaves_is_told(
    folder: Path,
) -> None:
    machines = Machines()
    async with on_stage(folder) as stage:
        stage.app.push_screen(NodeAdd(cast(Core, machines)))
        await stage.shows("Add a node")
        await stage.type("gpu99")
        await stage.press("enter")
        await stage.shows("SHA256:abc")
        await stage.type("yes")
        await stage.press("enter")
        await stage.shows("agent copied")
        await stage.press("enter")
        await stage.shows("Still adding gpu99")
        assert machines.asked == [("gpu99", ""), ("gpu99", "SHA256:abc")]
        await stage.press("escape")
        await stage.told("Still adding gpu99. It appears in the list of nodes when it is ready")
