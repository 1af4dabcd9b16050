"""Run HyperQueue's array of a thousand `true` in a separate process: `python -m tests.bench.hyperqueue FOLDER`."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from .jobs import TASKS, TRUE


def main(folder: Path) -> int:
    """Print {"array": tasks per second}."""
    hyperqueue: Any = importlib.import_module("hyperqueue")
    cluster: Any = importlib.import_module("hyperqueue.cluster")
    script = folder / "true.sh"
    script.write_text(TRUE)
    script.chmod(0o755)
    (folder / "out").mkdir()
    config = cluster.WorkerConfig(cores=os.cpu_count())
    with cluster.LocalCluster(server_dir=str(folder / "server"), worker_config=config) as local:
        client = local.client()
        job = hyperqueue.Job(default_workdir=str(folder / "out"))
        for number in range(TASKS):
            job.program(
                [str(script)],
                stdout=str(folder / f"out/{number}.out"),
                stderr=str(folder / f"out/{number}.err"),
            )
        begun = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        took = time.perf_counter() - begun
    assert len(list((folder / "out").glob("*.out"))) == TASKS, "every task has its log"
    print(json.dumps({"array": TASKS / took}), flush=True)
    os._exit(0)  # exits without waiting for HyperQueue's threads, which end late


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
