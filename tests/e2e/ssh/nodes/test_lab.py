"""The lab of test hosts: labs of two test runs do not interfere, and a killed lab leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab

RUN = """
import sys
from tests.lab.hosts import Lab, enter_namespaces
enter_namespaces()
lab = Lab(1, gpus=0)
print(lab.base, lab.on(1, "hostname").strip(), flush=True)
if sys.stdin.readline():
    lab.close()
"""


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def traces(base: str) -> list[str]:
    """Return the folder and the processes of a lab that still exist."""
    found = [base] if Path(base).exists() else []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and base.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


def test_two_simultaneous_labs_leave_nothing_behind_even_if_killed() -> None:
    labs = [start(), start()]
    bases = []
    for lab in labs:
        assert lab.stdout is not None
        base, name = lab.stdout.readline().split()
        assert name == "host1" and len(traces(base)) > 1
        bases.append(base)
    labs[0].kill()
    labs[1].communicate("end\n", timeout=60)
    labs[0].communicate(timeout=60)
    for base in bases:
        eventually(lambda base=base: traces(base) == [], what=f"{base} is gone")
