"""The user's own keys: presets, the key file, and one message for each error in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir
from warpdeck_tui.table.actions import ACTIONS
from warpdeck_tui.table.bindings import clashes, keys_of
from warpdeck_tui.user_files.keymap import MAX_KEYS_BYTES, NO_KEYMAP, PRESETS, keymap_lines, read_keymap


def written(folder: Path, text: str) -> Path:
    path = folder / "keys.toml"
    path.write_text(text)
    return path


def test_keys_are_read_from_the_file(folder: Path) -> None:
    path = written(
        folder, '[queue]\ncancel = "x"\nmark = "?, ctrl+_"\n[app]\nshow_nodes = "2,f2"\nhelp = "f1"\n'
    )
    assert read_keymap(path).keys == {
        "queue.cancel": "x",
        "queue.mark": "question_mark,ctrl+underscore",
        "app.show_nodes": "2,f2",
        "app.help": "f1",
    }
    assert read_keymap(folder / "none.toml") == NO_KEYMAP


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_no_conflicts_and_only_known_actions(folder: Path, preset: str) -> None:
    keymap = read_keymap(written(folder, f'preset = "{preset}"\n'))
    assert keymap.preset == preset and keymap.keys == PRESETS[preset]
    assert set(keymap.keys) <= {f"{action.where}.{action.id}" for action in ACTIONS}
    assert clashes(action._replace(keys=keys_of(action, keymap.keys)) for action in ACTIONS) == []


def test_the_users_keys_override_the_preset(folder: Path) -> None:
    keymap = read_keymap(written(folder, 'preset = "k9s"\n[queue]\ncancel = "x"\n'))
    assert keymap.keys["queue.cancel"] == "x" and keymap.keys["job.cancel"] == "ctrl+k,c"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[queue]\ncancel = "H"\n', "H means both cancel and hold in queue"),
        ('[queue]\nfly = "x"\n', "No such action: queue.fly"),
        ('[sky]\nfly = "x"\n', "No such section: [sky]"),
        ('cancel = "x"\n', "cancel is not in a section"),
        ('preset = "emacs"\n', "No such preset: emacs"),
        ('[queue]\ncancel = "ctrl+"\n', 'No such key: "ctrl+"'),
        ('[queue]\ncancel = "x,,y"\n', 'No such key: ""'),
        ('[queue]\ncancel = "pgdown"\n', 'No such key: "pgdown"'),
        ("[queue\n", "Cannot use"),
        ("[queue]\ncancel = 3\n", "Cannot use"),
        ("#" * (MAX_KEYS_BYTES + 1), "larger than 64 KiB"),
    ],
)
def test_an_error_in_the_key_file_names_the_file(folder: Path, text: str, words: str) -> None:
    path = written(folder, text)
    with pytest.raises(UserError) as raised:
        read_keymap(path)
    assert str(path) in raised.value.message and words in raised.value.message
    assert "\n" not in raised.value.message and raised.value.hint


def test_the_key_page_lists_every_action_and_the_changed_keys(folder: Path) -> None:
    path = written(folder, '[queue]\ncancel = "x"\nmark = ""\n')
    lines = keymap_lines(read_keymap(path), path)
    assert str(path) in lines[0][1]
    assert ("x", "cancel", "cancel the job (default: c)") in lines
    assert ("", "mark", "mark the row; actions then apply to all marked rows (default: Space)") in lines
    assert {action.id for action in ACTIONS} <= {title for _, title, _ in lines}


async def test_the_key_file_is_read_again_when_the_key_page_opens(folder: Path) -> None:
    config = Path(config_dir())
    config.mkdir(parents=True)
    async with run_app(folder) as ui:
        await ui.cluster.submit("job")
        await ui.shows("● R", "c Cancel")
        (config / "keys.toml").write_text('preset = "k9s"\n[queue]\ncancel = "x"\nhold = ""\n')
        await ui.press("colon")
        await ui.type("key bindings")
        await ui.shows("how to assign other keys")
        await ui.press("enter")
        await ui.shows("preset k9s", "[queue]")
        await ui.press("escape")
        await ui.shows("x Cancel")
        await ui.press("x")
        await ui.shows("Cancel job 1?")


async def test_a_removed_key_does_nothing(folder: Path) -> None:
    config = Path(config_dir())
    config.mkdir(parents=True)
    (config / "keys.toml").write_text('[queue]\nmark = ""\n')
    async with run_app(folder) as ui:
        await ui.cluster.submit("job")
        await ui.shows("● R")
        await ui.press("space", "u")
        await ui.shows("all jobs")
        assert "marked" not in ui.text()
