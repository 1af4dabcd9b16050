"""Each screen printed once as plain text, and the app opened at a screen."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tui.app.app_pilot import ME, run_app

from warpdeck.base.errors import UserError
from warpdeck.cli.main import main
from warpdeck_tui import plain
from warpdeck_tui.plain import SCREENS, PlainRequest, screen_text
from warpdeck_tui.terminal.glyph_sets import in_words

EXPECTED_TEXTS = {
    "overview": (
        "GPUs, last 24 hours",
        "from ",
        "% allocated",
        "My jobs  2 running",
        "llama",
        "No job failed",
    ),
    "queue": ("JOB", "llama", "R", "gpu01"),
    "gpus": ("gpu01, mixed: 3 jobs", "GPU 0: job 1 of ", "% used", "GPU 1: free", "°C"),
    "nodes": ("NODE", "gpu02"),
    "node": ("gpu01", "GPU 0", "driver"),
    "job": ("llama", "work dir", "end of the log", "Steps:", "submitted by"),
    "history": ("of 1 finished jobs", "over", "exit 0"),
    "usage": ("GPU-hours", ME),
    "idle": ("No idle GPUs",),
    "sessions": ("1 session", "shell"),
    "site": (
        "partitions:",
        "ACCESS",
        "reservations:",
        "none",
        "shares:",
        "drains:",
        "submitted by",
    ),
}


async def test_every_screen_is_printed_as_plain_text(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["over"] = (0.0, 0)
        job = await ui.cluster.submit("llama", script="#!/bin/sh\n")
        await ui.cluster.submit("over")
        await ui.cluster.submit_shell()
        await ui.cluster.submit("naïve-世", user="nobody")
        await ui.shows("✓ CD", "shell", "llama")
        assert set(EXPECTED_TEXTS) == set(SCREENS)
        for screen, words in EXPECTED_TEXTS.items():
            what = {"job": str(job.id), "node": "gpu01"}.get(screen, "")
            text = "\n".join(await screen_text(ui.cluster.paths, screen, PlainRequest(what, ME)))
            assert all(word in text for word in words), f"{screen}: {text}"
            assert not set(text) & set("\x1b█▌●◌✓━~"), screen
            assert "naïve-世" not in text or screen in ("node", "nodes", "gpus", "site")
        text = "\n".join(await screen_text(ui.cluster.paths, "queue", PlainRequest()))
        assert "naïve-世" in text
        with pytest.raises(UserError, match="No such node: gpu77"):
            await screen_text(ui.cluster.paths, "node", PlainRequest("gpu77"))


async def test_past_nodes_are_printed_as_plain_text_and_json(folder: Path) -> None:
    async with run_app(folder) as ui:
        job = await ui.cluster.submit("llama")
        await ui.shows("llama", "gpu01")
        began = ui.app.board.jobs[job.id].start
        assert began is not None
        paths = ui.cluster.paths
        await ui.app.core.node_drain("gpu02", reason="a fan")
        text = "\n".join(await screen_text(paths, "gpus", PlainRequest(at=began)))
        assert "events of the day around this time:" in text and "gpu02 drained: a fan" in text
        assert "ago" in text and "averages over 1 s" in text and "? " not in text
        assert f"GPU 0: job {job.id} of {ME}" in text and all(unit in text for unit in ("% used", "°C", " W"))
        before = "\n".join(await screen_text(paths, "gpus", PlainRequest(at=began - 3600)))
        assert "gpu01, absent\n  no data" in before
        assert "gpu02: it was not yet a node of this cluster; data starts at " in before
        listed = "\n".join(await screen_text(paths, "nodes", PlainRequest(at=began)))
        assert "ago" in listed and f" {job.id}" in listed
        one = "\n".join(await screen_text(paths, "node", PlainRequest("gpu01", at=began)))
        assert "ago" in one and f"job: {job.id} of {ME}" in one
        options: dict[str, Any] = {"what": "", "everybody": True, "at": began, "as_json": True}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert await asyncio.to_thread(plain.main, paths, "gpus", **options) == 0
        (first, _) = json.loads(printed.getvalue())
        assert (first["step_s"], first["unknown"], first["gpus"][0]["job"]) == (1.0, "", str(job.id))
        assert first["gpus"][0]["power_w"] > 0


async def test_the_app_opens_at_a_past_time(folder: Path) -> None:
    async with run_app(folder, at=("gpus", ""), moment=time.time() - 7200) as ui:
        await ui.shows("color: utilization", "2h00 ago")


def test_symbols_of_states_are_left_out_and_names_stay() -> None:
    assert in_words("● R naïve-世 … ≈4h16 61°C") == "R naïve-世 ... about 4h16 61°C"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("job",), "the screen job needs a job id"),
        (("queue", "12"), "takes no argument"),
        (("usage",), "is only available as plain text"),
        (("nowhere",), "invalid choice"),
        (("queue", "--plain", "--at", "03:12"), "does not support --at"),
        (("gpus", "--plain", "--at", "tomorrow"), "is in the future"),
        (("gpus", "--plain", "--at", "soon"), "is not a point in time"),
        (("node", "gpu01", "--at", "03:12"), "at a past time is only available as plain text"),
        (("queue", "--json"), "does not support --json"),
    ],
)
def test_invalid_arguments_give_one_message(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["screen", *words]) != 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("at", "place"),
    [
        (("gpus", ""), "nodes"),
        (("node", "gpu01"), "node"),
        (("job", "1"), "job"),
        (("sessions", ""), "sessions"),
        (("site", ""), "admin"),
    ],
)
async def test_the_app_opens_at_the_requested_screen(folder: Path, at: tuple[str, str], place: str) -> None:
    async with run_app(folder, at=at) as ui:
        await ui.until(lambda: getattr(ui.app.screen, "place", "") == place, place)
        await ui.press("1")
        await ui.shows("jobs of")
