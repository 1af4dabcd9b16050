"""`scontrol create|update|delete partition`: edits the partitions in config.toml.

Changes take effect at once.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.hostlist import expand

from .session import Failed, ScontrolSession

KEYS = {
    "allowaccounts": "allow_accounts", "allowgroups": "allow_groups", "allowqos": "allow_qos",
    "defaulttime": "default_time", "denyaccounts": "deny_accounts", "denyqos": "deny_qos", "gracetime": "grace_s",
    "maxnodes": "max_nodes", "maxtime": "max_time", "minnodes": "min_nodes", "nodes": "nodes",
    "preemptmode": "preempt_mode", "priorityjobfactor": "priority_job_factor", "prioritytier": "priority_tier",
    "qos": "qos", "state": "state",
}  # fmt: skip
"""Slurm's partition key -> our key in [partitions.NAME]."""
LISTS = frozenset({"allow_accounts", "allow_groups", "allow_qos", "deny_accounts", "deny_qos"})
COUNTS = frozenset({"grace_s", "max_nodes", "min_nodes", "priority_job_factor", "priority_tier"})
CLEARED = ("", "unlimited", "infinite", "none")
"""Values that remove a key, so that its default applies."""
STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")
LEAST = 1
ERROR = "scontrol: error: "
NO_ERROR = "\nslurm_update error: No error"
"""Text that scontrol appends if it cannot parse an update."""
TITLES = {"grace_s": "GraceTime", "priority_tier": "PriorityTier", "priority_job_factor": "PriorityJobFactor"}
NODE_COUNTS = {"max_nodes": "MaxNodes", "min_nodes": "MinNodes"}
TIMES = frozenset({"default_time", "max_time"})
MODES = frozenset({"off", "requeue", "suspend", "cancel"})
NO_PARTITION = "Invalid partition name specified"
DENIED = "Invalid user id"
YES_NO = {"yes": True, "no": False}

Values = dict[str, Any]
Change = dict[str, Any]
"""`model.Amendment` in its wire format."""


class PartitionSyntaxError(Exception):
    """Error that scontrol itself detects. With `is_update`, an update appends `NO_ERROR` to it."""

    def __init__(self, text: str, *, is_update: bool = True) -> None:
        super().__init__(text)
        self.is_update = is_update


def change(session: ScontrolSession, pairs: list[tuple[str, str]]) -> None:
    """Handle `scontrol update partitionname=NAME KEY=VALUE...`. Raises Failed."""
    name = next(value for key, value in pairs if _key(key) == "partitionname")
    try:
        changes = _changes(name, [(key, value) for key, value in pairs if _key(key) != "partitionname"])
    except PartitionSyntaxError as error:
        raise Failed(f"{error}{NO_ERROR if error.is_update else ''}") from error
    if not changes:
        raise Failed(f"{ERROR}No changes specified")
    with session.connect() as client:
        answer = client.call("partitions")
        if name not in {row["name"] for row in answer["partitions"]}:
            raise Failed(f"slurm_update error: {NO_PARTITION}")
        if not answer["configured"]:
            raise Failed("slurm_update error: there are no partitions in config.toml: create one first")
        _check_nodes(client, changes, "slurm_update error")
        amend(client, changes, "slurm_update error")


def create(session: ScontrolSession, words: list[str]) -> None:
    """Handle `scontrol create [partition] partitionname=NAME KEY=VALUE...`. Raises Failed."""
    pairs = [(key, value) for key, equals, value in (word.partition("=") for word in words) if equals]
    name = next((value for key, value in pairs if _key(key) == "partitionname"), "")
    if not name:
        raise Failed(f"{ERROR}Invalid input: {words[0]}  Request aborted")
    if all(_key(key) != "minnodes" for key, _ in pairs):
        pairs.append(("minnodes", "1"))  # Slurm sets this for a partition that is created at run time.
    try:
        changes = _changes(name, [(key, value) for key, value in pairs if _key(key) != "partitionname"])
    except PartitionSyntaxError as error:
        raise Failed(str(error)) from error
    with session.connect() as client:
        answer = client.call("partitions")
        if answer["configured"] and name in {row["name"] for row in answer["partitions"]}:
            raise Failed(f"Error creating the partition: {NO_PARTITION}\nthere is one of that name")
        _check_nodes(client, changes, "Error creating the partition")
        own = {"path": ["partitions", name], "values": {}}
        amend(client, [own, *changes], "Error creating the partition")


def delete(session: ScontrolSession, name: str, *, said: str) -> None:
    """Handle `scontrol delete partitionname=NAME`. Raises Failed."""
    with session.connect() as client:
        answer = client.call("partitions")
        if name not in {row["name"] for row in answer["partitions"]} or not answer["configured"]:
            raise Failed(f"delete_partition {said}: {NO_PARTITION}")
        jobs = client.call("records", partitions=[name], fields=["id", "state"])["jobs"]
        if any(job["state"] in ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING") for job in jobs):
            raise Failed(f"delete_partition {said}: Partition is in use")
        amend(client, [{"path": ["partitions", name], "values": None}], f"delete_partition {said}")


def _check_nodes(client: Any, changes: list[Change], said: str) -> None:
    """Raise Failed if the changes name nodes that do not exist."""
    named = (change["values"].get("nodes") for change in changes)
    text = next((nodes for nodes in named if nodes), "ALL")
    there = {row["name"] for row in client.call("nodes")["nodes"]}
    if text.upper() != "ALL" and not set(expand(text)) <= there:
        raise Failed(f"{said}: Invalid node name specified")


def amend(client: Any, changes: list[Change], said: str) -> None:
    """Change config.toml in a single step: all changes or none.

    Raises Failed with a message that begins with `said`.
    """
    try:
        client.call("amend", changes=changes)
    except UserError as error:
        if error.code == "not_admin":
            raise Failed(f"{said}: {DENIED}") from error
        problems = str(error.details.get("problems", "")) or f"{error.message}\n{error.hint}".strip()
        raise Failed(f"{said}: {problems}\nnothing was changed") from error


def _key(key: str) -> str:
    """Return the key in lower case, with an abbreviated `partitionname` in full."""
    lowered = key.lower()
    return "partitionname" if len(lowered) >= LEAST and "partitionname".startswith(lowered) else lowered


def _changes(name: str, pairs: list[tuple[str, str]]) -> list[Change]:
    """Return the changes of config.toml. Raises PartitionSyntaxError for a key that partitions do not have here."""
    values: Values = {}
    site: Values = {}
    for key, value in pairs:
        lowered = key.lower()
        if lowered == "default" and value.lower() in YES_NO:
            site["default_partition"] = name if YES_NO[value.lower()] else None
        elif lowered == "oversubscribe" and value.lower() in ("exclusive", "no"):
            values["exclusive"] = True if value.lower() == "exclusive" else None
        elif lowered == "exclusiveuser":
            values["exclusive_user"] = _yes(key, value) or None
        elif lowered in KEYS:
            values[KEYS[lowered]] = _value(KEYS[lowered], key, value)
        else:
            message = f"{ERROR}Update of this parameter is not supported: {key}={value}"
            raise PartitionSyntaxError(f"{message}\n\n{ERROR}Request aborted")
    found = [{"path": ["partitions", name], "values": values}] if values else []
    return found + ([{"path": ["scheduler"], "values": site}] if site else [])


def _value(name: str, key: str, value: str) -> Any:
    """Return the value as config.toml stores it; None removes the key. Raises PartitionSyntaxError."""
    if name == "state":
        return _state(key, value)
    if name in LISTS:
        return [word for word in value.split(",") if word] if value.upper() not in ("", "ALL") else None
    if value.lower() in CLEARED:
        return None
    if name in COUNTS and not value.isdecimal():
        if name in NODE_COUNTS:
            raise PartitionSyntaxError(
                f'{ERROR}Invalid numeric value "{value}" for {NODE_COUNTS[name]}.', is_update=False
            )
        raise PartitionSyntaxError(f"{ERROR}Invalid {TITLES[name]} value: {value}")
    if name in COUNTS:
        return int(value)
    if name == "preempt_mode" and value.lower() not in MODES:
        raise PartitionSyntaxError(f"{ERROR}Invalid input: {key}={value}")
    if name in TIMES:
        try:
            parse_limit(value)
        except UserError as error:
            raise PartitionSyntaxError(f"{ERROR}Invalid input {key}={value}") from error
    return value.lower() if name == "preempt_mode" else value


def _yes(key: str, value: str) -> bool:
    if value.lower() not in YES_NO:
        raise PartitionSyntaxError(
            f"{ERROR}Invalid input: {key}={value}\n{ERROR}Acceptable ExclusiveUser values are YES and NO"
        )
    return YES_NO[value.lower()]


def _state(key: str, value: str) -> str:
    state = next((each for each in STATES if value and each.startswith(value.upper())), "")
    if not state:
        words = f"{', '.join(STATES[:-1])} and {STATES[-1]}"
        raise PartitionSyntaxError(
            f"{ERROR}Invalid input: {key}={value}\n{ERROR}Acceptable State values are {words}"
        )
    return state
