"""Every private attribute of a library that the code uses, with the reason.

A release that changes one fails here first. Each is used in one module only, those of Textual in
`terminal/textual_private.py`. The pinned release has no public alternative.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
import textual

ROOT = Path(__file__).parents[3]
CLASS_PARTS = (
    ("textual.app", "App", "_display", "a frame is written cell by cell, to save bytes over SSH"),
    ("textual.app", "App", "_parse_action", "an action that is switched off says why"),
    ("textual.app", "App", "_refresh_notifications", "notices are drawn in one frame"),
    ("textual.app", "App", "_refresh_truecolor_filter", "a theme may turn to 16 colors"),
    ("textual.app", "App", "_unnotify", "at most three notices are shown"),
    ("textual.screen", "Screen", "_compositor_refresh", "a screen is painted once its widgets exist"),
    ("textual.screen", "Screen", "_on_timer_update", "a screen that appears is painted at once"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_enable_mouse_support", "a key switches the mouse"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_disable_mouse_support", "the same"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_sigtstp_application", "the app stops under a shell"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_sigcont_application", "the same"),
    ("textual.widgets._toast", "ToastRack", "_toast_id", "containers of expired notices are removed"),
    (
        "textual.command",
        "CommandPalette",
        "_action_command_list",
        "Enter waits for the results of the palette",
    ),
    ("textual.command", "CommandPalette", "_GATHER_COMMANDS_GROUP", "the same"),
    ("textual.command", "CommandPalette", "_gather_commands", "a closed palette searches no more"),
    ("textual._xterm_parser", "XTermParser", "feed", "Esc and a key typed soon after it are two keys"),
    ("aiosqlite", "Connection", "_execute", "sqlite: one transaction is one call in the database's thread"),
    ("aiosqlite", "Connection", "_conn", "sqlite: the same"),
)
ATTRIBUTES = (
    ("textual.app", "App", "_filters", "control characters of users are filtered from each line"),
    ("rich.console", "Console", "_color_system", "a terminal tells later that it shows RGB colors"),
    ("textual.app", "App", "_batch_count", "nothing is written during a batch"),
    ("textual.app", "App", "_driver", "the terminal is lent to an interactive job"),
    ("textual.app", "App", "_notifications", "at most three notices are shown"),
    ("textual.message_pump", "MessagePump", "_running", "nothing is written before the app runs"),
    ("textual.message_pump", "MessagePump", "_closed", "nothing is written after the app has ended"),
    ("textual.widget", "Widget", "_styles_cache", "removed widgets leave no lines in memory"),
    ("textual.widget", "Widget", "_vertical_scrollbar", "the same"),
    ("textual.widget", "Widget", "_horizontal_scrollbar", "the same"),
    ("textual.driver", "Driver", "_app", "the app ends when its terminal is closed"),
    ("textual.driver", "Driver", "_mouse", "a key switches the mouse"),
    ("textual.driver", "Driver", "_auto_restart", "the app stops under a shell"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_must_signal_resume", "the same"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_file", "writing to a closed terminal is no error"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_writer_thread", "the same"),
    ("textual._parser", "Parser", "_tokens", "the pending Esc is ended"),
    ("textual._parser", "Parser", "_gen", "the same"),
    ("textual._parser", "Parser", "_awaiting", "the same"),
    ("textual._parser", "Parser", "_timeout_time", "the same"),
)
MODULE_PARTS = (
    ("textual._compositor", "CompositorUpdate", "the cells of an update are read from it"),
    ("textual._compositor", "ChopsUpdate", "the same"),
    ("textual._compositor", "LayoutUpdate", "the same"),
    ("textual._parser", "ParseTimeout", "the pending Esc is ended"),
    ("textual.keys", "_character_to_key", "a user's keymap names keys by their characters"),
    ("textual.widgets._toast", "ToastRack", "containers of expired notices are removed"),
    ("_json", "make_scanner", "jsontext: the json package takes 7 ms to import, half of a command's time"),
    ("_json", "make_encoder", "jsontext: the same"),
    ("_json", "encode_basestring", "jsontext: the same"),
)
PRIVATE_TEXTUAL = ROOT / "tui/warpdeck_tui/terminal/textual_private.py"
"""The module of the app that uses all parts of Textual named above."""
KNOWN = {"textual._compositor", "textual._parser", "textual._xterm_parser", "textual.widgets._toast"}


@pytest.mark.parametrize(("module", "owner", "name", "reason"), CLASS_PARTS)
def test_each_private_method_in_use_exists(module: str, owner: str, name: str, reason: str) -> None:
    assert hasattr(getattr(importlib.import_module(module), owner), name), reason


@pytest.mark.parametrize(("module", "owner", "name", "reason"), ATTRIBUTES)
def test_each_private_attribute_in_use_is_set(module: str, owner: str, name: str, reason: str) -> None:
    source = inspect.getsource(getattr(importlib.import_module(module), owner))
    assert re.search(rf"self\.{name}\b[^=\n]*=", source), reason


@pytest.mark.parametrize(("module", "name", "reason"), MODULE_PARTS)
def test_each_private_name_that_is_imported_exists(module: str, name: str, reason: str) -> None:
    assert hasattr(importlib.import_module(module), name), reason


def test_no_other_private_module_of_a_package_is_imported() -> None:
    found = set()
    for folder in ("core", "tui", "nodeagent"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in re.findall(r"^\s*from (\w[\w.]*) import", path.read_text(), re.MULTILINE):
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and not top.startswith("warpdeck") and "._" in name:
                    found.add(name)
    assert found == KNOWN


@pytest.mark.parametrize(
    "path",
    [path for path in (ROOT / "tui").rglob("*.py") if path != PRIVATE_TEXTUAL],
    ids=lambda path: path.stem,
)
def test_only_one_module_of_the_app_uses_private_parts_of_textual(path: Path) -> None:
    """A private name in this module is neither imported from Textual nor only defined there."""
    tree = ast.parse(path.read_text())
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    assert not [
        each.module
        for each in imports
        if (each.module or "").startswith("textual")
        and ("._" in (each.module or "") or any(name.name.startswith("_") for name in each.names))
    ]
    used = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute) and is_private(each.attr)}
    of_textual, own = names_defined_in(Path(textual.__file__).parent), names_defined_in(ROOT / "tui")
    assert not (used & of_textual) - own - {"_exit"}  # os._exit is public


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@functools.cache
def names_defined_in(folder: Path) -> set[str]:
    """Private names that modules define as functions, attributes of `self`, or variables."""
    found = set()
    for path in folder.rglob("*.py"):
        if path == PRIVATE_TEXTUAL:
            continue
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(each.name)
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                found.add(each.attr)
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                found.add(each.id)
    return {name for name in found if is_private(name)}
