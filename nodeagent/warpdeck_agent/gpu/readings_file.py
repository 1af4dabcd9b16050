"""Writes the readings of all GPUs of this node into a file of a folder that the login nodes see, for gateways to Slurm.

  readings FOLDER [NODE]

An administrator runs this program as a service on each node, under any account. It needs no controller and touches no
job. NODE is the node's name in Slurm, by default the host name up to the first dot. All users may read the file, so it tells
nothing about processes.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from contextlib import suppress
from typing import List, Optional

from warpdeck_agent.wire.jsontext import dumps
from warpdeck_agent.wire.messages import GpuInfo, GpuSample, JobSample

from .gpus import GpuReader

INTERVAL_S = 10.0
OPEN_AGAIN_S = 60.0
"""Seconds after which the driver is asked again for GPUs if it has none. It may start after this program."""


def main(argv: List[str]) -> int:
    """Write a reading at each interval until the program is ended. Returns 2 if the node's name cannot be a file's."""
    folder = argv[0]
    node = argv[1] if len(argv) > 1 else os.uname().nodename.partition(".")[0]
    if not node or "/" in node or node.startswith("."):
        print(f"warpdeck: {node!r} is not the name of a node", file=sys.stderr)
        return 2
    print(f"warpdeck: writes readings of GPUs to {folder}/{node}.json", file=sys.stderr)
    reader = GpuReader(lambda: {})
    cards: List[GpuInfo] = []
    asked_at: Optional[float] = None
    told = ""
    while True:
        if not cards and (asked_at is None or time.monotonic() - asked_at >= OPEN_AGAIN_S):
            reader, asked_at = GpuReader(lambda: {}), time.monotonic()
            cards = reader.open()
        gpus = [_without_processes(gpu) for gpu in reader.read()]
        problem = _write(folder, JobSample(node=node, at_unix=time.time(), cards=cards, gpus=gpus))
        if problem and problem != told:
            print(f"warpdeck: cannot write readings: {problem}", file=sys.stderr)
        told = problem
        time.sleep(INTERVAL_S)


def _without_processes(gpu: GpuSample) -> GpuSample:
    return dataclasses.replace(gpu, processes=[])


def _write(folder: str, line: JobSample) -> str:
    """Replace the node's file, so that a reader never sees half of it. Returns the error, or ""."""
    path = os.path.join(folder, f"{line.node}.json")
    temporary = os.path.join(folder, f".{line.node}.{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        # Never through a link that somebody else has placed there, because the program may run as root.
        made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(made, "w", encoding="utf-8") as file:
            file.write(dumps(dataclasses.asdict(line)) + "\n")
            os.fchmod(file.fileno(), 0o644)
        os.replace(temporary, path)
    except OSError as error:
        return str(error)
    return ""
