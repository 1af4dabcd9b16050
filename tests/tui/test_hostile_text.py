"""Text of users that would control a terminal, on all screens: names, comments, paths, reasons, logs and terminals."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
import pytest

from tests.tui.pictures import shows, wait_until_unchanged
from tests.tui.static_cluster import StaticCore
from warpdeck.base.paths import Paths
from warpdeck.client.peek_terminal import Glance
from warpdeck.protocol.results import Delta
from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.site_tabs import TABS

WORDS = "e\u0301\x1b]52;c;AAAA\x07\x1b[2J\u202eb\u2066c\x9bd\u200f\x7f\rFORGED\nFORGED\x0bFORGED\u200b\u2028e"
"""A combining accent, OSC 52, CSI, direction marks, C1, four kinds of line breaks, and a zero-width space."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OWN_FIELDS = frozenset(
    [
        "state",
        "state_short",
        "label",
        "exit_code",
        "exit_cause",
        "uuid",
        "job",
        "verdict",
        "repeat",
        "isolation",
        "kind",
        "node_list",
        "gpu_type",
        "type",
    ]
)
"""Fields that the controller writes itself: numbers, kinds and names of nodes."""
EMPTY_FIELDS = frozenset(["comment", "message", "notice", "submit_line"])
"""Fields that are empty in the static cluster, but may have a value."""


def hostile(value: Any) -> Any:
    """Return the value with WORDS added to each text that a user or a user's program can choose."""
    match value:
        case str():
            return value and value + WORDS
        case list():
            return [hostile(each) for each in value]
        case Glance():
            return Glance(value.data and WORDS.encode() + value.data, value.offset)
        case tuple():
            return tuple(hostile(each) for each in value)
        case dict():
            return {key: hostile(each) for key, each in value.items()}
        case msgspec.Struct():
            fields = {
                name: getattr(value, name) for name in value.__struct_fields__ if name not in OWN_FIELDS
            }
            changed = {
                name: WORDS if name in EMPTY_FIELDS else hostile(each) for name, each in fields.items()
            }
            return msgspec.structs.replace(value, **changed)
    return value


class Hostile:
    """Wraps an object and adds WORDS to all its answers."""

    def __init__(self, answering: Any) -> None:
        self._answering = answering

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._answering, name)

        async def answer(*words: Any, **options: Any) -> Any:
            return hostile(await call(*words, **options))

        return answer


class HostileCore(Hostile):
    paths = StaticCore.paths

    def __init__(self) -> None:
        super().__init__(StaticCore())

    async def watch(self, listener: Any) -> None:
        class HostileListener:
            def linked(self, user: str) -> None:
                listener.linked(hostile(user))

            def told(self, delta: Delta) -> None:
                listener.told(
                    msgspec.structs.replace(delta, jobs=hostile(delta.jobs), nodes=hostile(delta.nodes))
                )

        await self._answering.watch(HostileListener())

    async def follow_log(self, job: str, **options: Any) -> AsyncGenerator[tuple[int, bytes], None]:
        async for at, data in self._answering.follow_log(job, **options):
            yield at, data + WORDS.encode()


pytestmark = pytest.mark.usefixtures("static_environment")
TITLES = [tab.title for tab in TABS.values()]
WALKS: dict[str, Sequence[tuple[tuple[str, ...], str]]] = {
    "queue": (((), "llama-70b"), (("L",), "Time limit")),
    "many": ((("V", "c"), "Cancel"),),
    "palette": ((("colon", *"llama"), "Palette"),),
    "nodes": ((("2",), "gpu08"), (("o",), "free:"), (("p",), "node gpu01")),
    "past": ((("2", "less_than_sign"), "averages over"),),
    "idle": ((("2", "I"), "wasted"),),
    "drain": ((("2", "d"), "Drain"),),
    "job": (
        (("enter",), "[Log]"),
        (("m",), "[Metrics]"),
        (("d",), "[Details]"),
        (("p",), "[GPUs]"),
        (("s",), "[Code]"),
        (("e",), "[Events]"),
    ),
    "history": ((("4",), "exit 1"), (("b",), "BY USER")),
    "sessions": ((("5",), "device_count"),),
    "site": ((("6",), "[Partitions]"), *((("tab",), f"[{title}]") for title in TITLES[1:])),
    "reservation": ((("6", "tab", "e"), "class"),),
    "form": ((("g", "ctrl+n"), "New job"),),
}
"""Paths through the screens from the queue: keys, and a text that the screen shows then."""
NO_USER_TEXT = ("[Metrics]", "[Code]", f"[{TITLES[-1]}]")
"""Screens that show no text of users."""


@pytest.mark.parametrize("walk", WALKS)
async def test_no_screen_contains_terminal_control_characters(walk: str) -> None:
    app = DeckApp(Paths("/nowhere"), everybody=True)
    app.core = HostileCore()  # type: ignore[assignment]
    async with app.run_test(size=(200, 60)) as pilot:
        await shows(pilot, app, ("llama-70b",))
        for keys, there in WALKS[walk]:
            await pilot.press(*keys)
            await shows(pilot, app, (there,) if there in NO_USER_TEXT else (there, WORDS[:2]))
            lines = [strip.text for strip in await wait_until_unchanged(pilot, app)]
            assert not CONTROL.search("".join(lines)), lines
        app.workers.cancel_all()
