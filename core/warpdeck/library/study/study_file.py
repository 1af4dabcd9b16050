"""The file of a study:

    metric = "loss"                   # a name that the program prints
    direction = "minimize"            # or "maximize"
    trials = 100
    at_once = 8
    script = "train.sh"               # reads its parameters as variables, such as $lr

    [parameters]
    lr = { low = 1e-5, high = 1e-1, log = true }
    depth = { low = 1, high = 8 }     # whole numbers
    optimizer = ["adam", "sgd"]

    [options]                         # those of sbatch
    gpus = 1
    time = "1:00:00"

The name of the study is the name of the file without its ending, or `name`.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Literal

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.submission import read_script
from warpdeck.library.toml_file import name_of, read_toml
from warpdeck.notation.request.sweep import with_sweep

MAX_TRIALS = 100_000
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TRIALS)]
Number = int | float
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter between two numbers, both included. It is whole if both are, and `step` is its smallest difference."""

    low: Number
    high: Number
    log: bool = False
    step: Number | None = None

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


Choice = str | int | float | bool
Parameter = Range | list[Choice]


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A study as its file describes it. `script` is a path at first, and `text` the script's text."""

    metric: str
    trials: Count
    script: str
    parameters: dict[str, Parameter]
    name: str = ""
    direction: Literal["minimize", "maximize"] = "minimize"
    value: Literal["last", "best"] = "last"
    """Which of the values that a trial has printed is its result."""
    at_once: Count = 4
    """Maximum number of trials that wait or run at the same time."""
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["asha", "median", "none"] = "none"
    """How trials are chosen that are ended early. It needs a metric that is printed with its step."""
    seed: int | None = None
    max_failures: Count = 10
    """The study stops if the first trials all fail, as many as this."""
    options: dict[str, Choice] = {}
    text: str = ""


def read_study(path: str) -> Study:
    """Return the study of a file. Raises UserError."""
    study = read_toml(path, Study, verb="study")
    folder = os.path.dirname(os.path.abspath(path))
    name = study.name or name_of(path)
    if not _NAME.fullmatch(name):
        raise UserError(f"{path}: {name!r} cannot be the name of a study", 'set name = "letters-and-digits"')
    if not study.parameters:
        raise UserError(f"{path}: the study has no parameters", "add a table [parameters]")
    for key, parameter in study.parameters.items():
        _check(path, key, parameter)
    text = read_script(os.path.join(folder, study.script))
    study = msgspec.structs.replace(study, name=name, text=text)
    script_of(study, dict.fromkeys(study.parameters, "1"))  # Raises for a script that is not a shell script.
    return study


def script_of(study: Study, values: dict[str, str]) -> str:
    """Return the script of a trial, which exports its parameters. Raises UserError."""
    import shlex

    return with_sweep(study.text, " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items()))


def _check(path: str, key: str, parameter: Parameter) -> None:
    if not _VARIABLE.fullmatch(key):
        raise UserError(f"{path}: {key!r} cannot be a variable of a script", "use letters, digits and _")
    if isinstance(parameter, list):
        if not parameter:
            raise UserError(f"{path}: the parameter {key} has no values", 'write them as in ["adam", "sgd"]')
        if any(isinstance(each, str) and ("," in each or not each or ".." in each) for each in parameter):
            raise UserError(f"{path}: a value of {key} is empty or has a comma or ..", "use other values")
    elif not parameter.low < parameter.high or (parameter.log and (parameter.low <= 0 or parameter.step)):
        raise UserError(
            f"{path}: the range of {key} cannot be searched", "low < high; with log, low > 0 and no step"
        )
