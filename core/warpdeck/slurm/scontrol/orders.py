"""scontrol's orders to jobs and to the controller: hold, release, requeue, suspend, notify, write and the like."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import uid_of
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.job_ids import is_job_id
from warpdeck.notation.values.lists import words_of
from warpdeck.protocol.refusals import WORDS, in_slurms_words
from warpdeck.slurm.format.job_text import expected

from .session import Failed, Session
from .show import alive, records

SAYS_ALL = frozenset(
    {
        "component",
        "no_requeue",
        "not_leader",
        "not_found",
        "not_pending",
        "pending",
        "not_running",
        "not_suspended",
        "finished",
        "ending",
        "denied",
        "held",
        "not_owner",
        "not_user",
    }
)
"""Codes for which Slurm's words are enough."""
TASKS = re.compile(r"\d+_\d.*")
NO_ERROR = "No error"
POLL_S = 0.5
SAMPLE_FIELDS = ("id", "label", "state", "user", "name", "priority")
NO_SCRIPT = "job script retrieval failed: "
DOWN = """Slurmctld(primary) at {host} is DOWN
*****************************************
** RESTORE SLURMCTLD DAEMON TO SERVICE **
*****************************************
"""


class Nameless(Failed):
    """No job of that name."""


def words_for(error: UserError) -> str:
    """Slurm's words for a refusal; ours follow where they say more."""
    if error.code in SAYS_ALL:
        return WORDS[error.code]
    return in_slurms_words(error)


def complain_of(session: Session, error: UserError, word: str, *, of_tasks: bool = True) -> None:
    """SLURM'S WORDS for job 12; of tasks of an array 12_3: SLURM'S WORDS, unless what is asked does not know those."""
    first, _, rest = words_for(error).partition("\n")
    word = re.sub(r"[\[\]]", "", word)
    told = f"{word}: {first}" if of_tasks and TASKS.fullmatch(word) else f"{first} for job {word}"
    session.complain(told + (f"\n{rest}" if rest else ""))


def ask_of(
    session: Session,
    client: SyncClient,
    kind: str,
    word: str,
    *,
    alike: frozenset[str] = frozenset(),
    update: bool = False,
    **fields: Any,
) -> UserError | None:
    """Asks it of one job, and says what is refused: of an array what becomes of which tasks. Codes of `alike` are no refusals.
    What is an `update` to Slurm has other words for whom a job does not belong to. Returns what is refused of a whole job."""
    refused = None
    try:
        parts = client.call(kind, jobs=[word], **fields)["parts"].get(word, {})
    except UserError as error:
        refused, parts = as_update(as_id(error)) if update else as_id(error), error.details
    if refused is not None and refused.code == "limit_decrement":  # Slurm's command looks before it asks
        session.complain(f"scontrol: error: {refused.message}")
    elif parts:
        _say_parts(
            session, word, {tasks: "" if code in alike else code for tasks, code in parts.items()}, refused
        )
    elif refused is not None and refused.code not in alike:
        # Whoever may not ask this of any job is told so before anybody looks which tasks are meant.
        complain_of(session, refused, word, of_tasks=refused.code != "denied")
        return refused if "_" not in word else None
    return None


def _slurms(error: UserError) -> str:
    return words_for(error).partition("\n")[0]


def _say_parts(session: Session, word: str, parts: Mapping[str, str], refused: UserError | None) -> None:
    """A line for each group of tasks, and what we say beside it of one that is refused."""
    if not any(parts.values()):
        return
    rest = ""
    for tasks, code in parts.items():
        error = UserError("", code=code)
        if refused is not None and refused.code in (code, as_update(error).code):
            error = refused
            rest = words_for(refused).partition("\n")[2]
        session.complain(f"{word.partition('_')[0]}_{tasks}: {_slurms(error) if code else NO_ERROR}")
    if rest:
        session.complain(rest)


def on_jobs(
    kind: str, *, alike: frozenset[str] = frozenset(), after: str = "", **fields: Any
) -> Callable[[Session, list[str]], None]:
    """An order for each of the jobs named. Refusals with a code of `alike` are none; `after` follows each complaint of what is an
    update to Slurm."""

    def order(session: Session, words: list[str]) -> None:
        try:
            named = named_jobs(session, words)
        except (
            Nameless
        ) as error:  # hold and its kin find none, and that is all to Slurm; the others know no names
            if after:
                session.console.err.write(f"{error}\n")
            else:
                session.complain(f"{WORDS['not_found']} for job {words[0]}\n{error}")
            return
        with session.connect() as client:
            last = None
            for word in named:
                last = ask_of(session, client, kind, word, alike=alike, update=bool(after), **fields) or last
            if after and last:
                session.complain(f"{after} error: {_slurms(last)}")

    return order


def requeue(*, hold: bool) -> Callable[[Session, list[str]], None]:
    """Running and ended jobs wait again. The first word may be an option: Incomplete, or State=SpecialExit."""

    def order(session: Session, words: list[str]) -> None:
        key, _, value = words[0].lower().partition("=")
        fields: dict[str, Any] = {}
        if key == "state" and value.startswith(("specialexit", "se")):
            fields["special_exit"] = True
        elif key and "incomplete".startswith(key):
            fields["unfinished_only"] = True
        on_jobs("requeue", hold=hold, **fields)(session, words[1:] if fields else words)

    return order


def as_update(error: UserError) -> UserError:
    """Whoever updates a job of somebody else's is, in Slurm's words, no user of it."""
    if error.code == "not_owner":
        return UserError(error.message, error.hint, code="not_user")
    return error


def as_id(error: UserError) -> UserError:
    """What is no job id is, in Slurm's words, an invalid one."""
    if error.code == "no_job_id":
        return UserError(error.message, error.hint, code="not_found")
    return error


def named_jobs(session: Session, words: list[str]) -> list[str]:
    """Ids with commas or blanks, jobname=NAME or jobid=ID. Raises Failed."""
    found: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.lower() == "state":
            found.append(word)
        elif equals and (key.lower() == "name" or ("jobname".startswith(key.lower()) and len(key) > 3)):
            found += of_name(session, value)
        else:
            found += (name for part in (value if equals else word).split() for name in words_of(part))
    return found


def of_name(session: Session, name: str, *, user: str | None = None) -> list[str]:
    """The jobs of that name: of this user, else of who asks. Raises Failed where there is none."""
    with session.connect() as client:
        whose = user or str(client.welcome["uid"])
        own = client.call("records", names=[name], users=[whose], fields=["id", "label", "state"])
    if not own["jobs"]:
        if user:
            raise Failed(f"scontrol: error: No jobs with user ID {uid_of(user)} and name '{name}'")
        raise Nameless(f"Job name {name} not found")
    return sorted({str(job["label"]).partition("_[")[0] for job in own["jobs"]})


def top(session: Session, words: list[str]) -> None:
    """The jobs become the first of their user's waiting ones, in the order in which they are named."""
    with session.connect() as client:
        for word in reversed(named_jobs(session, words)):
            found = []
            if is_job_id(word):
                found = client.call("records", ids=[word], fields=list(SAMPLE_FIELDS))["jobs"]
            if not found or all(job["state"] != "PENDING" for job in found):
                code = "not_pending" if found else "not_found"
                if found and not client.welcome["admin"] and client.welcome["user"] != found[0]["user"]:
                    code = "denied"
                complain_of(session, UserError("", code=code), word, of_tasks=False)
                continue
            others = client.call("records", users=[found[0]["user"]], fields=list(SAMPLE_FIELDS))["jobs"]
            highest = max((job["priority"] or 0 for job in others if job["state"] == "PENDING"), default=0)
            try:
                client.call("job_update", jobs=[word], change={"priority": highest + 1})
            except UserError as error:
                complain_of(session, error, word, of_tasks=False)


def notify(session: Session, words: list[str]) -> None:
    """A line for whoever looks at the job."""
    with session.connect() as client:
        try:
            client.call("tell", jobs=[words[0]], text=" ".join(words[1:]))
        except UserError as error:
            if error.code == "not_running":
                error = UserError(error.message, code="no_requeue")  # the same words
            raise Failed(f"job notify failure: {words_for(as_update(as_id(error)))}") from error


def wait_job(session: Session, words: list[str]) -> None:
    """Until its nodes are ready: it runs."""
    if not words[0].isdecimal():
        session.complain(f"Invalid job_id {words[0]}")
        return
    with session.connect() as client:
        while True:
            try:
                found = client.call("records", ids=[words[0]], fields=["state"])["jobs"]
            except UserError:
                found = []
            states = {job["state"] for job in found}
            if "RUNNING" in states or "COMPLETING" in states:
                session.console.err.write(f"scontrol: Nodes are ready for job {words[0]}\n")
                return
            if not states & {"PENDING", "CONFIGURING", "SUSPENDED"}:
                session.complain(f"scontrol: Problem running job {words[0]}")
                return
            time.sleep(POLL_S)


def write(session: Session, words: list[str]) -> None:
    """write batch_script JOB [FILE]: `-` is standard output."""
    if len(words[0]) > 1 and "config".startswith(words[0].lower()):
        raise Failed("scontrol: error: write config is not supported: config.toml has it as it is written")
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
        # Slurm's exit code is 0 all the same.
        session.console.err.write(f"{NO_SCRIPT}{WORDS['not_user' if is_strangers else 'not_found']}\n")
        return
    name = words[2] if len(words) > 2 else f"slurm-{words[1]}.sh"
    if name == "-":
        session.console.out.write(script)
        return
    if session.console.paths is None:
        raise Failed("no file can be written for a job's process: write it with `-` and redirect it")
    try:
        with open(os.path.join(session.console.folder, name), "w", encoding="utf-8") as file:
            file.write(script)
    except OSError as error:
        raise Failed(f"failed to open file `{name}`: {error.strerror}") from error
    session.console.out.write(f"batch script for job {words[1]} written to {name}\n")


def ping(session: Session, words: list[str]) -> None:
    """Whether the controller answers."""
    try:
        with session.connect() as client:
            session.console.out.write(alive(client.call("status")) + "\n")
            session.code = 0
    except UserError:
        session.code = 1
        session.console.out.write(DOWN.format(host=session.console.host))


def reconfigure(session: Session, words: list[str]) -> None:
    """Takes up config.toml."""
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


def completing(session: Session, words: list[str]) -> None:
    """Jobs that are ending, and where."""
    with session.connect() as client:
        for job in client.call("records", states=["COMPLETING"], fields=["id", "state", "node_list", "end"])[
            "jobs"
        ]:
            session.console.print_lines(
                [f"JobId={job['id']} EndTime={job['end'] or 'Unknown'} Nodes={job['node_list']}"]
            )


def pidinfo(session: Session, words: list[str]) -> None:
    """The job of a process of this machine, and when it ends."""
    from .processes import job_of

    if not words:
        raise Failed("missing argument for keyword:pidinfo")
    number = job_of(words[0])
    found = []
    if number:
        with session.connect() as client:
            found = records(client, number)
    if not found:
        raise Failed("Failed to locate job for requested pid")
    _, end = expected(found[0])
    now = time.time()
    ends = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(end)) if end else "Unknown"
    session.console.out.write(f"Slurm job id {number} ends at {ends}\n")
    session.console.out.write(f"slurm_get_rem_time is {int(max(0.0, end - now)) if end else -1}\n")


def listpids(session: Session, words: list[str]) -> None:
    """The processes of jobs on this machine."""
    from .processes import processes_of

    job, _, step = (words[0] if words else "").partition(".")
    if job and not job.isdecimal():
        raise Failed(f'"{words[0]}" does not look like a jobid')
    found = processes_of(job, step)
    if job and not found:
        what = f"StepId={words[0]}" if step else f"JobId={job}"
        session.complain(f"{what} does not exist on node {words[1] if len(words) > 1 else '(null)'}.")
    session.console.out.write(f"{'PID':<8} {'JOBID':<8} {'STEPID':<8} {'LOCALID':<7} {'GLOBALID'}\n")
    for each in found:
        pid, number, name, local, rank = each
        session.console.out.write(f"{pid:<8} {number:<8} {name:<8} {local:<7} {rank:<8}\n")
