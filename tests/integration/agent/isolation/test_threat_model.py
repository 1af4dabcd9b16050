"""The table in docs/explanation/threat-model.md lists exactly the privileged functions that use files."""

from __future__ import annotations

import ast

import pytest
from tests.support import pathcalls


def test_every_function_that_uses_a_path_has_a_row() -> None:
    lacking = "\n".join(pathcalls.missing())
    assert not lacking, (
        f"Add these rows to docs/explanation/threat-model.md, and name their guards:\n{lacking}"
    )


def test_every_row_has_a_function_and_a_guard() -> None:
    rows, touching = pathcalls.rows(), pathcalls.touching()
    modules = {module for module, _ in touching}
    for row in rows:
        there = (row.module, row.function) in touching if row.function else row.module in modules
        place = f"{row.module}:{row.function}".rstrip(":")
        assert there, (
            f"Remove the row of {place} from docs/explanation/threat-model.md: it touches no path any more"
        )
        assert row.guard in pathcalls.kinds(), (
            f"{place}: {row.guard} is no guard of docs/explanation/threat-model.md"
        )
    assert len({row[:2] for row in rows}) == len(rows), "a function has two rows"
    lines = [line for line in pathcalls.DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    assert len(lines) == len(rows), "a row has another format than the others"


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("open(path)", [("(module)", "open")]),
        ("def f():\n    os.path.realpath(p)", [("f", "os.path.realpath")]),
        ("class A:\n    async def f(self):\n        libc.umount2(p, 0)", [("A.f", "libc.umount2")]),
        ("def f():\n    def g():\n        Path(p).read_text()", [("f.g", "Path(p).read_text")]),
        ("shutil.rmtree(p)", [("(module)", "shutil.rmtree")]),
        ("def f():\n    os.getpid()\n    hub.touch(p)\n    self.open(p)", []),
    ],
)
def test_calls_with_paths_are_found(source: str, calls: list[tuple[str, str]]) -> None:
    assert list(pathcalls.calls(ast.parse(source))) == calls
