"""The import of asyncssh at the start of a controller."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path


def started_programs(statement: str, folder: Path) -> set[str]:
    """Run a Python statement, and return the compilers and linkers on PATH that it started."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("gcc", "cc", "ld"):
        (programs / name).write_text(f"#!/bin/sh\n: > {folder}/started.$(basename $0)\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    environ = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"} | {"PATH": path}
    subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport os\nassert os.environ['PATH'] == {path!r}"],
        cwd=programs,
        env=environ,
        check=True,
        timeout=60,
    )
    return {each.suffix for each in folder.glob("started.*")}


def test_a_controller_starts_without_a_search_for_compilers(short_tmp: Path) -> None:
    assert started_programs("import warpdeck.daemon.controller_process, asyncssh", short_tmp) == set()


def test_asyncssh_itself_searches_for_compilers_unless_liboqs_is_installed(short_tmp: Path) -> None:
    """If this fails, `fleet/asyncssh_import.py` is no longer needed."""
    assert bool(started_programs("import asyncssh", short_tmp)) == (ctypes.util.find_library("oqs") is None)
