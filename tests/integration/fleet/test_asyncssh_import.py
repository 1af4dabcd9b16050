"""The import of asyncssh, which only the first contact of another host pays for."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


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


def test_asyncssh_is_imported_without_a_search_for_compilers(short_tmp: Path) -> None:
    assert started_programs("import warpdeck.fleet.ssh.deploy, asyncssh", short_tmp) == set()


@pytest.mark.parametrize("process", ["controller_process", "gateway_process"])
def test_a_process_starts_without_packages_that_few_sites_need(process: str) -> None:
    code = f"import sys, warpdeck.daemon.{process}\nprint(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split()
    assert not {"asyncssh", "cryptography", "prometheus_client"} & set(loaded)


def test_asyncssh_itself_searches_for_compilers_unless_liboqs_is_installed(short_tmp: Path) -> None:
    """If this fails, `fleet/ssh/asyncssh_import.py` is no longer needed."""
    assert bool(started_programs("import asyncssh", short_tmp)) == (ctypes.util.find_library("oqs") is None)
