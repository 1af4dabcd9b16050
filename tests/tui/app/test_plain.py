"""Each screen as text, once; and the app opened at one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import ME, on_stage

from warpdeck.cli.main import main
from warpdeck.errors import UserError
from warpdeck_tui.plain import SCREENS, screen_text
from warpdeck_tui.signs import in_words

SAYS = {
    "queue": ("JOB", "llama", "R", "gpu01"),
    "gpus": ("utilisation:", "gpu01 mixed: ", "%", "owner:"),
    "nodes": ("NODE", "gpu02"),
    "node": ("gpu01", "GPU 0", "driver"),
    "job": ("llama", "runs in", "the end of its output", "step"),
    "history": ("of 1 jobs that have ended", "over", "exit 0"),
    "usage": ("GPU-hours", ME),
    "idle": ("every GPU that is held is used",),
    "sessions": ("1 session", "shell"),
    "site": (
        "partitions:",
        "WHO MAY USE IT",
        "reservations:",
        "none",
        "shares:",
        "drains:",
        "gpu02",
        "submitted by",
    ),
}


async def test_every_screen_says_what_it_shows(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["over"] = (0.0, 0)
        job = await stage.cluster.submit("llama", script="#!/bin/sh\n")
        await stage.cluster.submit("over")
        await stage.cluster.submit_shell()
        await stage.cluster.submit("naïve-世", user="nobody")
        await stage.shows("✓ CD", "shell", "llama")
        assert set(SAYS) == set(SCREENS)
        for screen, words in SAYS.items():
            what = {"job": str(job.id), "node": "gpu01"}.get(screen, "")
            text = "\n".join(await screen_text(stage.cluster.paths, screen, what, ME))
            assert all(word in text for word in words), f"{screen}: {text}"
            assert not set(text) & set("\x1b█▌●"), screen
            assert "naïve-世" not in text or screen in ("node", "nodes", "gpus", "site")
        text = "\n".join(await screen_text(stage.cluster.paths, "queue", "", None))
        assert "naïve-世" in text
        with pytest.raises(UserError, match="no node gpu77"):
            await screen_text(stage.cluster.paths, "node", "gpu77", None)


def test_signs_become_words_and_names_stay() -> None:
    assert in_words("● R naïve-世 ▌░ …") == "* R naïve-世 >: ~"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("job",), "warpdeck screen job wants a job"),
        (("queue", "12"), "is of nothing in particular"),
        (("usage",), "is printed only"),
        (("nowhere",), "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["screen", *words]) != 0
    assert said in capsys.readouterr().err


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
async def test_the_app_begins_where_it_was_told_to(folder: Path, at: tuple[str, str], place: str) -> None:
    async with on_stage(folder, at=at) as stage:
        await stage.until(lambda: getattr(stage.app.screen, "place", "") == place, place)
        await stage.press("1")
        await stage.shows("jobs of")
