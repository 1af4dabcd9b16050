"""The page about the keys and settings of the app."""

from __future__ import annotations

import typing

import msgspec

from warpdeck_tui.table.actions import ACTIONS, PLACES, Action
from warpdeck_tui.table.bindings import key_words
from warpdeck_tui.user_files.keymap import PRESETS
from warpdeck_tui.user_files.settings import Settings

from .configuration import form_of, written
from .fields import default
from .markdown import block, cell, code, page, sentence, table


def app_page() -> str:
    """Return the page of the app's keys and files."""
    parts = []
    for place, title in PLACES.items():
        found: list[Action] = [action for action in ACTIONS if action.where == place]
        lines = [
            [
                code(key_words(each.keys)),
                cell(each.title),
                cell(sentence(each.help)),
                code(f"{place}.{each.id}"),
                "yes" * each.changes,
            ]
            for each in found
        ]
        head = ["Key", "Action", "What it does", "Id", "Changes something"]
        parts += [f"### {title}\n", table(head, lines)]
    presets = [
        [code(name), code(action), code(key_words(keys))]
        for name, moved in PRESETS.items()
        for action, keys in moved.items()
    ]
    hints = typing.get_type_hints(Settings)
    settings = [
        [code(field.name), form_of(hints[field.name]), written(hints[field.name], default(field))]
        for field in msgspec.structs.fields(Settings)
    ]
    return page(
        "Keys and settings of the app",
        "`?` shows the keys of the current screen. `--readonly` switches off the actions that change something. `^x` is "
        "Ctrl and x, `S-Tab` is Shift and Tab.\n",
        "## Keys\n",
        *parts,
        "## keys.toml\n",
        "`keys.toml` gives actions other keys. It lies in `~/.config/warpdeck`, or in `$WARPDECK_HOME/config` where WARPDECK_HOME is "
        "set. A table is a place and a key in it is an action, as in the column Id above. Several keys are separated by commas, and "
        "an empty text takes the key away. `preset` names a set of keys to begin with.\n",
        block('preset = "k9s"\n\n[queue]\ncancel = "x"\nmark = ""\n\n[app]\nshow_nodes = "2,f2"', "toml"),
        table(["Preset", "Action", "Keys"], presets),
        "## app.toml\n",
        "`app.toml` in the same folder holds what the app should do every time.\n",
        table(["Key", "Value", "Default"], settings),
    )
