"""No modules import each other in a cycle, however they import: at the top, in a function, or for type checkers only.

import-linter checks the order of the packages. It does not see cycles between the modules of one package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"warpdeck": "core", "warpdeck_tui": "tui", "warpdeck_agent": "nodeagent"}
"""Top-level package -> folder in which it lies."""


def modules() -> dict[str, Path]:
    """Return the file of each module of the product."""
    found = {}
    for package, folder in PACKAGES.items():
        for file in (ROOT / folder / package).rglob("*.py"):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(module: str, *, is_package: bool, tree: ast.AST) -> Iterator[str]:
    """Yield the full names that a module imports anywhere: of modules, and of attributes in them."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                parents = module.split(".")
                origin = parents[: len(parents) - level + is_package] if level else []
                base = ".".join([*origin, *filter(None, [source])])
                yield from (f"{base}.{each.name}" for each in names)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def graph_of(files: Mapping[str, Path]) -> dict[str, Set[str]]:
    """Return the modules that each module imports. The name of an attribute counts as an import of its module."""
    graph: dict[str, Set[str]] = {}
    for module, file in files.items():
        names = imported(module, is_package=file.name == "__init__.py", tree=ast.parse(file.read_text()))
        found = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = found & files.keys() - {module}
    return graph


def cycle_in(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the modules of one cycle in the order of their imports, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(module) for module in reversed(error.args[1])]
    return []


def test_no_modules_import_each_other_in_a_cycle() -> None:
    assert cycle_in(graph_of(modules())) == []


@pytest.mark.parametrize(
    "line",
    [
        "from package.second import name",
        "from package import second",
        "from . import second",
        "from .second import name",
        "import package.second",
        "def lazy():\n    from .second import name",
        "if TYPE_CHECKING:\n    from .second import Name",
        'module = importlib.import_module("package.second")',
    ],
)
def test_each_kind_of_import_that_closes_a_cycle_is_found(tmp_path: Path, line: str) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(line)
    second.write_text("from .inner import each")
    (tmp_path / "inner").mkdir()
    inner = tmp_path / "inner" / "__init__.py"
    inner.write_text("from .. import first")
    files = {"package.first": first, "package.second": second, "package.inner": inner}
    cycle = cycle_in(graph_of(files))
    assert len(cycle) == 4 and set(cycle) == set(files)
