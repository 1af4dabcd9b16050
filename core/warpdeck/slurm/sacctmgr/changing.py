"""`sacctmgr add`, `modify` and `delete`: prints the change, asks for confirmation, and applies it.

The question is the same as in Slurm. Accounts, users and QoS are defined in config.toml. The controller edits
this file and reloads it; it applies either all changes or none.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.base.errors import UserError
from warpdeck.notation.config.rules import values_of
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.fields.job_states import ENDED

from . import coordinators, record_comments
from .adding import add
from .change_arguments import ChangeOptions, parse_arguments
from .change_messages import NOTHING_DELETED, NOTHING_MODIFIED, NOTHING_TO_SET, ChangeRefused
from .decision import AccountTables, Change, Decision, put
from .deleting import delete
from .editable import EDITABLE, NOT_EDITABLE, editable_name
from .modifying import modify

ENTITIES = {
    "add": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
    "modify": '"Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"',
    "delete": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
}
ANSWER_S = 30.0
"""Time in which the user must answer."""
QUESTION = "Would you like to commit changes? (You have 30 seconds to decide)\n"
UNKNOWN = " Unknown"
"""Beginning of messages that Slurm prints on standard output if they concern QoS."""
DISCARDED = " Changes Discarded\n"
DENIED = """sacctmgr: error: Your user doesn't have privilege to perform this action
 Error with request: Access/permission denied
"""
DENIED_LEVEL = """sacctmgr: error: You must be a super user to modify a users admin level
 Error with request: Access/permission denied
"""
DENIED_TO_ADD = " Problem adding {}: Access/permission denied\n"
MAX_LINE = 1000


def change(verb: str, words: Sequence[str], console: Console, *, given: set[str]) -> int:
    """Run the command and return the exit code. `given` holds sacctmgr's options. Raises CommandError."""
    word = words[0] if words else ""
    is_job = verb == "modify" and word and "job".startswith(word.lower())
    entity = "job" if is_job else editable_name(word)
    if not entity or (verb, entity) == ("modify", "coordinator"):
        console.streams.err.write(
            f"No valid entity in {verb} command\nInput line must include {ENTITIES[verb]}\n"
        )
        return 1
    if "readonly" in given:
        console.streams.err.write("Can't run this command in readonly mode.\n")
        return 1
    if is_job:
        return _change_jobs(words[1:], console, given=given)
    if entity in NOT_EDITABLE:
        raise CommandError(f"{verb} {entity} is not supported: {NOT_EDITABLE[entity]}")
    try:
        wanted = parse_arguments(verb, entity, words[1:])
        if verb == "modify" and "set" not in (word.lower() for word in words[1:]):
            raise ChangeRefused(NOTHING_TO_SET)
        with console.controller.connect() as client:
            decided = _decide(verb, entity, wanted, client)
            if verb != "add":
                _check_rights(client, decided)
    except ChangeRefused as error:
        of_qos = entity == "qos" and str(error).startswith(UNKNOWN)
        console.streams.out.write(error.output)
        (console.streams.out if of_qos else console.streams.err).write(str(error))
        return 1
    console.streams.out.write("".join(f"{line}\n" for line in decided.description))
    if not _agreed(console, given):
        return 0
    try:
        _commit(decided, console)
    except UserError as error:
        if error.code != "not_admin":
            raise
        console.streams.err.write(DENIED_TO_ADD.format(EDITABLE[entity].plural))
        return 1
    return 0


def _check_rights(client: Any, decided: Decision) -> None:
    """Raise ChangeRefused if the user may not make the changes. As in Slurm, they are not described then."""
    try:
        client.call("amend", changes=decided.changes, only_asks=True)
    except UserError as error:
        if error.code != "not_admin":
            raise
        of_levels = any(change["path"][0] == "users" for change in decided.changes)
        is_operator = client.welcome.get("level") == "operator"
        raise ChangeRefused(DENIED_LEVEL if of_levels and is_operator else DENIED) from error


def _change_jobs(words: Sequence[str], console: Console, *, given: set[str]) -> int:
    """Change records of jobs, which are stored by the controller and not in config.toml."""
    try:
        wanted = record_comments.parse_arguments(words)
        console.streams.out.write(wanted.unknown)
        console.streams.err.write(wanted.complaint)
        with console.controller.connect() as client:
            jobs = record_comments.found_jobs(client, wanted.where)
        record_comments.annotate(console, jobs, wanted.values, only_asks=True)
    except ChangeRefused as error:
        console.streams.out.write(error.output)
        console.streams.err.write(str(error))
        return 1
    except UserError as error:
        if error.code not in ("not_owner", "denied"):
            raise
        console.streams.err.write(DENIED)
        return 1
    if not jobs:
        console.streams.out.write(NOTHING_MODIFIED)
        console.streams.err.write(record_comments.NONE_FOUND)
        return 1
    console.streams.out.write(record_comments.jobs_text(jobs))
    if _agreed(console, given):
        record_comments.annotate(console, jobs, wanted.values, only_asks=False)
    return 0


def _decide(verb: str, entity: str, wanted: ChangeOptions, client: Any) -> Decision:
    """Return the change to make. Raises ChangeRefused."""
    try:
        text = client.call("config")["text"]
    except UserError as error:
        if error.code != "not_admin":
            raise
        raise ChangeRefused(
            DENIED_TO_ADD.format(EDITABLE[entity].plural) if verb == "add" else DENIED
        ) from error
    tables = AccountTables(values_of(text, "accounts"), values_of(text, "qos"), values_of(text, "users"))
    _check_clusters(verb, wanted.where.get("clusters", ()))
    if entity == "coordinator":
        return (coordinators.add if verb == "add" else coordinators.delete)(tables, wanted)
    if verb == "add":
        decided = add(entity, tables, wanted)
    elif verb == "modify":
        decided = modify(entity, tables, wanted)
    else:
        decided = delete(entity, tables, wanted, active=[] if entity == "qos" else _active(client))
    return decided._replace(changes=_with_normal(decided, tables))


def _check_clusters(verb: str, named: Sequence[str]) -> None:
    """Check the named clusters. There is only one, so a command about other clusters changes nothing.

    Raises ChangeRefused.
    """
    others = [name for name in named if name != CLUSTER]
    if others and verb == "add":
        message = f" This cluster '{others[0]}' doesn't exist.\n        Contact your admin to add it to accounting.\n"
        raise ChangeRefused(message)
    if others and len(others) == len(named):
        raise ChangeRefused(output=NOTHING_DELETED if verb == "delete" else NOTHING_MODIFIED)


def _with_normal(decided: Decision, tables: AccountTables) -> list[Change]:
    """Return the changes, preceded by the creation of the default QoS if they name it.

    The default QoS exists without an entry in the file until another entry refers to it.
    """
    values = [value for change in decided.changes for value in (change["values"] or {}).values()]
    is_named = any(
        NORMAL_QOS in value if isinstance(value, list) else value == NORMAL_QOS for value in values
    )
    is_new = is_named and NORMAL_QOS not in tables.qos
    return [*([put({}, "qos", NORMAL_QOS)] if is_new else []), *decided.changes]


def _active(client: Any) -> list[tuple[int, str, str]]:
    jobs = client.call("records", fields=["id", "account", "user", "state"])["jobs"]
    return [(job["id"], job["account"], job["user"]) for job in jobs if job["state"] not in ENDED]


def _agreed(console: Console, given: set[str]) -> bool:
    """Ask for confirmation, unless the option "immediate" is given, and report a refusal.

    Return True for an answer that begins with y and arrives in time.
    """
    if "immediate" in given:
        return True
    console.streams.out.write(QUESTION)
    began = time.monotonic()
    while True:
        console.streams.out.write("(N/y): ")
        console.streams.out.flush()
        line = console.streams.stdin.readline(MAX_LINE)
        console.streams.out.write("\n")
        word = line.strip().lower()
        if word[:1] == "y" and time.monotonic() - began <= ANSWER_S:
            return True
        if word[:1] in ("y", "n", ""):
            console.streams.out.write(DISCARDED)
            return False
        console.streams.out.write("Y or N please\n")


def _commit(decided: Decision, console: Console) -> None:
    try:
        with console.controller.connect() as client:
            client.call("amend", changes=decided.changes)
    except UserError as error:
        if error.code == "not_admin":
            raise
        problems = str(error.details.get("problems", "")) or f"{error.message}\n{error.hint}".strip()
        raise CommandError(f"{problems}\nnothing was changed") from error
