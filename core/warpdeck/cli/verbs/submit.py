"""`warpdeck submit` and `warpdeck rerun`: submit a batch script, or submit a job again."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import ANY_JOBS, JOB, JSON, Argument
from warpdeck.cli.shared.forecast import print_forecast
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.cli.verb import Verb, connected
from warpdeck.client.away import was_killed
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.job_end import wait_for_end
from warpdeck.client.submission import (
    Draft,
    SubmissionResult,
    draft_script,
    dry_run,
    local_files,
    read_script,
    rerun,
    submit,
)
from warpdeck.notation.request.sweep import array_of, parse_grid, with_sweep

if TYPE_CHECKING:
    from argparse import Namespace

DRY = frozenset({"dry-run", "test-only"})
"""Options that submit nothing and print a forecast."""


def _submit(args: SimpleNamespace) -> int:
    """Submit the script and print the id."""
    given, (options, *others), rest = dict(args.given), args.components, args.rest
    cwd = current_folder()
    if "wrap" in given:
        text, name, script_args = f"#!/bin/sh\n{given['wrap']}\n", "wrap", []
    elif rest:
        text, name, script_args = read_script(rest[0]), rest[0], rest[1:]
    else:
        raise UserError("no batch script given", "usage: warpdeck submit [OPTIONS] SCRIPT [ARGS]")
    if grid := given.get("sweep", ""):
        text, options = with_sweep(text, grid), [f"--array={array_of(parse_grid(grid))}", *options]
    draft = draft_script(
        text,
        name,
        args=script_args,
        options=options,
        others=others,
        cwd=cwd,
        environ=os.environ,
        now=time.time(),
        known=args.known,
        read=local_files(cwd),
    )
    given |= dict.fromkeys(draft.own, "")
    snapshot = "none" if "no-snapshot" in given else "require" if "require-snapshot" in given else "auto"
    paths = default_paths()
    with connected() as client:
        if given.keys() & DRY:
            return _print_dry_run(dry_run(client, draft), draft, as_json="json" in given)
        with progress("taking a snapshot of the code ..."):
            done = submit(client, draft, paths=paths, snapshot=snapshot, code_of=given.get("code-of", ""))
        _print_submitted(done, given)
        if "wait" not in given:
            return 0
        ends = wait_for_end(
            client,
            done.job_id,
            again=lambda: SyncClient.connect(paths, start=was_killed(paths)),
            note=lambda line: print_note(f"warpdeck: {line}"),
        )
        return max(128 + end.signal if end.signal else end.code for end in ends)


def _rerun(client: SyncClient, args: Namespace) -> int:
    """Submit the job again and print the new id."""
    with progress("submitting the job ..."):
        done = rerun(client, args.job, args.settings)
    _print_submitted(done, ["json"] if args.json else [])
    return 0


def _print_submitted(done: SubmissionResult, given: Collection[str]) -> None:
    for line in done.notes:
        print_note(f"warpdeck: {line}")
    if "json" in given:
        print_json({"job_id": done.job_id, "label": done.label, "tasks": done.tasks, "notes": done.notes})
    else:
        print(done.job_id if "parsable" in given else f"Submitted batch job {done.job_id}", flush=True)


def _print_dry_run(found: dict[str, Any], draft: Draft, *, as_json: bool) -> int:
    """Print the forecast of a dry run. Return 1 if the job can never start."""
    never = found["verdict"] == "never"
    if as_json:
        print_json({**found, "notes": draft.notes})
        return int(never)
    for line in draft.notes:
        print_note(f"warpdeck: {line}")
    print_forecast(found, now=time.time())
    return int(never)


SUBMIT = SlurmVerb(
    "submit", """\
Submit a batch script. #SBATCH, #PBS and #BSUB lines are read as by sbatch; options on the command line take precedence.
A snapshot of the code in the current folder is taken. The job runs this snapshot, even if you edit files while it waits.

sbatch options:
  -J NAME  -t TIME (minutes, H:MM:SS, D-HH:MM:SS)  -N NODES  -n TASKS  -c CPUS_PER_TASK  --mem 64G
  --gpus N | --gpus-per-node N | --gres gpu:TYPE:N      -a 0-9%4      -d afterok:12      --hold
  --gpus 0.5 (half of a GPU and of its memory)                       -p PARTITION,...   -q QOS  -A ACCOUNT
  -C 'a100&ib'  -L matlab:2  --reservation NAME  --begin 20:00  --deadline now+8hours  --time-min 1:00:00
  --signal B:USR1@120 (120 seconds before the time limit; B: to the batch script only)
  -o logs/%x-%j.out  -e FILE  -D FOLDER  --export ALL,NAME=VALUE  --comment TEXT

other options:""",
    (
        Argument("--wrap COMMAND", "submit this shell command instead of a script"),
        Argument("--no-snapshot", "run in the current folder itself, without a snapshot"),
        Argument("--require-snapshot", "refuse to submit if no snapshot can be taken"),
        Argument("--code-of JOB", "run the snapshot of one of your earlier jobs instead of the current code", completes=ANY_JOBS),
        Argument("--sweep GRID", "submit an array with every combination of values: 'lr=0.1,0.01 seed=1..5' sets $lr and $seed"),
        Argument(
            "--dry-run",
            "submit nothing; print when the job would start and which changes would start it now\n"
            "(same as --test-only; exit code 1 if the job could never start)",
        ),
        Argument("--wait", "wait until the job has ended and return its exit code"),
        Argument("--parsable", "print only the job id"),
        JSON,
    ),
    examples=(
        "warpdeck submit --gpus 2 --time 4:00:00 train.sh --lr 0.1",
        "warpdeck submit --dry-run --gpus 8 train.sh",
        "warpdeck submit --array 0-9 sweep.sh",
        "warpdeck submit --gpus 1 --sweep 'lr=0.1,0.01 seed=1..5' --wrap 'python train.py --lr $lr --seed $seed'",
        "warpdeck submit --gres gpu:h100:1 --wrap 'python train.py'",
    ),
    takes="sbatch", usage=("[OPTIONS] SCRIPT [ARGS...]", "[OPTIONS] --wrap COMMAND"), run=_submit,
)  # fmt: skip
RERUN = Verb(
    "rerun", """\
Submit one of your jobs again with the recorded script, options, environment and code snapshot.
Later changes in the folder have no effect. The new job has a new id; `warpdeck requeue` keeps the id.
--set changes the value of a parameter in the job's command, in the arguments of its script, or in the script, where it
is written `--lr 0.1`, `--lr=0.1` or `lr=0.1`.""",
    (
        JOB,
        Argument("--set NAME=VALUE", "give a parameter another value; may be repeated", into="settings", repeats=True),
        JSON,
    ),
    examples=(
        "warpdeck rerun 12",
        "warpdeck rerun 12_3                one task of an array",
        "warpdeck rerun 12 --set lr=3e-4    the same job with another value of --lr",
        "warpdeck submit --code-of 12 ...   the same code with other options",
    ),
    reads=False, ask=_rerun,
)  # fmt: skip
VERBS = (SUBMIT, RERUN)
