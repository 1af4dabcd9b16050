"""The scripts that start a job of ours under Slurm. All functions are pure.

`run` is given to sbatch. slurmd executes a copy of it, so it only finds the job's folder and continues with the file
`start` there, which claims the submission for this job, goes to the code, and becomes the user's script.

The shell is `bash -p`: it reads no start files and passes on all variables, also bash's exported functions, with which
sites provide `module`. Our own variables begin with warpdeck__, and no variable of the environment changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from warpdeck.model import Request, Snapshot

SHELL = "#!/bin/bash -p\n"
CLAIM = "claim"
"""Symbolic link in the job's folder to "job-ID". Creating it is atomic, also on NFS, and it is never replaced."""
CLAIM_PREFIX = "job-"
RUNNING_PREFIX = "running-"
"""A started job locks the file running-ID in its folder until its last process has ended."""
SCRIPT, START, CODE, WORK = "script", "start", "code", "work"

_RUN = """\
# Starts a job that was submitted with warpdeck. All of its files are in this folder:
warpdeck__folder={folder}
if ! [ -r "$warpdeck__folder/start" ]; then
    echo "warpdeck: this node cannot read $warpdeck__folder. Set the key folder in the table [slurm] of config.toml" \\
        "to a folder that all nodes share." >&2
    exit 1
fi
. "$warpdeck__folder/start"
"""
_CLAIM = """\
warpdeck__job=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
if ! command -p ln -sT "job-$warpdeck__job" "$warpdeck__folder/claim" 2>/dev/null; then
    warpdeck__owner=$(command -p readlink "$warpdeck__folder/claim")
    if [ "$warpdeck__owner" != "job-$warpdeck__job" ]; then
        if [ "$warpdeck__owner" ]; then
            echo "warpdeck: this submission runs as job ${{warpdeck__owner#job-}}, so job $warpdeck__job ends." >&2
        else
            echo "warpdeck: cannot write $warpdeck__folder, so job $warpdeck__job ends." >&2
        fi
        exit 1
    fi
fi
if {{ exec {{warpdeck__running}}>"$warpdeck__folder/running-$SLURM_JOB_ID"; }} 2>/dev/null; then
    # The gateway sees from the lock that the job has ended, without a request to slurmctld.
    if ! command -p flock --nonblock "$warpdeck__running" 2>/dev/null; then
        exec {{warpdeck__running}}>&-
        command -p rm -f "$warpdeck__folder/running-$SLURM_JOB_ID"
    fi
fi
if [ -r "$warpdeck__folder/code" ]; then . "$warpdeck__folder/code"; fi
"""
_UNPACK = """\
warpdeck__work=$warpdeck__folder/work
warpdeck__unpack() {{
    ( unset TAR_OPTIONS GZIP; PATH=/usr/bin:/bin; export PATH; umask 022
      tar -xzf {packed} -C "$1" ) && return
    echo "warpdeck: cannot unpack the code snapshot "{packed} >&2
    exit 1
}}
if ! [ -d "$warpdeck__work" ]; then
    warpdeck__new=$warpdeck__work.$SLURM_JOB_ID
    command -p rm -rf "$warpdeck__new"
    command -p mkdir "$warpdeck__new" && warpdeck__unpack "$warpdeck__new"
{links}
    # Another task of the array may have been faster.
    command -p mv -T "$warpdeck__new" "$warpdeck__work" 2>/dev/null || command -p rm -rf "$warpdeck__new"
elif [ "${{SLURM_RESTART_COUNT:-0}}" != 0 ] && ! [ "$SLURM_ARRAY_JOB_ID" ]; then
    warpdeck__unpack "$warpdeck__work"
fi
cd -- "$warpdeck__work/"{subdir} 2>/dev/null || cd -- "$warpdeck__work" || exit 1
"""
_LINK = """\
    if [ -e {source} ] && ! [ -e "$warpdeck__new/"{name} ]; then
        command -p ln -s {source} "$warpdeck__new/"{name}
    fi"""
_SRUN = """\
warpdeck__srun=$(type -P srun) || warpdeck__srun={srun}
exec -- "$warpdeck__srun" ${{SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}} -- """


def run_text(folder: str) -> str:
    """Return the script that is given to sbatch."""
    return SHELL + _RUN.format(folder=shlex.quote(folder))


def start_text(command: Sequence[str], variables: Mapping[str, str], *, srun: str = "") -> str:
    """Return the file that claims the submission and becomes the command.

    `variables` were withheld from sbatch and are set for the job. Their names are identifiers. `srun` is the path of the
    srun that runs the command as all tasks of the job; "" runs it once. If the job's PATH has an srun, that one is used.
    """
    exports = [f"export {name}={shlex.quote(text)}\n" for name, text in variables.items()]
    start = _SRUN.format(srun=shlex.quote(srun)) if srun else "exec -- "
    return "".join([_CLAIM.format(), *exports, f"{start}{shlex.join(command)}\n"])


def start_command(folder: str, request: Request) -> list[str]:
    """Return the command that a request asks for: its script, or its program."""
    return [f"{folder}/{SCRIPT}", *request.script_args] if request.script else list(request.argv)


def has_tasks(request: Request) -> bool:
    """Return whether a request asks for a command that runs as several tasks."""
    found = request.resources
    return (
        not request.script
        and bool(request.argv)
        and (found.task_count() > 1 or found.tasks_per_gpu is not None)
    )


def code_text(snapshot: Snapshot, packed: str, request: Request) -> str:
    """Return the file that goes to a private checkout of the snapshot, which is unpacked if necessary.

    A job that runs in place uses the checkout only if its node does not have the submit folder.
    """
    names = [name for name in snapshot.links if "/" not in name and name not in ("", ".", "..")]
    links = "\n".join(
        _LINK.format(source=shlex.quote(f"{snapshot.root}/{name}"), name=shlex.quote(name)) for name in names
    )
    text = _UNPACK.format(packed=shlex.quote(packed), links=links, subdir=shlex.quote(snapshot.subdir or "."))
    if not request.in_place:
        return text
    folder = shlex.quote(request.chdir or request.submit_dir)
    return f"if ! [ -d {folder} ]; then\n{text}fi\n"
