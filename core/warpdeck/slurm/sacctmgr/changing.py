"""`sacctmgr add`, `modify` and `delete`: what is to be other is told, asked for as Slurm asks, and then config.toml says so.

Accounts, users and QoS stand in that file. The controller changes it in place and puts it in force, whole or not at all.
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
"""So long it may be decided."""
QUESTION = "Would you like to commit changes? (You have 30 seconds to decide)\n"
UNKNOWN = " Unknown"
"""Where this is about QoS Slurm says it as if it were no error."""
DISCARDED = " Changes Discarded\n"
DENIED = """sacctmgr: error: Your user doesn't have privilege to perform this action
 Error with request: Access/permission denied
"""
DENIED_TO_ADD = " Problem adding {}: Access/permission denied\n"
PROBLEMS = {"account": "accounts", "user": "users", "qos": "QOS"}
NOTHING_DONE = {"modify": " Nothing modified\n", "delete": " Nothing deleted\n"}
MAX_LINE = 1000


def change(command: str, words: Sequence[str], console: Console, *, given: set[str]) -> int:
    """The exit code. `given` are sacctmgr's options. Raises CommandError."""
    verb = {"create": "add", "remove": "delete"}.get(command, command)
    entity = _entity(verb, words[0] if words else "")
    if not entity:
        console.err.write(f"No valid entity in {verb} command\nInput line must include {ENTITIES[verb]}\n")
        return 1
    if "readonly" in given:
        console.err.write("Can't run this command in readonly mode.\n")
        return 1
    if entity == "job" and verb == "modify":
        return _of_jobs(words[1:], console, given=given)
    if entity in OTHERS:
        raise CommandError(f"{verb} {entity} is not supported: {OTHERS[entity]}")
    try:
        wanted = _asked(verb, entity, words[1:])
        with console.connect() as client:
            decided = _decide(verb, entity, wanted, client)
    except Unknown as error:
        of_qos = entity == "qos" and str(error).startswith(UNKNOWN)
        (console.out if of_qos else console.err).write(str(error))
        return 1
    except Nothing as error:
        (console.err if error.is_error else console.out).write(str(error))
        return 1
    console.out.write(decided.told)
    if "immediate" not in given and not _agreed(console):
        console.out.write(DISCARDED)
        return 0
    return _commit(decided, console)


def _of_jobs(words: Sequence[str], console: Console, *, given: set[str]) -> int:
    """Records of jobs, which the controller keeps, not config.toml."""
    try:
        wanted = record_comments.asked(words)
        console.out.write(wanted.told)
        console.err.write(wanted.complaint)
        with console.connect() as client:
            jobs = record_comments.found_jobs(client, wanted.where)
        record_comments.annotate(console, jobs, wanted.values, only_asks=True)
    except record_comments.Refused as error:
        console.out.write(error.told)
        console.err.write(str(error))
        return 1
    except UserError as error:
        if error.code not in ("not_owner", "denied"):
            raise
        console.err.write(DENIED)
        return 1
    if not jobs:
        console.out.write(record_comments.NONE_MODIFIED)
        console.err.write(record_comments.NONE_FOUND)
        return 1
    console.out.write(record_comments.told_jobs(jobs))
    if "immediate" not in given and not _agreed(console):
        console.out.write(DISCARDED)
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
    """Raises Unknown, Nothing."""
    if verb == "modify" and "set" not in (word.lower() for word in words):
        asked(verb, entity, words)
        raise Nothing(" You didn't give me anything to set\n")
    return asked(verb, entity, words)


def _decide(verb: str, entity: str, wanted: ListOptions, client: Any) -> Decision:
    """Raises Nothing, Unknown."""
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
    """There is one, and what is asked of others concerns nobody here. Raises Nothing."""
    others = [name for name in named if name != CLUSTER]
    if others and verb == "add":
        told = f" This cluster '{others[0]}' doesn't exist.\n        Contact your admin to add it to accounting.\n"
        raise Nothing(told)
    if others and len(others) == len(named):
        raise Nothing(NOTHING_DONE[verb], is_error=False)


def _with_normal(decided: Decision, tables: Tables) -> list[Change]:
    """The usual QoS is there without a word of the file's, until something in the file names it."""
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
    """A line that begins with y says so, one that comes too late does not."""
    console.out.write(QUESTION)
    began = time.monotonic()
    while True:
        console.out.write("(N/y): ")
        console.out.flush()
        line = console.stdin.readline(MAX_LINE)
        console.out.write("\n")
        word = line.strip().lower()
        if word[:1] in ("y", "n", ""):
            return word[:1] == "y" and time.monotonic() - began <= ANSWER_S
        console.out.write("Y or N please\n")


def _commit(decided: Decision, console: Console) -> int:
    try:
        with console.connect() as client:
            client.call("amend", changes=decided.changes)
    except UserError as error:
        told = str(error.details.get("problems", "")) or f"{error.message}\n{error.hint}".strip()
        raise CommandError(f"{told}\nnothing was changed") from error
    return 0
