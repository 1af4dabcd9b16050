"""Every private part of a library that the code uses, with the reason. A release that changes one fails here first.

Each is used in one module only. There is no public way to the same end in the pinned release; the reason says why it is needed.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CLASS_PARTS = (
    (
        "textual.app",
        "App",
        "_display",
        "terminal_app: a frame is written cell by cell, to save bytes over SSH",
    ),
    ("textual.app", "App", "_refresh_notifications", "terminal_app: notices are drawn in one frame"),
    ("textual.app", "App", "_refresh_truecolor_filter", "theme_manager: a theme may turn to 16 colors"),
    (
        "textual.screen",
        "Screen",
        "_compositor_refresh",
        "deck_screen: a screen is painted once its widgets exist",
    ),
    (
        "textual._xterm_parser",
        "XTermParser",
        "feed",
        "escapes: Esc and a key typed soon after it are two keys",
    ),
    ("aiosqlite", "Connection", "_execute", "sqlite: one transaction is one call in the database's thread"),
    ("aiosqlite", "Connection", "_conn", "sqlite: the same"),
)
ATTRIBUTES = (
    (
        "textual.app",
        "App",
        "_filters",
        "terminal_app: control characters of users are filtered from each line",
    ),
    ("textual.app", "App", "_batch_count", "terminal_app: nothing is written during a batch"),
    ("textual.app", "App", "_driver", "lent_terminal: the terminal is lent to an interactive job"),
    ("textual._parser", "Parser", "_tokens", "escapes: the pending Esc is ended"),
    ("textual._parser", "Parser", "_gen", "escapes: the same"),
    ("textual._parser", "Parser", "_awaiting", "escapes: the same"),
)
MODULE_PARTS = (
    ("textual._compositor", "ChopsUpdate", "frame: the cells of an update are read from it"),
    ("textual._compositor", "LayoutUpdate", "frame: the same"),
    ("textual._parser", "ParseTimeout", "escapes: the pending Esc is ended"),
    ("textual.widgets._toast", "ToastRack", "terminal_app: notices are drawn in one frame"),
    (
        "functools",
        "_lru_cache_wrapper",
        "library_caches: caches of colors are emptied after a change of theme",
    ),
    ("_json", "make_scanner", "jsontext: the json package takes 7 ms to import, half of a command's time"),
    ("_json", "make_encoder", "jsontext: the same"),
    ("_json", "encode_basestring", "jsontext: the same"),
)
KNOWN = {"textual._compositor", "textual._parser", "textual._xterm_parser", "textual.widgets._toast"}


@pytest.mark.parametrize(("module", "owner", "name", "reason"), CLASS_PARTS)
def test_a_method_that_we_use_is_there(module: str, owner: str, name: str, reason: str) -> None:
    assert hasattr(getattr(importlib.import_module(module), owner), name), reason


@pytest.mark.parametrize(("module", "owner", "name", "reason"), ATTRIBUTES)
def test_an_attribute_that_we_use_is_set(module: str, owner: str, name: str, reason: str) -> None:
    source = inspect.getsource(getattr(importlib.import_module(module), owner))
    assert re.search(rf"self\.{name}\b[^=\n]*=", source), reason


@pytest.mark.parametrize(("module", "name", "reason"), MODULE_PARTS)
def test_a_name_that_we_import_is_there(module: str, name: str, reason: str) -> None:
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
