"""The stand-in NVML library. It is built with gcc and reads its values from a text file after every change."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("fakenvml.c")


def build_fake_nvml(folder: Path) -> Path:
    """Build libnvidia-ml.so.1 in the folder, for LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    argv = ["gcc", "-shared", "-fPIC", "-O2", "-w", "-o", str(library), str(SOURCE), "-lpthread"]
    subprocess.run(argv, check=True, capture_output=True)
    return library


def write_state(
    path: Path, *, gpus: int, util: int = 0, processes: Sequence[tuple[int, int, int]] = ()
) -> None:
    """Write the state of a number of H100s. Processes are given as (GPU, pid, bytes)."""
    lines = ["driver 550.54.15", "cuda 12040"]
    for index in range(gpus):
        used = sum(size for gpu, _, size in processes if gpu == index)
        values = (
            f"util={util} memutil={util // 2} used={used} temp={35 + util // 3} power={70000 + util * 6000}"
        )
        lines.append(f'gpu {index} name="NVIDIA H100 80GB HBM3" {values} fan=-1')
    lines += [f"proc {gpu} pid={pid} mem={size} type=C sm={util} memutil=5" for gpu, pid, size in processes]
    show(path, "\n".join(lines) + "\n")


def show(path: Path, text: str) -> None:
    """Replace the state file atomically."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)
