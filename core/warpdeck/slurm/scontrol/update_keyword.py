"""`scontrol update`: changes jobs, nodes, partitions or a reservation from KEY=VALUE arguments.

Messages are Slurm's.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of, uid_of
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.console.command_options import INVALID_TIME

from .absent import LOG_HINT
from .job_actions import NoSuchName, jobs_named, named_jobs, send_for_job
from .job_keys import KEYS, Change, key_of
from .node_text import fact_of, set_facts
from .session import Failed, ScontrolSession
from .unsupported_keys import unsupported_reason

NO_ENTITY = (
    "No valid entity in update command\n"
    'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
)
LIMITS = {"timelimit": "TimeLimit", "timemin": "TimeMin"}
MOMENTS = frozenset({"starttime", "eligibletime", "deadline", "endtime"})
MAX_UID_DIGITS = 10
STATES_SAID = (
    "Request aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN\n"
    "Not all states are valid given a node's prior state"
)


def update(session: ScontrolSession, words: list[str]) -> None:
    """Handle `scontrol update`; the keys determine the kind of object to change. Raises Failed."""
    if not words:
        raise Failed("too few arguments for update keyword")
    pairs = pairs_of(words)
    for key, _ in pairs:
        for kinds, run in (
            (("jobid", "jobname"), _jobs),
            (("nodename",), _nodes),
            (("partitionname",), _partition),
            (("reservationname",), _reservation),
        ):
            if any(_means(key, kind, least=4 if kind.startswith("job") else 1) for kind in kinds):
                run(session, pairs)
                return
        if _means(key, "slurmctlddebug", least=2):
            raise Failed(f"scontrol: error: SlurmctldDebug is not supported: {LOG_HINT}")
    raise Failed(NO_ENTITY)


def pairs_of(words: list[str]) -> list[tuple[str, str]]:
    """Return the arguments as (key, value) pairs; `job 12` is the same as `job=12`.

    A + or - before the = stays with the key. Among the keys of a job only Nice may have no value; among the
    keys of a node none may. Raises Failed if another key without a value is the last argument.
    """
    pairs: list[tuple[str, str]] = []
    queue = list(words)
    while queue:
        key, equals, value = queue.pop(0).partition("=")
        of_job = _is_of_job(pairs[0][0] if pairs else key)
        if equals or (of_job and key_of(key) == "nice"):
            pass
        elif queue and (of_job or not pairs):
            value = queue.pop(0)
        elif of_job:
            raise Failed(f"Invalid input: {key}\nRequest aborted")
        elif _means(pairs[0][0] if pairs else key, "nodename", least=2):
            raise Failed(
                f"scontrol: error: Invalid input: {key}  Request aborted\nslurm_update error: No error"
            )
        pairs.append((key, value))
    return pairs


def _is_of_job(key: str) -> bool:
    return _means(key, "jobid", least=4) or _means(key, "jobname", least=4)


def _means(key: str, name: str, *, least: int = 1) -> bool:
    """Return whether the key is the name or an abbreviation of it.

    The rule is Slurm's: for example, jobid may be written job.
    """
    lowered = key.lower()
    return len(lowered) >= min(least, 3) and name.startswith(lowered)


def _jobs(session: ScontrolSession, pairs: list[tuple[str, str]]) -> None:
    change: Change = {}
    jobs: list[str] = []
    user = _user_of(pairs)
    for key, value in pairs:
        lowered = key.lower()
        if lowered in ("job", "jobi", "jobid"):
            jobs += named_jobs(session, [value])
        elif lowered == "jobname" and not _names_a_job(pairs):
            try:
                jobs += jobs_named(session, value, user=user)
            except NoSuchName as error:
                raise Failed(f"scontrol: error: No jobs with name '{value}'") from error
        elif not _means_user(key):
            _one(change, key, value, job=next(iter(jobs), ""))
    if not change:
        raise Failed("No changes specified")
    with session.connect() as client:
        for word in jobs:
            if "nodes_min" in change and _is_split(client, word):
                session.complain("scontrol: error: Job resizing not supported for job arrays")
                continue
            send_for_job(session, client, "job_update", word, update=True, change=change)


def _is_split(client: Any, word: str) -> bool:
    """Return whether the word names a whole array that has some tasks as separate records."""
    return word.isdecimal() and len(client.call("records", ids=[word], fields=["id"])["jobs"]) > 1


def _names_a_job(pairs: list[tuple[str, str]]) -> bool:
    """Return whether a job is given by number; if not, jobname selects the jobs."""
    return any(key.lower() in ("job", "jobi", "jobid") for key, _ in pairs)


def _means_user(key: str) -> bool:
    return len(key) > 2 and "userid".startswith(key.lower())


def _user_of(pairs: list[tuple[str, str]]) -> str | None:
    """Return the user given with a job name, which then selects only this user's jobs, or None. Raises Failed."""
    given = next((value for key, value in pairs if _means_user(key)), None)
    if given is None:
        return None
    name = name_of(int(given)) if given.isdecimal() and len(given) < MAX_UID_DIGITS else given
    if uid_of(name) is None:
        raise Failed(f"Invalid UserID: {given}\nRequest aborted")
    return name


def _one(change: Change, key: str, value: str, *, job: str) -> None:
    """Add the change that one KEY=VALUE means. Raises Failed."""
    sign = key[-1] if key[-1:] in ("+", "-") else ""
    name = key_of(key.rstrip("+-"))
    if not name or (sign and name != "timelimit"):
        reason = "" if sign else unsupported_reason(key)
        raise Failed(f"Update of this parameter is not supported: {key}={value}\nRequest aborted{reason}")
    if name == "timelimit" and value[:1] in ("+", "-"):
        sign, value = value[0], value[1:]
    if name in MOMENTS and not value:
        raise Failed("No changes specified")
    try:
        if sign:
            change["time_limit_more_s"] = (-1 if sign == "-" else 1) * (parse_limit(value) or 0)
        else:
            change.update(KEYS[name].change(value))
    except UserError as error:
        raise Failed(_wrong(name, value, error, job=job)) from error


def _wrong(name: str, value: str, error: UserError, *, job: str) -> str:
    if name in LIMITS:
        more = f"\n{error.message}; {error.hint}" if "no limits" in error.message else ""
        return f"scontrol: error: Invalid {LIMITS[name]} value{more}"
    if name in MOMENTS:
        return f"{INVALID_TIME}{value}\nNo changes specified"
    if name == "mailtype":
        return error.message
    if error.code in WORDS:
        return f"{WORDS[error.code]} for job {job}"
    if name == "dependency":
        return f"{WORDS['dependency']} for job {job}"
    if name == "gres":
        return f"Invalid generic resource (gres) specification for job {job}\n{error.message}"
    return f"scontrol: error: {error.message}"


def _nodes(session: ScontrolSession, pairs: list[tuple[str, str]]) -> None:
    names, state, reason = "", "", ""
    facts: dict[str, Any] = {}
    for key, value in pairs:
        if value == "" and "state".startswith(key.lower()):
            raise Failed(f"Invalid input: {key}=\n{STATES_SAID}")
        lowered = key.lower()
        if "nodename".startswith(lowered) and len(lowered) > 1:
            names = value
        elif "state".startswith(lowered) and lowered:
            state = value
        elif "reason".startswith(lowered) and len(lowered) > 2:
            reason = value.strip("\"'")
        elif fact := fact_of(key, value):
            facts |= fact
        else:
            raise Failed(
                f"Update of this parameter is not supported: {key}={value}\nRequest aborted\n"
                "only State, Reason, Weight, Features, Comment and Extra can be set; nodes report all other properties"
            )
    if not state and not reason and not facts:
        raise Failed("No changes specified")
    _set_nodes(session, names, state, reason, facts)


def _set_nodes(session: ScontrolSession, names: str, state: str, reason: str, facts: dict[str, Any]) -> None:
    word = _node_state(state) if state or reason else ""
    if word in ("drain", "down") and not reason:
        raise Failed("You must specify a reason when DOWNING or DRAINING a node. Request denied")
    with session.connect() as client:
        rows = {row["name"]: row for row in client.call("nodes")["nodes"]}
        chosen = list(rows) if names.upper() == "ALL" else expand(names)
        if not chosen or any(name not in rows for name in chosen):
            raise Failed("slurm_update error: Invalid node name specified")
        try:
            if facts:
                set_facts(client, chosen, facts)
            for name in chosen if state or reason else ():
                _set_node(client, rows[name], word, reason)
        except UserError as error:
            denied = "Invalid user id" if error.code == "not_admin" else error.message
            session.complain(f"slurm_update error: {denied}")


def _set_node(client: Any, row: dict[str, Any], word: str, reason: str) -> None:
    name = row["name"]
    if word in ("drain", "down"):
        client.call("node_drain", name=name, reason=reason)
    elif word in ("resume", "undrain"):
        client.call("node_resume", name=name)
    elif row["state"] in ("drained", "draining"):
        client.call("node_resume", name=name)
        client.call("node_drain", name=name, reason=reason)
    else:
        raise UserError("a node that accepts jobs has no reason", "add State=DRAIN")
    if word == "down":
        _send_away(client, row["jobs"])


def _send_away(client: Any, jobs: list[str]) -> None:
    """Requeue the jobs on a node that is set down; cancel those that cannot be requeued."""
    for job in jobs:
        try:
            client.call("requeue", jobs=[job])
        except UserError:
            client.call("cancel", jobs=[job])


def _node_state(state: str) -> str:
    lowered = state.lower()
    known = {"drain": 3, "fail": 3, "down": 3, "resume": 3, "undrain": 3, "idle": 3}
    if not lowered:
        return ""
    for name, least in known.items():
        if len(lowered) >= least and name.startswith(lowered):
            return {"fail": "drain", "idle": "resume"}.get(name, name)
    raise Failed(f"Invalid input: state={state}\n{STATES_SAID}")


def _partition(session: ScontrolSession, pairs: list[tuple[str, str]]) -> None:
    from .partitions import change

    change(session, pairs)


def _reservation(session: ScontrolSession, pairs: list[tuple[str, str]]) -> None:
    from .reservation_changes import change

    change(session, pairs)
