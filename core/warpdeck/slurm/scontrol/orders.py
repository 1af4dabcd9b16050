"""scontrol commands that act on jobs or on the controller, such as hold, requeue, notify and ping."""

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
"""Error codes for which Slurm's message is sufficient and nothing is added."""
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
    """Error: no job has the given name."""


def words_for(error: UserError) -> str:
    """Return Slurm's message for a refusal. Our message follows on a second line where it adds something."""
    if error.code in SAYS_ALL:
        return WORDS[error.code]
    return in_slurms_words(error)


def complain_of(session: Session, error: UserError, word: str, *, of_tasks: bool = True) -> None:
    """Print the refusal of one job: "SLURM'S MESSAGE for job 12".

    For tasks of an array it is "12_3: SLURM'S MESSAGE". Set `of_tasks` to False for commands that do not
    accept tasks.
    """
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
    """Send a request for one job and print each refusal.

    For an array, a line is printed for each group of tasks. Error codes in `alike` do not count as refusals.
    With `update`, the messages are those that Slurm uses for an update, which differ for a job of another
    user. Returns the refusal if it concerns a whole job, else None.
    """
    refused = None
    try:
        parts = client.call(kind, jobs=[word], **fields)["parts"].get(word, {})
    except UserError as error:
        refused, parts = as_update(as_id(error)) if update else as_id(error), error.details
    # Slurm's command checks this itself before it sends the request.
    if refused is not None and refused.code == "limit_decrement":
        session.complain(f"scontrol: error: {refused.message}")
    elif parts:
        _say_parts(
            session, word, {tasks: "" if code in alike else code for tasks, code in parts.items()}, refused
        )
    elif refused is not None and refused.code not in alike:
        # A caller without the permission for any job gets this message before the tasks are looked up.
        complain_of(session, refused, word, of_tasks=refused.code != "denied")
        return refused if "_" not in word else None
    return None


def _slurms(error: UserError) -> str:
    return words_for(error).partition("\n")[0]


def _say_parts(session: Session, word: str, parts: Mapping[str, str], refused: UserError | None) -> None:
    """Print one line for each group of tasks, then our explanation of the refusal, if any."""
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
    """Return a command handler that sends request `kind` for each job named in its arguments.

    Refusals with a code in `alike` are ignored. If the command is an update in Slurm, `after` is the prefix
    of the last error line, which follows the complaints.
    """

    def order(session: Session, words: list[str]) -> None:
        try:
            named = named_jobs(session, words)
        except (
            Nameless
            # In Slurm, hold and related commands end here; the other commands do not accept job names.
        ) as error:
            if after:
                session.console.streams.err.write(f"{error}\n")
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
    """Return the handler that requeues running and finished jobs, held if `hold` is set.

    The first argument may be an option: Incomplete or State=SpecialExit.
    """

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
    """Return the error with Slurm's code for an update of another user's job.

    In this case Slurm reports an invalid user id.
    """
    if error.code == "not_owner":
        return UserError(error.message, error.hint, code="not_user")
    return error


def as_id(error: UserError) -> UserError:
    """Return the error with Slurm's code for a malformed job id: invalid job id."""
    if error.code == "no_job_id":
        return UserError(error.message, error.hint, code="not_found")
    return error


def named_jobs(session: Session, words: list[str]) -> list[str]:
    """Return the job ids named by ids (separated by commas or blanks), jobname=NAME or jobid=ID.

    Raises Failed.
    """
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
    """Return the ids of the jobs with this name that belong to `user`, by default to the caller.

    Raises Failed if there is none.
    """
    with session.connect() as client:
        whose = user or str(client.welcome["uid"])
        own = client.call("records", names=[name], users=[whose], fields=["id", "label", "state"])
    if not own["jobs"]:
        if user:
            raise Failed(f"scontrol: error: No jobs with user ID {uid_of(user)} and name '{name}'")
        raise Nameless(f"Job name {name} not found")
    return sorted({str(job["label"]).partition("_[")[0] for job in own["jobs"]})


def top(session: Session, words: list[str]) -> None:
    """Move jobs to the front of their user's pending jobs, in the order in which they are named."""
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
    """Send a message to a job's users."""
    with session.connect() as client:
        try:
            client.call("tell", jobs=[words[0]], text=" ".join(words[1:]))
        except UserError as error:
            if error.code == "not_running":
                error = UserError(error.message, code="no_requeue")  # Slurm uses the same message for both.
            raise Failed(f"job notify failure: {words_for(as_update(as_id(error)))}") from error


def wait_job(session: Session, words: list[str]) -> None:
    """Wait until the nodes of a job are ready, which means that the job runs."""
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
                session.console.streams.err.write(f"scontrol: Nodes are ready for job {words[0]}\n")
                return
            if not states & {"PENDING", "CONFIGURING", "SUSPENDED"}:
                session.complain(f"scontrol: Problem running job {words[0]}")
                return
            time.sleep(POLL_S)


def write(session: Session, words: list[str]) -> None:
    """Handle `write batch_script JOB [FILE]`; the file `-` is standard output."""
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
        raise Failed("no file can be written for a job's process: write it with `-` and redirect it")
    try:
        with open(os.path.join(session.console.folder, name), "w", encoding="utf-8") as file:
            file.write(script)
    except OSError as error:
        raise Failed(f"failed to open file `{name}`: {error.strerror}") from error
    session.console.streams.out.write(f"batch script for job {words[1]} written to {name}\n")


def ping(session: Session, words: list[str]) -> None:
    """Report whether the controller answers."""
    try:
        with session.connect() as client:
            session.console.streams.out.write(alive(client.call("status")) + "\n")
            session.code = 0
    except UserError:
        session.code = 1
        session.console.streams.out.write(DOWN.format(host=session.console.host))


def reconfigure(session: Session, words: list[str]) -> None:
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


def completing(session: Session, words: list[str]) -> None:
    """Print the jobs that are completing, with their nodes."""
    with session.connect() as client:
        jobs = client.call("records", states=["COMPLETING"], fields=["id", "node_list"])["jobs"]
    for job in jobs:  # The time at which the order to end was given is not recorded.
        times = "EndTime=Unknown CompletingTime=Unknown"
        session.console.print_lines([f"JobId={job['id']} {times} Nodes(COMPLETING)={job['node_list']} "])


def pidinfo(session: Session, words: list[str]) -> None:
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
    ends = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(end)) if end else "Unknown"
    session.console.streams.out.write(f"Slurm job id {number} ends at {ends}\n")
    session.console.streams.out.write(f"slurm_get_rem_time is {int(max(0.0, end - now)) if end else -1}\n")


def listpids(session: Session, words: list[str]) -> None:
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
