"""Every screen equals its stored picture at three sizes in three themes, over static data."""

from __future__ import annotations

import os

import pytest

from tests.tui.pictures import SCENES, SIZES, path_of, take

pytestmark = pytest.mark.usefixtures("static_environment")
HOW = "if this is intended: python -m tests.tui.pictures (and with a folder to look at them as SVG)"


@pytest.mark.parametrize("name", SCENES)
async def test_each_screen_equals_its_stored_picture(name: str) -> None:
    for size, picture in (await take(name)).items():
        kept = path_of(name, size).read_text()
        assert picture.splitlines() == kept.splitlines(), f"{name} at {size} looks different; {HOW}"


def test_stored_pictures_are_those_that_are_taken() -> None:
    wanted = {f"{name}-{width}x{height}.txt" for name in SCENES for width, height in SIZES}
    assert set(os.listdir(path_of("queue", "80x24").parent)) == wanted
