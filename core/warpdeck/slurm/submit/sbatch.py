"""sbatch(1): submits a batch script.

Options, messages and exit codes are those of Slurm. Once the job has its number, a snapshot of the folder's code is
recorded (client/snapshot_recorder), and then the job starts. An explanation of ours follows Slurm's message for a refusal.
"""

from __future__ import annotations

import os.path
import shlex
import time
from collections.abc import Collection

from warpdeck.base.cluster import ALL_NODES, CLUSTER_NAME, CLUSTER_OPTIONS
from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.job_end import wait_for_end
from warpdeck.client.submission import (
    MAX_FILE_CHARS,
    Draft,
    draft_components,
    dry_run,
    script_text,
    site_options,
    submit,
)
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES
from warpdeck.notation.options.getopt import UNKNOWN, as_word, parse_components
from warpdeck.notation.options.option_table import COMMAND, SBATCH, OptionTable
from warpdeck.notation.reading.script import read_components
from warpdeck.notation.step import container_help
from warpdeck.notation.values.slurm_error import exit_code
from warpdeck.protocol.refusals import WORDS, in_slurms_words, said_first
from warpdeck.slurm.console.command_options import handle_help
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.format.units import moment

from .validation import check, option_source, raise_if_unknown

RECORDED_S = 60.0
"""Longest time in seconds that a job waits for the snapshot of its code.

A snapshot that takes longer is completed while the job runs.
"""
USAGE_EXIT = 255
"""Exit code for words that are no options of sbatch."""
USAGE = f"""Usage: sbatch [OPTIONS...] [script [args...]]

  -J NAME  -p PARTITION  -A ACCOUNT  -q QOS  -t TIME  -N NODES  -n TASKS  -c CPUS  --mem SIZE  -a ARRAY  -d DEPENDENCY
  --gpus N | --gpus-per-node N | --gres gpu:TYPE:N   -C FEATURES  -w NODES  -x NODES  -o FILE  -e FILE  -D FOLDER
  -H (hold)  -W (wait for the end)  -Q (print errors only)  --parsable  --test-only  --wrap COMMAND  --export NAMES

All options of sbatch(1) are accepted. Without a file name, the script is read from standard input.
{container_help.HELP}
examples:
  sbatch --gpus 2 --time 4:00:00 train.sh --lr 0.1
  sbatch --parsable --array 0-9 sweep.sh
  sbatch --wrap 'python train.py'
"""
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"


def main(words: list[str], console: Console) -> int:
    """Submit the script. Returns 0, or the job's exit code with --wait.

    An option that sbatch does not have may be an option of one of the site's plug-ins.
    """
    if console.controller.awaited_job:
        console.controller.mark_idle()
        with console.controller.connect() as client:
            return _wait(client, console.controller.awaited_job, console)
    try:
        return _run(words, console, SBATCH)
    except UserError as error:
        if error.code != UNKNOWN:
            raise
    try:
        return _run(words, console, _with_plugins(console), is_last=True)
    except UserError as error:
        if error.code != UNKNOWN:
            raise
        console.streams.err.write(f'{error.message}\nTry "sbatch --help" for more information\n')
        return USAGE_EXIT


def _with_plugins(console: Console) -> OptionTable:
    try:
        with console.controller.connect() as client:
            return site_options(client)
    except UserError:
        return SBATCH


def _run(words: list[str], console: Console, known: OptionTable, *, is_last: bool = False) -> int:
    try:
        parts, rest = parse_components(words, "sbatch", known)
    except UserError as error:
        if error.code == UNKNOWN:
            raise
        console.streams.err.write(f'{error.message}\nTry "sbatch --help" for more information\n')
        return USAGE_EXIT
    own = {
        option: value for found in parts for option, value in found if known.options[option].here == COMMAND
    }
    if handle_help(list(own.items()), console, help_text=USAGE):
        return 0
    draft = _draft(words, parts, rest, own, console, known, is_last=is_last)
    asked = own.keys() | draft.own
    with console.controller.connect() as client:
        return (
            _test(client, draft, console, quiet="quiet" in asked)
            if "test-only" in asked
            else _submit(client, draft, asked, console)
        )


def _draft(
    words: list[str],
    parts: list[list[tuple[str, str]]],
    rest: list[str],
    own: dict[str, str],
    console: Console,
    known: OptionTable,
    *,
    is_last: bool,
) -> Draft:
    text, name = _script(rest, own, console)
    options, *others = [
        [as_word(option, value, known) for option, value in found if option not in own] for found in parts
    ]
    source = option_source(console)
    components = read_components(text, name, source, words=options, others=others, known=known)
    raise_if_unknown(components, is_last=is_last)
    check(components, source, known=known)
    script = {
        "script": text,
        "script_args": rest[1:],
        "submit_line": shlex.join(["sbatch", *words]),
    }
    try:
        draft = draft_components(
            components,
            name,
            script,
            cwd=console.folder,
            environ=console.env,
            host=console.host,
            known=known,
            read=lambda path: _text(path, console),
        )
    except UserError as error:
        if error.code in WORDS:
            raise _failed(error, console) from error
        raise
    # Jobs from a shell run in the submit directory, because tools look for their output there. A job that
    # another job submits runs the code of the submitting job.
    draft.request["in_place"] = console.record is not None
    return draft


def _script(rest: list[str], own: dict[str, str], console: Console) -> tuple[str, str]:
    """Return the text of the script and its name for messages."""
    if "wrap" in own:
        if rest:
            raise CommandError("Script arguments not permitted with --wrap option")
        return WRAPPED.format(own["wrap"]), "wrap"
    name = rest[0] if rest else "-"
    try:
        data = _read(name, console)
    except OSError as error:
        raise CommandError(f"Unable to open file {name}") from error
    called = name if rest else "sbatch"
    return script_text(data, called), called


def _text(path: str, console: Console) -> str:
    """Return the content of a file that an option names; a number is a file descriptor of the caller.

    Raises OSError or UnicodeDecodeError.
    """
    path = f"/dev/fd/{path}" if path.isdecimal() else os.path.join(console.folder, path)
    return console.read_file(path, MAX_FILE_CHARS).decode()


def _read(name: str, console: Console) -> bytes:
    """Return the content of the file, or of a program with that name on the PATH. Raises OSError."""
    limit = MAX_SCRIPT_BYTES + 1
    try:
        return console.read_file(name if name == "-" else os.path.join(console.folder, name), limit)
    except FileNotFoundError:
        for folder in console.env.get("PATH", "").split(":") if "/" not in name else ():
            try:
                return console.read_file(os.path.join(console.folder, folder, name), limit)
            except OSError:
                continue
        raise


def _submit(client: SyncClient, draft: Draft, asked: Collection[str], console: Console) -> int:
    if console.record is not None:
        draft.request["code_due_unix"] = time.time() + RECORDED_S
    if "wait" in asked:
        console.controller.mark_idle()
    try:
        done = submit(client, draft, snapshot="none", nonce=console.controller.nonce)
    except UserError as error:
        raise _failed(error, console) from error
    if "wait" in asked:
        console.controller.wait_for_job(done.job_id)
    if console.record is not None:
        console.record(done.job_id, draft.request.get("chdir") or console.folder)
    if "quiet" not in asked:
        if "parsable" not in asked:
            for line in done.notes:
                console.streams.err.write(f"sbatch: {line}\n")
        console.streams.out.write(_number_line(done.job_id, asked) + "\n")
        console.streams.out.flush()
    if "wait" not in asked:
        return 0
    return _wait(client, done.job_id, console)


def _wait(client: SyncClient, job_id: int, console: Console) -> int:
    """Wait for the job and return its exit code, or the highest one of an array.

    A job that ran out of memory or was killed by a signal counts as 1. The exit code of an out-of-memory job
    is not known (see shown_exit).
    """
    ends = wait_for_end(
        client,
        job_id,
        again=console.controller.reconnect,
        note=lambda line: print(f"sbatch: {line}", file=console.streams.err),
    )
    return max(1 if end.signal or end.state == "OUT_OF_MEMORY" else end.code for end in ends)


def _number_line(job_id: int, asked: Collection[str]) -> str:
    """Return the message with the job ID. It names the cluster if clusters were named."""
    named = bool(CLUSTER_OPTIONS & {*asked})
    if "parsable" in asked:
        return f"{job_id};{CLUSTER_NAME}" if named else str(job_id)
    return f"Submitted batch job {job_id}" + (f" on cluster {CLUSTER_NAME}" if named else "")


def _failed(error: UserError, console: Console) -> CommandError:
    words = f"{said_first(error)}Batch job submission failed: {in_slurms_words(error)}"
    return CommandError(words, exit_code=exit_code(console.env))


def _test(client: SyncClient, draft: Draft, console: Console, *, quiet: bool) -> int:
    """Print when the job would start and return 0, or print why it cannot start and return 1.

    With --quiet only the error is printed. As in Slurm, only the availability of resources is checked:
    dependencies are ignored, but the job does not start before --begin.
    """
    begin_unix = 0.0
    for request in (draft.request, *draft.components):
        request.pop("dependencies", None)
        begin_unix = max(begin_unix, request.pop("begin_at_unix", None) or 0.0)
    found = dry_run(client, draft)
    if found["verdict"] == "never":
        error = UserError(found["sentence"], found["hint"], code=found["code"], details=found["details"])
        first = said_first(error) if error.code == "PartitionConfig" else ""
        console.streams.err.write(
            f"{'sbatch: error: ' * bool(first)}{first}allocation failure: {in_slurms_words(error)}\n"
        )
        return 1
    at_unix = time.time() if found["verdict"] == "now" else found["expected_start"]
    if at_unix is None:
        console.streams.err.write(
            f"allocation failure: the start is not known: {found['untold'] or found['sentence']}\n"
        )
        return 1
    if quiet:
        return 0
    at_unix = max(at_unix, begin_unix)
    where = f" on {'' if draft.components else 'nodes '}{found['node_list']}" if found["node_list"] else ""
    part = "" if draft.components else f" in partition {found['partition'] or ALL_NODES}"
    console.streams.err.write(
        f"sbatch: Job {found['id']} to start at {moment(at_unix)} using {found['cpus']} processors{where}{part}\n"
    )
    return 0
