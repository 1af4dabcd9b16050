"""The file of a pipeline:

    [stages.prepare]
    run = "python prepare.py"             # a shell command, or script = "prepare.sh"

    [stages.train]
    script = "train.sh"
    args = ["--epochs", "10"]
    after = ["prepare"]                   # starts when all of these have succeeded
    options = { gpus = 4, time = "4:00:00" }   # those of sbatch

    [stages.evaluate]
    run = "python evaluate.py"
    after = ["train"]

The name of the pipeline is the name of the file without its ending, or `name`. Its stages run in the folder of the file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.submission import read_script
from warpdeck.library.toml_file import name_of, read_toml

MAX_STAGES = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
_OWN_OPTIONS = {"dependency": "after", "comment": "name", "job_name": "name", "wrap": "run", "chdir": "run"}
"""Options that a pipeline sets itself -> the key to use instead."""
DIGEST_DIGITS = 12
FOLDER_DIGITS = 8


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage as the file describes it. `text` is the text of its script."""

    run: str = ""
    script: str = ""
    args: list[str] = []
    after: list[str] = []
    options: dict[str, str | int | float | bool] = {}
    text: str = ""

    @property
    def digest(self) -> str:
        """Digest of the definition. If the definition changes, the stage runs again."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:DIGEST_DIGITS]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stages: dict[str, Stage]
    name: str = ""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline. Each of its stages comes after those on which it depends."""

    name: str
    folder: str
    stages: dict[str, Stage]

    @property
    def key(self) -> str:
        """The name, and a digest of the folder: pipelines of two folders may have the same name."""
        return f"{self.name}@{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:FOLDER_DIGITS]}"

    def job_name(self, stage: str) -> str:
        """Return the name of a stage's job in the queue."""
        return f"{self.name}.{stage}"


def read_pipeline(path: str) -> Pipeline:
    """Return the pipeline of a file, with the texts of its scripts. Raises UserError."""
    found = read_toml(path, _File, verb="pipeline")
    folder = os.path.dirname(os.path.abspath(path))
    name = found.name or name_of(path)
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{path}: {name!r} cannot be the name of a pipeline", 'set name = "letters-and-digits"'
        )
    if not 0 < len(found.stages) <= MAX_STAGES:
        raise UserError(
            f"{path}: a pipeline has between 1 and {MAX_STAGES} stages, not {len(found.stages)}",
            "add a table such as [stages.train]",
        )
    for key, stage in found.stages.items():
        _check(path, key, stage, found.stages)
    stages = {
        key: msgspec.structs.replace(
            stage, text=read_script(os.path.join(folder, stage.script)) if stage.script else ""
        )
        for key, stage in _ordered(path, found.stages).items()
    }
    return Pipeline(name=name, folder=folder, stages=stages)


def _check(path: str, key: str, stage: Stage, stages: Mapping[str, Stage]) -> None:
    """Raise UserError if a stage is invalid on its own."""
    if not _NAME.fullmatch(key):
        raise UserError(f"{path}: {key!r} cannot be the name of a stage", "use letters, digits, _ and -")
    if bool(stage.run.strip()) == bool(stage.script):
        raise UserError(
            f"{path}: the stage {key} needs either run or script", 'for example run = "python train.py"'
        )
    if stage.run and stage.args:
        raise UserError(f"{path}: the stage {key} has args, but no script", "write the arguments into run")
    if len(set(stage.after)) < len(stage.after):
        raise UserError(f"{path}: the stage {key} names a stage twice in after", "remove one of them")
    if unknown := [each for each in stage.after if each not in stages]:
        raise UserError(
            f"{path}: the stage {key} comes after {unknown[0]}, which does not exist",
            f"the stages are {', '.join(stages)}",
        )
    for option in stage.options:
        if instead := _OWN_OPTIONS.get(option.replace("-", "_")):
            raise UserError(
                f"{path}: the stage {key} cannot have the option {option}", f"use the key {instead}"
            )


def _ordered(path: str, stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Return the stages so that each comes after those on which it depends. Raises UserError for a circle."""
    try:
        order = list(TopologicalSorter({key: stage.after for key, stage in stages.items()}).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise UserError(
            f"{path}: the stages wait for each other: {circle}", "remove one of them from after"
        ) from error
    return {key: stages[key] for key in order}
