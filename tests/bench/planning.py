"""Print the results of bench_planning as rows of the table."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .table import Line, Measured, Table

BENCHMARKS = Path(__file__).with_name("bench_planning.py")
MEMORY = {"peak_mb": "peak", "kept_mb": "pass cache"}


def measure(table: Table) -> None:
    """Run the benchmarks. They measure CPU time, so other processes have little influence."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(BENCHMARKS)]
        options = ["--benchmark-timer=time.process_time", "--benchmark-quiet", f"--benchmark-json={found}"]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the planning benchmarks failed:\n{done.stdout}{done.stderr}")
        benchmarks = json.loads(found.read_text())["benchmarks"]
    for benchmark in benchmarks:
        info = benchmark["extra_info"]
        readings = [seconds * 1e3 for seconds in benchmark["stats"]["data"]]
        table.add(Line(info["what"], "ms", budget=info["budget_ms"]), Measured(readings))
        for key, words in MEMORY.items():
            if key in info:
                table.add(Line(f"{info['what']}: {words}", "MB"), Measured([info[key]]))
