"""The page about the Python library."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import warpdeck

from .markdown import block, page, prose


def _signature(found: Any) -> str:
    try:
        # The default is the interpreter that runs, which lies elsewhere on each machine.
        text = str(inspect.signature(found)).replace(repr(sys.executable), "sys.executable")
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r"((?::|->) )'([^']*)'", r"\1\2", text)  # annotations are texts, defaults stay quoted
    text = re.sub(r"(?:[a-z_]+\.)+(?=[A-Z])", "", text)
    return re.sub(r"^\(self(, /)?(, )?", "(", text)


def _members(found: type) -> Iterator[tuple[str, str, str]]:
    """Yield (name, how it is used, text) of the public members that a class itself defines."""
    for name, value in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name, name, inspect.getdoc(value) or ""
        elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            waits = "await " if inspect.iscoroutinefunction(inner) else ""
            yield name, f"{waits}{name}{_signature(inner)}", inspect.getdoc(inner) or ""


def python_page() -> str:
    """Return the page of the Python library."""
    parts = []
    for name in warpdeck.__all__:
        found = getattr(warpdeck, name)
        head = f"class {name}" + (_signature(found.__init__) if "__init__" in vars(found) else "")
        parts += [
            f"## {name}\n",
            block(head.partition(" -> ")[0], "python"),
            prose(inspect.getdoc(found) or ""),
        ]
        for member, how, text in _members(found):
            parts += [f"### {name}.{member}\n", block(how, "python"), prose(text)]
    return page(
        "Python library",
        "`import warpdeck` gives programs and notebooks the classes below. All calls are typed.\n",
        *parts,
    )
