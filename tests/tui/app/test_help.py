"""The help page: its columns, and the search."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck_tui.table.actions import PLACES
from warpdeck_tui.viewmodels.shell.help_layout import SCREENS, Help, Line, found_page, help_of, help_page

ROWS = 36
"""Rows of a page on a terminal of 40 rows: without the frame, the search and the last line."""


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def page_of(place: str) -> Help:
    return help_of((place, "list", "app"), {})


@pytest.mark.parametrize("place", SCREENS)
def test_the_help_of_each_screen_has_at_most_two_pages(place: str) -> None:
    assert len(help_page(page_of(place), 116)) <= 2 * ROWS


@pytest.mark.parametrize("width", [40, 78, 103, 104, 116, 167, 168, 196])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    for place in SCREENS:
        assert max(map(len, texts(help_page(page_of(place), width)))) <= max(width, 50)


def test_the_global_keys_come_first_and_beside_them_those_of_the_screen() -> None:
    lines = texts(help_page(page_of("nodes"), 116))
    assert lines[0].split() == ["Global", "Nodes", "and", "GPUs"]
    assert lines[2].startswith("1 ") and "Queue" in lines[2]
    narrow = texts(help_page(page_of("nodes"), 78))
    assert narrow[0].startswith("Global") and any("drain" in line.lower() for line in narrow)


@pytest.mark.parametrize(
    ("text", "title"),
    [("drain", "Drain or resume"), ("kill", "Cancel"), ("^n", "Copy to form"), ("qos part", "Cancel")],
)
def test_the_search_finds_titles_words_synonyms_keys_and_contexts(text: str, title: str) -> None:
    assert any(title in line for line in texts(found_page(page_of("queue"), text, 116)))


def test_a_search_without_a_match_says_so() -> None:
    assert texts(found_page(page_of("queue"), "xyzzy", 116)) == ["No key for xyzzy. Esc clears the search"]


async def test_typing_filters_the_help_and_escape_clears_it_first(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await ui.press("question_mark")
        await ui.shows("Global", "My jobs or all")
        await ui.type("quit")
        await ui.shows("quit the app; jobs keep running")
        await ui.hides("My jobs or all")
        await ui.press("escape")
        await ui.shows("My jobs or all")
        await ui.press("pagedown")
        await ui.shows(PLACES["sessions"], "Stop forwarding")
        await ui.press("escape")
        await ui.hides("Stop forwarding")
