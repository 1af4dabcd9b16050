"""Random actions on a growing log: the view keeps its invariants in any order of actions."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len

from tests.tui.widgets.test_log_view import RemoteLog
from tests.tui.widgets.widget_pilot import STYLES, WidgetPilot, control_sequences, run_widget
from warpdeck_tui.widgets.log import text as log_text
from warpdeck_tui.widgets.log.filter import only
from warpdeck_tui.widgets.log.search import words
from warpdeck_tui.widgets.log.view import LogView

STEPS = 80
MOVES = (
    ["move(1)", "move(-1)", "page(1.0)", "page(-1.0)", "page(0.5)", "page(-0.5)", "side(1)", "side(-1)"]
    + ["first", "follow", "wrap", "trouble", "match(1)", "match(-1)"]
)  # fmt: skip
NOISE = [
    b"line\n", b"\x1b[31mred\n", b"\r50%", b"\r\n", b"x" * 3000, "漢字\t".encode(), b"\x00\xff\x1b]0;t", b"\n", b"loss nan\n",
    b"Traceback (most recent call last):\n",
]  # fmt: skip
SIZES = [(80, 24), (120, 40), (20, 5), (200, 60), (7, 2)]


class GrowingLog(RemoteLog):
    """A remote log that also returns data that was fed to the view."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(size_bytes)
        self.before_bytes = size_bytes
        self.fed = b""

    async def read(self, at_bytes: int, size_bytes: int, /) -> bytes:
        old = await super().read(at_bytes, size_bytes) if at_bytes < self.before_bytes else b""
        start = max(0, at_bytes - self.before_bytes)
        stop = at_bytes + size_bytes - self.before_bytes
        return old + (self.fed[start:stop] if stop > 0 else b"")


async def step(ui: WidgetPilot[LogView], file: GrowingLog, dice: random.Random) -> None:
    """Perform a random action."""
    view = ui.widget
    choice = dice.random()
    if choice < 0.3:
        data = b"".join(dice.choices(NOISE, k=dice.choice([1, 30, 800])))
        file.fed += data
        view.feed(data)
    elif choice < 0.32:
        view.end_search()
    elif choice < 0.35:
        await ui.pilot.resize_terminal(*dice.choice(SIZES))
    elif choice < 0.4:
        view.use_palette(STYLES)
    elif choice < 0.5:
        view._look_for(words(dice.choice(["far line 7", "LOSS", "50%", "none such"])))
    elif choice < 0.52:
        view._filter(only(dice.choice(["far line 77", "loss", "!line"])))
    else:
        await view.run_action(dice.choice(MOVES))
    if dice.random() < 0.5:
        await ui.pilot.pause()


def check(ui: WidgetPilot[LogView]) -> None:
    view, text = ui.widget, ui.widget._source
    assert {cell_len(row) for row in ui.rows()} <= {view.line_width}
    assert 0 <= view.scroll_y <= view.max_scroll_y
    assert text.lines.start_bytes <= text.lines.end_bytes <= text.size_bytes
    assert len(text.lines.text()) <= 3 * 2**20
    assert view.unseen >= 0


@pytest.mark.parametrize("seed", range(4))
async def test_random_actions_keep_the_views_invariants(seed: int) -> None:
    dice = random.Random(seed)
    file = GrowingLog(2_000_000 if seed % 2 else 0)
    view = LogView(styles=STYLES)
    view._source = log_text.LogText(max_bytes=2**20)
    async with run_widget(view, size=dice.choice(SIZES)) as ui:
        view.clear(at_bytes=file.before_bytes, read=file.read)
        for _ in range(STEPS):
            await step(ui, file, dice)
            check(ui)
        assert control_sequences(ui.take_written()) == ""
        view.end_search()
        view.end_filter()
        for _ in range(STEPS):
            await view.run_action("side(-1)")
        await ui.pilot.resize_terminal(80, 24)
        await view.run_action("follow")
        file.fed += b"\nthe very end\n"
        view.feed(b"\nthe very end\n")
        await ui.until(lambda: ui.rows()[-1].startswith("the very end"), "the end")
        assert view.following and view.unseen == 0
        assert view._source.lines.end_bytes == view._source.size_bytes
