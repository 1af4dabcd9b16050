"""Names of the classes of messages and rows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter

from warpdeck import protocol


def test_no_two_classes_of_the_protocol_have_the_same_name() -> None:
    modules = [f"{protocol.__name__}.{each.name}" for each in pkgutil.iter_modules(protocol.__path__)]
    names = Counter(
        name
        for module in map(importlib.import_module, modules)
        for name, found in vars(module).items()
        if inspect.isclass(found) and found.__module__ == module.__name__
    )
    assert len(names) > 50
    assert [name for name, count in names.items() if count > 1] == []
