"""`warpdeck submit [OPTIONS] SCRIPT [ARGS]`: takes sbatch's options anywhere before the script."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import Any

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.forecast import print_forecast
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.job_end import wait_for_end
from warpdeck.client.submission import (
    Draft,
    Submitted,
    draft_script,
    dry_run,
    local_files,
    read_script,
    site_options,
    submit,
)
from warpdeck.notation.options.getopt import UNKNOWN, as_word, parse_components
from warpdeck.notation.options.options import COMMAND, NONE, REQUIRED, SBATCH, Option, OptionTable, table_of
from warpdeck.notation.request.sweep import array_of, parse_grid, with_sweep

HELP = """usage: warpdeck submit [OPTIONS] SCRIPT [ARGS...]
       warpdeck submit [OPTIONS] --wrap COMMAND

Submit a batch script. #SBATCH, #PBS and #BSUB lines are read as by sbatch; options on the command line take precedence.
A snapshot of the code in the current folder is taken. The job runs this snapshot, even if you edit files while it waits.

sbatch options:
  -J NAME  -t TIME (minutes, H:MM:SS, D-HH:MM:SS)  -N NODES  -n TASKS  -c CPUS_PER_TASK  --mem 64G
  --gpus N | --gpus-per-node N | --gres gpu:TYPE:N      -a 0-9%4      -d afterok:12      --hold
  --gpus 0.5 (half of a GPU and of its memory)                       -p PARTITION,...   -q QOS  -A ACCOUNT
  -C 'a100&ib'  -L matlab:2  --reservation NAME  --begin 20:00  --deadline now+8hours  --time-min 1:00:00
  --signal B:USR1@120 (120 seconds before the time limit; B: to the batch script only)
  -o logs/%x-%j.out  -e FILE  -D FOLDER  --export ALL,NAME=VALUE  --comment TEXT

other options:
  --wrap COMMAND      submit this shell command instead of a script
  --no-snapshot       run in the current folder itself, without a snapshot
  --require-snapshot  refuse to submit if no snapshot can be taken
  --code-of JOB       run the snapshot of one of your earlier jobs instead of the current code
  --sweep GRID        submit an array with every combination of values: 'lr=0.1,0.01 seed=1..5' sets $lr and $seed
  --dry-run           submit nothing; print when the job would start and which changes would start it now
                      (same as --test-only; exit code 1 if the job could never start)
  --wait              wait until the job has ended and return its exit code
  --parsable          print only the job id
  --json              print JSON

examples:
  warpdeck submit --gpus 2 --time 4:00:00 train.sh --lr 0.1
  warpdeck submit --dry-run --gpus 8 train.sh
  warpdeck submit --array 0-9 sweep.sh
  warpdeck submit --gpus 1 --sweep 'lr=0.1,0.01 seed=1..5' --wrap 'python train.py --lr $lr --seed $seed'
  warpdeck submit --gres gpu:h100:1 --wrap 'python train.py'
"""
DRY = frozenset({"--dry-run", "--test-only"})
_OURS = (
    ("no-snapshot", NONE),
    ("require-snapshot", NONE),
    ("code-of", REQUIRED),
    ("sweep", REQUIRED),
    ("json", NONE),
    ("dry-run", NONE),
)


def main(_: str, words: list[str]) -> int:
    """Submit the script and print the id. An unknown option may belong to a site plug-in; then the site is
    asked, and parsing repeated.
    """
    try:
        return _submit(words, SBATCH)
    except UserError as error:
        known = _with_plugins() if error.code == UNKNOWN else SBATCH
        if known.options.keys() == SBATCH.options.keys():
            raise
    return _submit(words, known)


def _with_plugins() -> OptionTable:
    try:
        with SyncClient.connect(default_paths(), start=False) as client:
            return site_options(client)
    except UserError:
        return SBATCH


def _submit(words: list[str], known: OptionTable) -> int:
    own, (options, *others), rest, wrap = split_words(words, known)
    if "--help" in own:
        print(HELP, end="")
        return 0
    cwd = current_folder()
    if wrap is not None:
        text, name, args = f"#!/bin/sh\n{wrap}\n", "wrap", []
    elif rest:
        text, name, args = read_script(rest[0]), rest[0], rest[1:]
    else:
        raise UserError("no batch script given", "usage: warpdeck submit [OPTIONS] SCRIPT [ARGS]")
    if grid := own.get("--sweep", ""):
        text, options = with_sweep(text, grid), [f"--array={array_of(parse_grid(grid))}", *options]
    draft = draft_script(
        text,
        name,
        args=args,
        options=options,
        others=others,
        cwd=cwd,
        environ=os.environ,
        now=time.time(),
        known=known,
        read=local_files(cwd),
    )
    own |= dict.fromkeys((f"--{option}" for option in draft.own), "")
    snapshot = "none" if "--no-snapshot" in own else "require" if "--require-snapshot" in own else "auto"
    paths = default_paths()
    with SyncClient.connect(paths) as client:
        if own.keys() & DRY:
            return _say_forecast(dry_run(client, draft), draft, as_json="--json" in own)
        done = submit(client, draft, paths=paths, snapshot=snapshot, code_of=own.get("--code-of", ""))
        _say(done, own)
        if "--wait" not in own:
            return 0
        ends = wait_for_end(
            client,
            done.job_id,
            again=lambda: SyncClient.connect(paths, start=False),
            note=lambda line: print_note(f"warpdeck: {line}"),
        )
        return max(128 + end.signal if end.signal else end.code for end in ends)


def _say(done: Submitted, own: Collection[str]) -> None:
    for line in done.notes:
        print_note(f"warpdeck: {line}")
    if "--json" in own:
        print_json({"job_id": done.job_id, "label": done.label, "tasks": done.tasks, "notes": done.notes})
    else:
        print(done.job_id if "--parsable" in own else f"Submitted batch job {done.job_id}", flush=True)


def _say_forecast(found: dict[str, Any], draft: Draft, *, as_json: bool) -> int:
    """Print the forecast of a dry run. Return 1 if the job can never start."""
    never = found["verdict"] == "never"
    if as_json:
        print_json({**found, "notes": draft.notes})
        return int(never)
    for line in draft.notes:
        print_note(f"warpdeck: {line}")
    print_forecast(found, now=time.time())
    return int(never)


def split_words(
    words: list[str], known: OptionTable
) -> tuple[dict[str, str], list[list[str]], list[str], str | None]:
    """Split the arguments. Raises UserError.

    Return the values of our own options, sbatch's options of each component, the script with its arguments,
    and the wrapped command.
    """
    ours = (Option(name, "", takes, "b", COMMAND, frozenset()) for name, takes in _OURS)
    both = table_of("warpdeck submit", [*known.options.values(), *ours])
    parts, rest = parse_components(words, "command line", both)
    found = [pair for part in parts for pair in part]
    own = {f"--{option}": text for option, text in found if both.options[option].here == COMMAND}
    options = [
        [as_word(option, text, both) for option, text in part if both.options[option].here != COMMAND]
        for part in parts
    ]
    wrap = next((text for option, text in reversed(found) if option == "wrap"), None)
    return own, options, rest, wrap
