"""Every screen looks as it was last looked at: at three sizes, in three themes, over data that stand still."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.pictures import SCENES, SIZES, freeze, path_of, take

HOW = "if that is meant: python -m tests.tui.pictures (and with a folder to look at them as SVG)"


@pytest.fixture(autouse=True)
def stands_still(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(short_tmp))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(short_tmp)
    freeze(monkeypatch.setattr, monkeypatch.setenv)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", SCENES)
async def test_a_screen_looks_as_it_did(name: str) -> None:
    for size, picture in (await take(name)).items():
        kept = path_of(name, size).read_text()
        assert picture.splitlines() == kept.splitlines(), f"{name} at {size} looks different; {HOW}"


def test_what_is_kept_is_what_is_taken() -> None:
    wanted = {f"{name}-{width}x{height}.txt" for name in SCENES for width, height in SIZES}
    assert set(os.listdir(path_of("queue", "80x24").parent)) == wanted
