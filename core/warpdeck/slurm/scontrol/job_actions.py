"""scontrol commands that act on jobs, such as hold, requeue, top and notify."""

from __future__ import annotations

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

from .session import Failed, ScontrolSession

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


class NoSuchName(Failed):
    """Error: no job has the given name."""


def words_for(error: UserError) -> str:
    """Return Slurm's message for a refusal. Our message follows on a second line where it adds something."""
    if error.code in SAYS_ALL:
        return WORDS[error.code]
    return in_slurms_words(error)


def complain_of(session: ScontrolSession, error: UserError, word: str, *, of_tasks: bool = True) -> None:
    """Print the refusal of one job: "SLURM'S MESSAGE for job 12".

    For tasks of an array it is "12_3: SLURM'S MESSAGE". Set `of_tasks` to False for commands that do not
    accept tasks.
    """
    first, _, rest = words_for(error).partition("\n")
    word = re.sub(r"[\[\]]", "", word)
    message = f"{word}: {first}" if of_tasks and TASKS.fullmatch(word) else f"{first} for job {word}"
    session.complain(message + (f"\n{rest}" if rest else ""))


def send_for_job(
    session: ScontrolSession,
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


def _say_parts(
    session: ScontrolSession, word: str, parts: Mapping[str, str], refused: UserError | None
) -> None:
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
) -> Callable[[ScontrolSession, list[str]], None]:
    """Return a command handler that sends request `kind` for each job named in its arguments.

    Refusals with a code in `alike` are ignored. If the command is an update in Slurm, `after` is the prefix
    of the last error line, which follows the complaints.
    """

    def order(session: ScontrolSession, words: list[str]) -> None:
        try:
            named = named_jobs(session, words)
        except (
            NoSuchName
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
                last = (
                    send_for_job(session, client, kind, word, alike=alike, update=bool(after), **fields)
                    or last
                )
            if after and last:
                session.complain(f"{after} error: {_slurms(last)}")

    return order


def requeue(*, hold: bool) -> Callable[[ScontrolSession, list[str]], None]:
    """Return the handler that requeues running and finished jobs, held if `hold` is set.

    The first argument may be an option: Incomplete or State=SpecialExit.
    """

    def order(session: ScontrolSession, words: list[str]) -> None:
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


def named_jobs(session: ScontrolSession, words: list[str]) -> list[str]:
    """Return the job ids named by ids (separated by commas or blanks), jobname=NAME or jobid=ID.

    Raises Failed.
    """
    found: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.lower() == "state":
            found.append(word)
        elif equals and (key.lower() == "name" or ("jobname".startswith(key.lower()) and len(key) > 3)):
            found += jobs_named(session, value)
        else:
            found += (name for part in (value if equals else word).split() for name in words_of(part))
    return found


def jobs_named(session: ScontrolSession, name: str, *, user: str | None = None) -> list[str]:
    """Return the ids of the jobs with this name that belong to `user`, by default to the caller.

    Raises Failed if there is none.
    """
    with session.connect() as client:
        whose = user or str(client.welcome["uid"])
        own = client.call("records", names=[name], users=[whose], fields=["id", "label", "state"])
    if not own["jobs"]:
        if user:
            raise Failed(f"scontrol: error: No jobs with user ID {uid_of(user)} and name '{name}'")
        raise NoSuchName(f"Job name {name} not found")
    return sorted({str(job["label"]).partition("_[")[0] for job in own["jobs"]})


def top(session: ScontrolSession, words: list[str]) -> None:
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


def notify(session: ScontrolSession, words: list[str]) -> None:
    """Send a message to a job's users."""
    with session.connect() as client:
        try:
            client.call("tell", jobs=[words[0]], text=" ".join(words[1:]))
        except UserError as error:
            if error.code == "not_running":
                error = UserError(error.message, code="no_requeue")  # Slurm uses the same message for both.
            raise Failed(f"job notify failure: {words_for(as_update(as_id(error)))}") from error


def wait_job(session: ScontrolSession, words: list[str]) -> None:
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
