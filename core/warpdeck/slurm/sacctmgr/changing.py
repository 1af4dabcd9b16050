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
from warpdeck.slurm.format.job_states import ENDED

from . import record_comments
from .adding import add
from .decision import Change, Decision, Nothing, Tables, put
from .deleting import delete
from .entity_settings import Unknown
from .listing import ListOptions, asked
from .modifying import modify

ENTITIES = {
    "add": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
    "modify": '"Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"',
    "delete": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
}
OURS = ("account", "qos", "user")
_ONE_CLUSTER = "there is one cluster, and what it has stands in config.toml"
OTHERS = {
    "cluster": _ONE_CLUSTER,
    "coordinator": "root and the controller's own user change accounts",
    "federation": _ONE_CLUSTER,
    "resource": "licenses stand in config.toml, under [licenses]",
}
OTHER_WORDS = {"acct": "account", "accts": "account"}
ANSWER_S = 30.0
"""Time in which the user must answer."""
QUESTION = "Would you like to commit changes? (You have 30 seconds to decide)\n"
UNKNOWN = " Unknown"
"""Beginning of messages that Slurm prints on standard output if they concern QoS."""
DISCARDED = " Changes Discarded\n"
DENIED = """sacctmgr: error: Your user doesn't have privilege to perform this action
 Error with request: Access/permission denied
"""
DENIED_TO_ADD = " Problem adding {}: Access/permission denied\n"
PROBLEMS = {"account": "accounts", "user": "users", "qos": "QOS"}
NOTHING_DONE = {"modify": " Nothing modified\n", "delete": " Nothing deleted\n"}
MAX_LINE = 1000


def change(command: str, words: Sequence[str], console: Console, *, given: set[str]) -> int:
    """Run the command and return the exit code. `given` holds sacctmgr's options. Raises CommandError."""
    verb = {"create": "add", "remove": "delete"}.get(command, command)
    entity = _entity(verb, words[0] if words else "")
    if not entity:
        console.streams.err.write(
            f"No valid entity in {verb} command\nInput line must include {ENTITIES[verb]}\n"
        )
        return 1
    if "readonly" in given:
        console.streams.err.write("Can't run this command in readonly mode.\n")
        return 1
    if entity == "job" and verb == "modify":
        return _of_jobs(words[1:], console, given=given)
    if entity in OTHERS:
        raise CommandError(f"{verb} {entity} is not supported: {OTHERS[entity]}")
    try:
        wanted = _asked(verb, entity, words[1:])
        with console.controller.connect() as client:
            decided = _decide(verb, entity, wanted, client)
    except Unknown as error:
        of_qos = entity == "qos" and str(error).startswith(UNKNOWN)
        (console.streams.out if of_qos else console.streams.err).write(str(error))
        return 1
    except Nothing as error:
        (console.streams.err if error.is_error else console.streams.out).write(str(error))
        return 1
    console.streams.out.write(decided.told)
    if "immediate" not in given and not _agreed(console):
        console.streams.out.write(DISCARDED)
        return 0
    return _commit(decided, console)


def _of_jobs(words: Sequence[str], console: Console, *, given: set[str]) -> int:
    """Change records of jobs, which are stored by the controller and not in config.toml."""
    try:
        wanted = record_comments.asked(words)
        console.streams.out.write(wanted.told)
        console.streams.err.write(wanted.complaint)
        with console.controller.connect() as client:
            jobs = record_comments.found_jobs(client, wanted.where)
        record_comments.annotate(console, jobs, wanted.values, only_asks=True)
    except record_comments.Refused as error:
        console.streams.out.write(error.told)
        console.streams.err.write(str(error))
        return 1
    except UserError as error:
        if error.code not in ("not_owner", "denied"):
            raise
        console.streams.err.write(DENIED)
        return 1
    if not jobs:
        console.streams.out.write(record_comments.NONE_MODIFIED)
        console.streams.err.write(record_comments.NONE_FOUND)
        return 1
    console.streams.out.write(record_comments.told_jobs(jobs))
    if "immediate" not in given and not _agreed(console):
        console.streams.out.write(DISCARDED)
        return 0
    record_comments.annotate(console, jobs, wanted.values, only_asks=False)
    return 0


def _entity(verb: str, word: str) -> str:
    if verb == "modify" and word.lower() and "job".startswith(word.lower()):
        return "job"
    lowered = word.partition("=")[0].lower()
    lowered = OTHER_WORDS.get(lowered, lowered)
    return next(
        (
            each
            for each in (*OURS, *OTHERS)
            if lowered and (each.startswith(lowered) or lowered == f"{each}s")
        ),
        "",
    )


def _asked(verb: str, entity: str, words: Sequence[str]) -> ListOptions:
    """Parse the arguments. Raises Unknown or Nothing."""
    if verb == "modify" and "set" not in (word.lower() for word in words):
        asked(verb, entity, words)
        raise Nothing(" You didn't give me anything to set\n")
    return asked(verb, entity, words)


def _decide(verb: str, entity: str, wanted: ListOptions, client: Any) -> Decision:
    """Return the change to make. Raises Nothing or Unknown."""
    try:
        text = client.call("config")["text"]
    except UserError as error:
        if error.code != "not_admin":
            raise
        raise Nothing(DENIED_TO_ADD.format(PROBLEMS[entity]) if verb == "add" else DENIED) from error
    tables = Tables(values_of(text, "accounts"), values_of(text, "qos"))
    _check_clusters(verb, wanted.where.get("clusters", ()))
    if verb == "add":
        decided = add(entity, tables, wanted)
    elif verb == "modify":
        decided = modify(entity, tables, wanted)
    else:
        decided = delete(entity, tables, wanted, active=[] if entity == "qos" else _active(client))
    return decided._replace(changes=_with_normal(decided, tables))


def _check_clusters(verb: str, named: Sequence[str]) -> None:
    """Check the named clusters. There is only one, so a command about other clusters changes nothing.

    Raises Nothing.
    """
    others = [name for name in named if name != CLUSTER]
    if others and verb == "add":
        told = f" This cluster '{others[0]}' doesn't exist.\n        Contact your admin to add it to accounting.\n"
        raise Nothing(told)
    if others and len(others) == len(named):
        raise Nothing(NOTHING_DONE[verb], is_error=False)


def _with_normal(decided: Decision, tables: Tables) -> list[Change]:
    """Return the changes, preceded by the creation of the default QoS if they name it.

    The default QoS exists without an entry in the file until another entry refers to it.
    """
    named = (
        name
        for change in decided.changes
        for value in (change["values"] or {}).values()
        for name in _words(value)
    )
    is_new = NORMAL_QOS in named and NORMAL_QOS not in tables.qos
    return [*([put({}, "qos", NORMAL_QOS)] if is_new else []), *decided.changes]


def _words(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _active(client: Any) -> list[tuple[int, str, str]]:
    jobs = client.call("records", fields=["id", "account", "user", "state"])["jobs"]
    return [(job["id"], job["account"], job["user"]) for job in jobs if job["state"] not in ENDED]


def _agreed(console: Console) -> bool:
    """Ask for confirmation. Return True for an answer that begins with y and arrives in time."""
    console.streams.out.write(QUESTION)
    began = time.monotonic()
    while True:
        console.streams.out.write("(N/y): ")
        console.streams.out.flush()
        line = console.streams.stdin.readline(MAX_LINE)
        console.streams.out.write("\n")
        word = line.strip().lower()
        if word[:1] in ("y", "n", ""):
            return word[:1] == "y" and time.monotonic() - began <= ANSWER_S
        console.streams.out.write("Y or N please\n")


def _commit(decided: Decision, console: Console) -> int:
    try:
        with console.controller.connect() as client:
            client.call("amend", changes=decided.changes)
    except UserError as error:
        told = str(error.details.get("problems", "")) or f"{error.message}\n{error.hint}".strip()
        raise CommandError(f"{told}\nnothing was changed") from error
    return 0
