"""Preparations before the app runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAPS = """
import sys
from threading import Barrier, Thread
from warpdeck_tui.entry import give_memory_back
if sys.argv[1:]:
    give_memory_back()
together = Barrier(4)
def take():
    kept = [bytes(2000) for _ in range(100)]
    together.wait()
threads = [Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(line.split()[1] == "---p" and line.split()[4] == "0" for line in open("/proc/self/maps")
          if 1 << 25 <= int(line.split("-")[1].split()[0], 16) - int(line.split("-")[0], 16) <= 1 << 26))
"""
"""Program that prints the number of heaps of threads. Most of each heap is reserved but unused memory."""


@pytest.mark.parametrize("words", [[], ["given back"]])
def test_threads_keep_no_separate_heaps(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", HEAPS, *words], capture_output=True, text=True, check=True)
    assert (int(done.stdout) == 0) == bool(words)
