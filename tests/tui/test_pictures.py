"""Every screen equals its stored picture at three sizes in three themes, over static data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.pictures import SCENES, SIZES, freeze, path_of, take

HOW = "if this is intended: python -m tests.tui.pictures (and with a folder to look at them as SVG)"


@pytest.fixture(autouse=True)
def static_environment(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(short_tmp))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(short_tmp)
    freeze(monkeypatch.setattr, monkeypatch.setenv)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", SCENES)
async def test_each_screen_equals_its_stored_picture(name: str) -> None:
    for size, picture in (await take(name)).items():
        kept = path_of(name, size).read_text()
        assert picture.splitlines() == kept.splitlines(), f"{name} at {size} looks different; {HOW}"


def test_stored_pictures_are_those_that_are_taken() -> None:
    wanted = {f"{name}-{width}x{height}.txt" for name in SCENES for width, height in SIZES}
    assert set(os.listdir(path_of("queue", "80x24").parent)) == wanted
