"""`warpdeck study`: trials of a program, proposed by Optuna, each a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from warpdeck.base.output import print_note, print_table
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import JSON, Argument, number
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from argparse import Namespace
    from typing import Any

    from warpdeck.library.study.study_file import Study
    from warpdeck.library.study.trials import Trial

FILE = Argument("FILE", "the study's file, such as study.toml")
SHOWN = 20
EXAMPLE = """\
An example of a study file:

  metric = "loss"                  # a name that the program prints
  direction = "minimize"
  trials = 100
  at_once = 8
  script = "train.sh"              # reads its parameters as variables, such as $lr
  pruner = "asha"                  # ends hopeless trials; "none" by default

  [parameters]
  lr = { low = 1e-5, high = 1e-1, log = true }
  depth = { low = 1, high = 8 }
  optimizer = ["adam", "sgd"]

  [options]                        # those of sbatch
  gpus = 1
  time = "1:00:00\""""


def _run(args: Namespace) -> int:
    import asyncio
    import os

    from warpdeck.library.study.driver import drive
    from warpdeck.library.study.study_file import read_study

    study = read_study(args.file)
    folder = os.path.dirname(os.path.abspath(args.file))
    said = ""

    def report(trials: Sequence[Trial]) -> None:
        nonlocal said
        line = summary(study, trials)
        if line != said:
            print_note(line)
        said = line

    trials = asyncio.run(drive(study, default_paths(), cwd=folder, report=report))
    _print(study, trials, args.limit)
    return 0


def _read(args: Namespace) -> tuple[Study, list[Trial]]:
    import asyncio

    from warpdeck.client.asyncio_client import AsyncioClient
    from warpdeck.library.study.driver import StudyReader
    from warpdeck.library.study.study_file import read_study

    study = read_study(args.file)

    async def read() -> list[Trial]:
        async with await AsyncioClient.connect(default_paths(), name="study") as client:
            return await StudyReader(study, client).trials(with_running=True)

    with progress("reading the trials ..."):
        return study, asyncio.run(read())


def _show(args: Namespace) -> int:
    study, trials = _read(args)
    if not args.json:
        print_note(summary(study, trials))
        _print(study, trials, args.limit)
        return 0
    from warpdeck.base.output import print_json
    from warpdeck.library.study.trials import best

    found = best(study, trials)
    print_json(
        {
            "name": study.name,
            "metric": study.metric,
            "best": None if found is None else _as_json(found),
            "trials": [_as_json(trial) for trial in trials],
        }
    )
    return 0


def _as_json(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "job": trial.job.label,
        "state": str(trial.state),
        "params": dict(trial.params),
        "value": trial.value,
    }


def summary(study: Study, trials: Sequence[Trial]) -> str:
    """Return the progress of a study in one line."""
    from warpdeck.client.runs.run import figure
    from warpdeck.library.study.trials import best

    counts = Counter(str(trial.state) for trial in trials)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    found = best(study, trials)
    if found is None or found.value is None:
        return f"{study.name}: {len(trials)} of {study.trials} trials ({states or 'none yet'})"
    values = " ".join(f"{name}={_shown(value)}" for name, value in found.params.items())
    return (
        f"{study.name}: {len(trials)} of {study.trials} trials ({states});"
        f" best {study.metric} {figure(found.value)} with {values} (job {found.job.label})"
    )


def _print(study: Study, trials: Sequence[Trial], limit: int) -> None:
    """Print the best trials, the best first."""
    from warpdeck.client.runs.run import figure

    sign = 1 if study.direction == "minimize" else -1
    ordered = sorted(trials, key=lambda each: (each.value is None, sign * (each.value or 0.0), each.number))
    names = list(study.parameters)
    rows = [
        [
            str(trial.number),
            trial.job.label,
            str(trial.state),
            "" if trial.value is None else figure(trial.value),
            *(_shown(trial.params.get(name, "")) for name in names),
        ]
        for trial in ordered[:limit]
    ]
    titles = ["TRIAL", "JOB", "STATE", study.metric.upper(), *(name.upper() for name in names)]
    print_table(titles, rows, right=frozenset({0, 3}))
    if len(ordered) > limit:
        print_note(f"{len(ordered) - limit} more: use --limit")


def _shown(value: object) -> str:
    from warpdeck.client.runs.run import figure

    return figure(value) if isinstance(value, float) else str(value)


LIMIT = Argument("--limit N", "print the N best trials", parse=number(), default=SHOWN)
VERBS = (
    Verb(
        "study",
        "Search the best parameters of a program with Optuna. Each trial is a job.\n"
        "The record of jobs is the only state of a study, so a study that was killed goes on with the same command.",
        notes=EXAMPLE,
        examples=("warpdeck study run study.toml", "warpdeck study show study.toml"),
        subverbs=(
            Verb(
                "run",
                "Run a study to its end, or continue it. The command may run in a job itself.",
                (FILE, LIMIT),
                examples=("warpdeck study run study.toml", "warpdeck submit --wrap 'warpdeck study run study.toml'"),
                reads=False, run=_run, summary="run a study to its end, or continue it",
            ),
            Verb(
                "show",
                "Show the trials of a study, the best first.",
                (FILE, LIMIT, JSON),
                examples=("warpdeck study show study.toml", "warpdeck study show study.toml --json"),
                run=_show, summary="show the trials of a study, the best first",
            ),
        ),
    ),
)  # fmt: skip
