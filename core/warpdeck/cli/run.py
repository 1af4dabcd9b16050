"""warpdeck run: a command on the cluster, waited for; with --pty a terminal. warpdeck attach: back to such a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from warpdeck.api.submission import draft_command, submit
from warpdeck.api.sync import SyncClient
from warpdeck.api.terminal import RelayEnd, relay, window_size, write_all
from warpdeck.errors import UserError
from warpdeck.paths import default_paths

from .output import note
from .submit import current_folder, takes_next

HELP = """usage: warpdeck run [OPTIONS] [--pty] COMMAND...
       warpdeck attach [--watch] JOB

Runs a command on the cluster, in this folder, and waits for it: its output comes here, its exit code is ours. Takes
sbatch's options (-N -n -c --gpus --gres --mem -t ...). With --pty the command gets a terminal; Enter ~d detaches from it
and the job goes on, `warpdeck attach JOB` comes back (Enter ~? tells all such keys). Several may be attached at once: the
terminal has the size of who typed last. With --watch it is only read: q leaves.

examples:
  warpdeck run --gpus 1 --pty bash
  warpdeck run -N 2 -n 2 hostname
  warpdeck run --gpus 1 nvidia-smi
  warpdeck attach 12
  warpdeck attach --watch 12
"""
PATIENCE_S = 1.0
"""A wait longer than this is explained."""


def main(verb: str, words: list[str]) -> int:
    """Runs or attaches."""
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0 if words else 2
    paths = default_paths()
    if verb == "attach":
        watch = words[0] == "--watch"
        jobs = words[watch:]
        if len(jobs) != 1 or jobs[0].startswith("-"):
            raise UserError(
                "attach takes one job",
                "write: warpdeck attach 12, or warpdeck attach --watch 12",
                exit_code=2,
            )
        with SyncClient.connect(paths) as client:
            return _attach(client, jobs[0], watch=watch)
    options, command, pty = split_words(words)
    if not command:
        raise UserError("no command is given", "write: warpdeck run [OPTIONS] COMMAND...")
    draft = draft_command(
        command,
        options,
        cwd=current_folder(),
        environ=os.environ,
        now=time.time(),
        pty=window_size(sys.stdout.fileno()) if pty else None,
    )
    if not pty and "container" not in draft.request and _has_several_tasks(draft.request["resources"]):
        from .srun import main as run_step  # costs a verb milliseconds, and few commands have several tasks

        return run_step("srun", words)
    with SyncClient.connect(paths) as client:
        done = submit(client, draft, paths=paths, snapshot="none")
        for line in done.notes:
            note(f"warpdeck: {line}")
        return _attach(client, str(done.job_id)) if pty else _follow(client, done.job_id)


def _has_several_tasks(resources: dict[str, Any]) -> bool:
    """Then it is a step, as srun's: each of them is told where it stands among the others."""
    return max(resources.get(name) or 1 for name in ("tasks", "tasks_per_node", "nodes_min")) > 1


def split_words(words: list[str]) -> tuple[list[str], list[str], bool]:
    """(sbatch options, command, whether --pty)."""
    options: list[str] = []
    pty = False
    index = 0
    while index < len(words) and words[index].startswith("-") and len(words[index]) > 1:
        word = words[index]
        index += 1
        if word == "--":
            break
        if word == "--pty":
            pty = True
            continue
        options.append(word)
        if takes_next(word):
            options += words[index : index + 1]
            index += 1
    return options, words[index:], pty


def _attach(client: SyncClient, job: str, *, watch: bool = False) -> int:
    try:
        ended = relay(
            client,
            job,
            stdin_fd=sys.stdin.fileno(),
            stdout_fd=sys.stdout.fileno(),
            watch=watch,
            again=lambda: SyncClient.connect(default_paths(), start=False),
            progress=note,
        )
    except KeyboardInterrupt:
        if watch:
            return 130
        client.call("cancel", jobs=[job])
        return 130
    return _say(ended, job, watch=watch)


def _say(ended: RelayEnd, job: str, *, watch: bool) -> int:
    if ended.detached and watch:
        note("")
        return 0
    if ended.detached:
        note(f"\ndetached; job {job} goes on, come back with: warpdeck attach {job}")
        return 0
    if ended.error:
        raise UserError(ended.error, f"see `warpdeck show {job}`")
    return 128 + ended.signal if ended.signal else ended.code


def _follow(client: SyncClient, job_id: int) -> int:
    """Streams both outputs of all nodes of the job until it has ended; Ctrl-C cancels it."""
    outputs = {"out": sys.stdout.fileno(), "err": sys.stderr.fileno()}
    streams: dict[int, int] = {}
    try:
        first = client.begin("log", job=str(job_id), channel="out", follow=True)
        streams[first] = outputs["out"]
        opened = _wait_for_start(client, first)
        for node in _nodes(client, job_id):
            if node != opened.get("node"):
                streams[client.begin("log", job=str(job_id), channel="out", follow=True, node=node)] = (
                    outputs["out"]
                )
            streams[client.begin("log", job=str(job_id), channel="err", follow=True, node=node)] = outputs[
                "err"
            ]
        return _pump(client, streams)
    except KeyboardInterrupt:
        client.call("cancel", jobs=[str(job_id)])
        note(f"\nwarpdeck: job {job_id} cancelled")
        return 130


def _wait_for_start(client: SyncClient, number: int) -> dict[str, Any]:
    begun = time.monotonic()
    while True:
        for word, value in client.events(number):
            if word == "ok":
                return dict(value)
            if word == "progress" and time.monotonic() - begun > PATIENCE_S:
                note(value)


def _nodes(client: SyncClient, job_id: int) -> list[str]:
    from warpdeck.notation.hostlist import expand

    return expand(client.call("job", job=str(job_id))["row"]["node_list"])


def _pump(client: SyncClient, streams: dict[int, int]) -> int:
    ended: dict[str, Any] = {}
    while streams:
        number, word, value = client.any_event(streams)
        if word == "data":
            write_all(streams[number], value)
        elif word == "end":
            del streams[number]
            ended = value.get("exit") or ended
            if value["error"]:
                note(f"warpdeck: {value['error']}")
    if int(ended.get("signal", 0)):
        return 128 + int(ended["signal"])
    return int(ended.get("code", 1))
