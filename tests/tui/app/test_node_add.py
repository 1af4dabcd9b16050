"""The dialog that adds a machine: a rejected host key, and a machine whose setup is still running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tests.tui.app.app_pilot import run_app

from warpdeck.base.errors import UserError
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.screens.node_add import NodeAdd

HOST_KEY_ERROR = UserError(
    "unknown host key",
    code="host_key",
    details={"fingerprint": "SHA256:abc", "key_type": "ed25519", "host": "gpu99"},
)


class Machines:
    """Implements only `node_add` of the core: requests the host key, and then never ends."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    async def node_add(
        self, target: str, *, name: str, accept_host_key: str, progress: Callable[[str], None]
    ) -> NodeRow:
        self.requests.append((target, accept_host_key))
        if not accept_host_key:
            raise HOST_KEY_ERROR
        progress("agent copied")
        return await asyncio.Event().wait()  # type: ignore[return-value]


async def test_another_machine_can_be_entered_after_a_rejected_host_key(folder: Path) -> None:
    machines = Machines()
    async with run_app(folder) as ui:
        ui.app.push_screen(NodeAdd(cast(Core, machines)))
        await ui.shows("Add a node")
        await ui.type("gpu99")
        await ui.press("enter")
        await ui.shows("SHA256:abc", "Type yes")
        await ui.type("no")
        await ui.press("enter")
        await ui.shows("Host key not accepted; nothing was changed")
        await ui.hides("SHA256:abc")
        await ui.type("gpu98")
        await ui.shows("node add gpu98")
        await ui.press("enter")
        await ui.shows("SHA256:abc")
        assert machines.requests == [("gpu99", ""), ("gpu98", "")]


async def test_a_running_setup_is_not_repeated_and_leaving_shows_a_notification(
    folder: Path,
) -> None:
    machines = Machines()
    async with run_app(folder) as ui:
        ui.app.push_screen(NodeAdd(cast(Core, machines)))
        await ui.shows("Add a node")
        await ui.type("gpu99")
        await ui.press("enter")
        await ui.shows("SHA256:abc")
        await ui.type("yes")
        await ui.press("enter")
        await ui.shows("agent copied")
        await ui.press("enter")
        await ui.shows("Still adding gpu99")
        assert machines.requests == [("gpu99", ""), ("gpu99", "SHA256:abc")]
        await ui.press("escape")
        await ui.shows_notification("Still adding gpu99. It appears in the list of nodes when it is ready")
