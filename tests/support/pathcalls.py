"""Find the functions of privileged code that access the file system, and their rows in the threat model.

`python -m tests.support.pathcalls` prints the rows that are missing in the table.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "explanation" / "threat-model.md"
PRIVILEGED = (
    "nodeagent/warpdeck_agent",
    *(
        f"core/warpdeck/{each}"
        for each in (
            "backup",
            "base",
            "client",
            "protocol",
            "server",
            "config",
            "controller",
            "daemon",
            "fleet",
            "ports",
            "standby",
            "store",
        )
    ),
)
"""Code that runs as root on a site with several users."""
UNPRIVILEGED = (
    "nodeagent/warpdeck_agent/client",
    "core/warpdeck/base/submitter_address.py",
    *(f"core/warpdeck/client/{each}" for each in ("in_job", "snapshot_recorder.py", "snapshot_requests.py")),
)
"""Programs that users start under their own account."""
_TOUCHES = re.compile(
    r"open|(shutil|tempfile|tarfile)\.\w+"
    r"|os\.(open|l?stat|statvfs|access|unlink|remove|removedirs|rename|replace|mkdir|makedirs|rmdir|listdir|scandir|f?walk)"
    r"|os\.(l?chown|chmod|chdir|link|symlink|readlink|utime|mkfifo|mknod|truncate|getxattr|setxattr)"
    r"|os\.path\.(l?exists|isdir|isfile|islink|ismount|getsize|get[amc]time|realpath|samefile)"
    r"|.+\.(read_text|write_text|read_bytes|write_bytes|is_dir|is_file|iterdir|rglob)"
    r"|.+\.(u?mount|umount2|inotify_add_watch|open_unix_connection|start_unix_server)",
    re.DOTALL,
)
_ROW = re.compile(r"^\| `([^`:]+\.py)(?::([^`]+))?` \| ([^|]+) \| (\w+)\b[^|]*\|$", re.MULTILINE)
_KIND = re.compile(r"^- \*\*(\w+)\*\*", re.MULTILINE)


class Row(NamedTuple):
    """A row of the table. `function` is "" for a whole module."""

    module: str
    function: str
    guard: str


def rows() -> list[Row]:
    """Return the rows of the table."""
    return [Row(found[1], found[2] or "", found[4]) for found in _ROW.finditer(DOCUMENT.read_text())]


def kinds() -> set[str]:
    """Return the guards that the document explains."""
    return set(_KIND.findall(DOCUMENT.read_text()))


@functools.cache
def touching() -> dict[tuple[str, str], list[str]]:
    """Return the calls of each function, by module and function name (with its class)."""
    found: dict[tuple[str, str], list[str]] = {}
    for place in PRIVILEGED:
        top = ROOT / place
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            module = str(path.relative_to(ROOT))
            if not module.startswith(UNPRIVILEGED):
                for function, call in calls(ast.parse(path.read_text())):
                    found.setdefault((module, function), []).append(call)
    return found


def calls(node: ast.AST, where: str = "(module)") -> Iterator[tuple[str, str]]:
    """Yield (function, call) for each call below the node that accesses a path."""
    for child in ast.iter_child_nodes(node):
        inside = where
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = child.name if where == "(module)" else f"{where}.{child.name}"
        if isinstance(child, ast.Call) and _TOUCHES.fullmatch(name := ast.unparse(child.func)):
            yield where, name
        yield from calls(child, inside)


def missing() -> list[str]:
    """Return the missing rows in the format of the table."""
    known = {(row.module, row.function) for row in rows()}
    return [
        f"| `{module}:{function}` | {', '.join(sorted(set(calls_of_function)))} | GUARD |"
        for (module, function), calls_of_function in touching().items()
        if (module, "") not in known and (module, function) not in known
    ]


if __name__ == "__main__":
    print("\n".join(missing()))
