"""The output of simulated jobs: lines of a training, an evaluation or a data preparation. Pure."""

from __future__ import annotations

LINE_S = 1.0
"""Time between two lines."""


def opening(name: str, *, host: str, gpus: int) -> list[str]:
    """Return the first lines."""
    devices = f"{gpus} x NVIDIA H100 80GB HBM3" if gpus else "CPU only"
    return [f"{host}: {name} on {devices}", "\x1b[2mconfig   seed=7 precision=bf16 compile=on\x1b[0m"]


def line(name: str, job_id: int, number: int) -> str:
    """Return the line of second `number`, counted from 1. It is deterministic."""
    noise = ((number * 37 + job_id * 11) % 13) / 13
    if name.startswith("eval"):
        return f"question {number * 8:>6}/14042   accuracy {0.58 + 0.06 * noise:.3f}"
    if name.startswith("tokenize"):
        return f"shard {number:>4}/2048   {1.9 + noise:.2f} GB/s   {number * 31.4:.0f} M tokens"
    loss = 0.35 + 2.4 / (1 + 0.015 * number) + 0.05 * noise
    if number % 60 == 0:
        return f"\x1b[36meval  \x1b[0m step {number * 4:>6}   loss {loss + 0.04:.4f}   saved checkpoints/step-{number * 4}.pt"
    rate = 3.1 + noise
    return f"\x1b[32mtrain \x1b[0m step {number * 4:>6}   loss {loss:.4f}   lr {3e-4 / (1 + number / 900):.2e}   {rate:.1f} it/s"


def ending(name: str, *, code: int, cause: str) -> list[str]:
    """Return the last lines."""
    if cause:
        return [f"*** {cause}: received signal 15, saving and leaving"]
    if code == 0:
        return ["\x1b[1mdone\x1b[0m: all written, leaving"]
    return [
        "Traceback (most recent call last):",
        f'  File "{name.partition("-")[0]}/train.py", line 212, in <module>',
        "    loss.backward()",
        "\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate 2.50 GiB.",
    ]
