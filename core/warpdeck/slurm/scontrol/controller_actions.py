"""scontrol commands that concern the controller, scripts of jobs, and processes of this machine."""

from __future__ import annotations

import os
import time

from warpdeck.base.errors import UserError
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.format.timestamps import ctime

from .session import Failed, ScontrolSession
from .show import alive, records

NO_SCRIPT = "job script retrieval failed: "
DOWN = """Slurmctld(primary) at {host} is DOWN
*****************************************
** RESTORE SLURMCTLD DAEMON TO SERVICE **
*****************************************
"""


def write(session: ScontrolSession, words: list[str]) -> None:
    """Handle `write batch_script JOB [FILE]`; the file `-` is standard output."""
    if len(words[0]) > 1 and "config".startswith(words[0].lower()):
        raise Failed("scontrol: error: write config is not supported: see config.toml")
    if not (len(words[0]) >= 1 and "batch_script".startswith(words[0].lower())):
        raise Failed(f"invalid write argument:{words[0]}")
    if len(words) < 2:
        raise Failed("missing job id")
    with session.connect() as client:
        try:
            found = client.call("records", ids=[words[1]], fields=["user"], scripts=True, ended=True)["jobs"]
        except UserError:
            found = []
    script = next((job["script"] for job in found if job["script"]), "")
    if not script:
        is_strangers = any(job["user"] != session.console.user for job in found)
        # Slurm's exit code is 0 in this case, too.
        session.console.streams.err.write(
            f"{NO_SCRIPT}{WORDS['not_user' if is_strangers else 'not_found']}\n"
        )
        return
    name = words[2] if len(words) > 2 else f"slurm-{words[1]}.sh"
    if name == "-":
        session.console.streams.out.write(script)
        return
    if session.console.paths is None:
        raise Failed("a process of a job cannot write files here: use `-` and redirect the output")
    try:
        with open(os.path.join(session.console.folder, name), "w", encoding="utf-8") as file:
            file.write(script)
    except OSError as error:
        raise Failed(f"failed to open file `{name}`: {error.strerror}") from error
    session.console.streams.out.write(f"batch script for job {words[1]} written to {name}\n")


def ping(session: ScontrolSession, words: list[str]) -> None:
    """Report whether the controller answers."""
    try:
        with session.connect() as client:
            session.console.streams.out.write(alive(client.call("status")) + "\n")
            session.code = 0
    except UserError:
        session.code = 1
        session.console.streams.out.write(DOWN.format(host=session.console.host))


def reconfigure(session: ScontrolSession, words: list[str]) -> None:
    """Make the controller reload config.toml."""
    with session.connect() as client:
        try:
            client.call("reload")
        except UserError as error:
            problems = error.details.get("problems", "")
            denied = error.code == "not_admin"
            raise Failed(
                f"slurm_reconfigure error: {WORDS['not_user'] if denied else error.message}"
                + (f"\n{problems}" if problems else "")
            ) from error


def completing(session: ScontrolSession, words: list[str]) -> None:
    """Print the jobs that are completing, with their nodes."""
    with session.connect() as client:
        jobs = client.call("records", states=["COMPLETING"], fields=["id", "node_list"])["jobs"]
    for job in jobs:  # The time at which the order to end was given is not recorded.
        times = "EndTime=Unknown CompletingTime=Unknown"
        session.console.print_lines([f"JobId={job['id']} {times} Nodes(COMPLETING)={job['node_list']} "])


def pidinfo(session: ScontrolSession, words: list[str]) -> None:
    """Print the job of a process on this machine and the time when the job ends."""
    from .processes import job_of

    if not words:
        raise Failed("missing argument for keyword:pidinfo")
    number = job_of(words[0])
    found = []
    if number:
        with session.connect() as client:
            found = records(client, number, needs=["ends"])
    if not found:
        raise Failed("Failed to locate job for requested pid")
    end, now = found[0]["ends"], time.time()
    ends = ctime(end) if end else "Unknown"
    session.console.streams.out.write(f"Slurm job id {number} ends at {ends}\n")
    session.console.streams.out.write(f"slurm_get_rem_time is {int(max(0.0, end - now)) if end else -1}\n")


def listpids(session: ScontrolSession, words: list[str]) -> None:
    """Print the processes of jobs on this machine."""
    from .processes import processes_of

    job, _, step = (words[0] if words else "").partition(".")
    if job and not job.isdecimal():
        raise Failed(f'"{words[0]}" does not look like a jobid')
    found = processes_of(job, step)
    if job and not found:
        what = f"StepId={words[0]}" if step else f"JobId={job}"
        session.complain(f"{what} does not exist on node {words[1] if len(words) > 1 else '(null)'}.")
    session.console.streams.out.write(f"{'PID':<8} {'JOBID':<8} {'STEPID':<8} {'LOCALID':<7} {'GLOBALID'}\n")
    for each in found:
        pid, number, name, local, rank = each
        session.console.streams.out.write(f"{pid:<8} {number:<8} {name:<8} {local:<7} {rank:<8}\n")
