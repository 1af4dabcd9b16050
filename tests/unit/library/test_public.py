"""The public API of `import warpdeck`: all of it is named, documented and typed."""

from __future__ import annotations

import importlib.resources
import inspect
import pydoc
from collections.abc import Iterator

import pytest

import warpdeck


def public() -> Iterator[tuple[str, object]]:
    """Yield every class with its own methods and properties."""
    for name in warpdeck.__all__:
        found = getattr(warpdeck, name)
        yield name, found
        for member, value in vars(found).items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                yield f"{name}.{member}", value


@pytest.mark.parametrize(("name", "member"), public(), ids=[name for name, _ in public()])
def test_each_public_member_is_documented_and_typed(name: str, member: object) -> None:
    assert inspect.getdoc(member), name
    function = member.fget if isinstance(member, property) else member
    if inspect.isfunction(function):
        given = set(inspect.signature(function).parameters) - {"self"}
        assert given | {"return"} <= set(function.__annotations__), name


def test_help_lists_every_public_name() -> None:
    text = pydoc.plain(pydoc.render_doc(warpdeck))
    head = text.partition("PACKAGE CONTENTS")[0]
    for name in warpdeck.__all__:
        assert name in head and any(f"{start}{name}(" in text for start in ("class ", "    ")), name


def test_packages_contain_the_py_typed_marker() -> None:
    for package in ("warpdeck", "warpdeck_agent"):
        assert importlib.resources.files(package).joinpath("py.typed").is_file()
