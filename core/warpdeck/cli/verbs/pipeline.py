"""`warpdeck pipeline`: stages with different resources that depend on each other, each a job."""

from __future__ import annotations

from warpdeck.base.output import print_note, print_table
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import JSON, Argument
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb, connected

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from argparse import Namespace
    from typing import Any

    from warpdeck.library.pipeline.pipeline_file import Pipeline
    from warpdeck.library.pipeline.stages import Attempts, Submission

FILE = Argument("FILE", "the pipeline's file, such as pipeline.toml")
EXAMPLE = """\
An example of a pipeline file:

  [stages.prepare]
  run = "python prepare.py"        # a shell command, or script = "prepare.sh"

  [stages.train]
  script = "train.sh"
  after = ["prepare"]              # starts when all of these have succeeded
  options = { gpus = 4, time = "4:00:00" }   # those of sbatch

  [stages.evaluate]
  run = "python evaluate.py"
  after = ["train"]"""


def _run(args: Namespace) -> int:
    from warpdeck.base.errors import UserError
    from warpdeck.library.pipeline.driver import advance
    from warpdeck.library.pipeline.pipeline_file import read_pipeline

    pipeline, paths = read_pipeline(args.file), default_paths()
    if unknown := [stage for stage in args.again if stage not in pipeline.stages]:
        raise UserError(f"there is no stage {unknown[0]}", f"the stages are {', '.join(pipeline.stages)}")

    def report(submission: Submission, job_id: int) -> None:
        after = f", after {', '.join(submission.after)}" if submission.after else ""
        print_note(f"submitted the stage {submission.stage} as job {job_id}{after}")

    with connected() as client:
        attempts = advance(pipeline, client, paths, again=args.again, report=report)
    if args.wait:
        attempts = _wait(pipeline, attempts)
    print_note(summary(pipeline, attempts))
    if not args.wait:
        return 0
    _print(pipeline, attempts)
    return int(any(attempt.state != "complete" for attempt in attempts.values()))


def _wait(pipeline: Pipeline, attempts: Attempts) -> Attempts:
    """Wait until all stages have ended, and return them."""
    from warpdeck.client.away import was_killed
    from warpdeck.client.blocking_client import SyncClient
    from warpdeck.client.job_end import wait_for_end
    from warpdeck.library.pipeline.driver import read_stages

    paths = default_paths()
    for stage in pipeline.stages:
        if attempts[stage].state in ("waiting", "running"):
            ends = wait_for_end(
                SyncClient.connect(paths),
                attempts[stage].job_id,
                again=lambda: SyncClient.connect(paths, start=was_killed(paths)),
                note=lambda line: print_note(f"warpdeck: {line}"),
            )
            states = ", ".join(sorted({end.state or "unknown" for end in ends}))
            print_note(f"the stage {stage} has ended: {states}")
    with connected() as client:
        return read_stages(pipeline, client)


def _show(args: Namespace) -> int:
    from warpdeck.library.pipeline.driver import read_stages
    from warpdeck.library.pipeline.pipeline_file import read_pipeline

    pipeline = read_pipeline(args.file)
    with progress("reading the stages ..."), connected() as client:
        attempts = read_stages(pipeline, client)
    if args.json:
        from warpdeck.base.output import print_json

        print_json({"name": pipeline.name, "stages": _as_json(pipeline, attempts)})
        return 0
    print_note(summary(pipeline, attempts))
    _print(pipeline, attempts)
    return 0


def _as_json(pipeline: Pipeline, attempts: Attempts) -> list[dict[str, Any]]:
    from warpdeck.library.pipeline.stages import states_of

    return [
        {
            "stage": stage,
            "state": str(state),
            "job_id": attempts[stage].job_id if stage in attempts else None,
            "attempt": attempts[stage].number if stage in attempts else 0,
            "after": pipeline.stages[stage].after,
        }
        for stage, state in states_of(pipeline, attempts).items()
    ]


def summary(pipeline: Pipeline, attempts: Attempts) -> str:
    """Return the progress of a pipeline in one line."""
    from collections import Counter

    from warpdeck.library.pipeline.stages import states_of

    states = states_of(pipeline, attempts)
    counts = ", ".join(
        f"{count} {state}" for state, count in sorted(Counter(map(str, states.values())).items())
    )
    return f"{pipeline.name}: {len(states)} stages ({counts})"


def _print(pipeline: Pipeline, attempts: Attempts) -> None:
    rows = [
        [
            row["stage"],
            row["state"],
            "" if row["job_id"] is None else str(row["job_id"]),
            str(row["attempt"]),
            ", ".join(row["after"]),
        ]
        for row in _as_json(pipeline, attempts)
    ]
    print_table(["STAGE", "STATE", "JOB", "ATTEMPT", "AFTER"], rows, right=frozenset({2, 3}))


VERBS = (
    Verb(
        "pipeline",
        "Run stages with different resources that depend on each other. Each stage is a job, or an array.\n"
        "The same command runs the failed stages again, and those that come after them or have changed in the file.",
        notes=EXAMPLE,
        examples=("warpdeck pipeline run pipeline.toml", "warpdeck pipeline show pipeline.toml"),
        subverbs=(
            Verb(
                "run",
                "Submit the stages of a pipeline that are not complete yet. Dependencies start them in their order.",
                (
                    FILE,
                    Argument("--wait", "wait until all stages have ended; the exit code is 0 if all have succeeded"),
                    Argument("--again STAGE", "run a complete stage again, and those that come after it", repeats=True),
                ),
                examples=(
                    "warpdeck pipeline run pipeline.toml",
                    "warpdeck pipeline run pipeline.toml --wait",
                    "warpdeck pipeline run pipeline.toml --again train",
                ),
                reads=False, run=_run, summary="submit the stages that are not complete yet",
            ),
            Verb(
                "show",
                "Show the stages of a pipeline and their jobs.\n"
                "The job of an outdated stage used another definition, or results that were made again since.",
                (FILE, JSON),
                examples=("warpdeck pipeline show pipeline.toml", "warpdeck pipeline show pipeline.toml --json"),
                run=_show, summary="show the stages and their jobs",
            ),
        ),
    ),
)  # fmt: skip
