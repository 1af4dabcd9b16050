"""The one table of actions: no key means two things in one place, everything is explained, and everything is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.errors import UserError
from warpdeck_tui.actions import ACTIONS, PLACES, actions_at, clashes, help_lines, key_line, read_keymap
from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.history import HistoryScreen
from warpdeck_tui.screens.job import JobScreen
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.screens.queue import QueueScreen

SCREENS = {
    "app": DeckApp,
    "queue": QueueScreen,
    "nodes": NodesScreen,
    "job": JobScreen,
    "history": HistoryScreen,
}


def test_no_key_means_two_things_in_one_place() -> None:
    assert clashes(ACTIONS) == []


def test_a_clash_is_found_and_named() -> None:
    taken = ACTIONS[0]._replace(where="queue", id="other", keys="c")
    assert clashes([*ACTIONS, taken]) == ["c means both cancel and other in queue"]
    everywhere = ACTIONS[0]._replace(where="app", id="other", keys="l")
    assert [words.rpartition(" ")[2] for words in clashes([*ACTIONS, everywhere])] == [
        "queue",
        "job",
        "history",
    ]


def test_every_action_is_explained() -> None:
    for action in ACTIONS:
        assert action.title and action.help, action
        assert not action.help.endswith("."), action


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: f"{action.where}.{action.id}")
def test_every_action_can_be_done(action: object) -> None:
    assert callable(getattr(SCREENS[action.where], f"action_{action.id}", None))  # type: ignore[attr-defined]


def test_the_help_page_begins_with_the_place_and_leaves_nothing_out() -> None:
    lines = help_lines("job", {})
    assert lines[0] == ("", PLACES["job"], "")
    assert len([line for line in lines if line[2]]) == len(ACTIONS)


def test_the_key_line_fits_and_keeps_help_and_quit() -> None:
    for place in ("queue", "nodes", "job", "history"):
        for width in (200, 80, 40, 20):
            hints = key_line(actions_at(place), {}, width)
            assert {"app.help", "app.quit"} <= {hint.command for hint in hints}
            text = "  ".join(f"{hint.key} {hint.words}" for hint in hints)
            assert len(text) <= width or len(hints) == 2


def test_other_keys_are_taken_from_the_file(folder: Path) -> None:
    path = folder / "keys.toml"
    path.write_text('[queue]\ncancel = "x"\n[app]\nshow_nodes = "2,f2"\n')
    assert read_keymap(path) == {"queue.cancel": "x", "app.show_nodes": "2,f2"}
    assert read_keymap(folder / "none.toml") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[queue]\ncancel = "H"\n', "H means both cancel and hold in queue"),
        ('[queue]\nfly = "x"\n', "there is no action queue.fly"),
        ("[queue\n", "cannot be used"),
        ("[queue]\ncancel = 3\n", "cannot be used"),
    ],
)
def test_a_wrong_file_of_keys_is_named(folder: Path, text: str, words: str) -> None:
    path = folder / "keys.toml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_keymap(path)
    assert str(path) in raised.value.message and words in raised.value.message
