"""The sentence below a field of a struct, read from the source text.

Python keeps no docstrings of fields.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

import msgspec


@cache
def _field_texts(struct: type) -> dict[str, str]:
    """Return field -> the sentence below it in the source. Python keeps docstrings of classes, and none of fields."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for first, second in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name):
            value = second.value if isinstance(second, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                texts[first.target.id] = value.value
    return texts


def field_text(struct: type, name: str) -> str:
    """Return the sentence of a field, also of one that a base of the struct has."""
    for each in struct.__mro__:
        if each.__module__ != "builtins" and name in getattr(each, "__annotations__", {}):
            return _field_texts(each).get(name, "")
    return ""


def default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else msgspec.NODEFAULT
