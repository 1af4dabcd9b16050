"""`warpdeck.log`: metrics of a program, printed so that warpdeck and a person can read them.

A line of JSON on the standard output is all that is needed: the app draws its numbers as curves, and `warpdeck runs` has them
as columns. So a program that logs in this way runs anywhere, without a controller and without a network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

RANKS = ("RANK", "SLURM_PROCID")
"""Variables with the rank of a process, as torchrun and srun set them."""


def log(values: Mapping[str, object], *, step: int | None = None, all_ranks: bool = False) -> None:
    """Print metrics as one line of JSON, such as {"step": 100, "loss": 0.41}.

    Values are numbers, or scalars of NumPy, PyTorch or JAX. The names of nested mappings are joined by "/". Of a parallel
    program only rank 0 prints, unless `all_ranks` is true. Raises TypeError for a value that is not a number.
    """
    if not all_ranks and _rank() != 0:
        return
    line: dict[str, float | int] = {} if step is None else {"step": int(step)}
    line |= dict(_numbers(values, ""))
    print(json.dumps(line), flush=True)


def _rank() -> int:
    text = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    return int(text) if text.isdigit() else 0


def _numbers(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, float | int]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int):  # also bool
            yield f"{prefix}{name}", int(value)
        else:
            try:
                yield f"{prefix}{name}", float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError) as error:
                raise TypeError(f"the metric {prefix}{name} is not a number: {value!r}") from error
