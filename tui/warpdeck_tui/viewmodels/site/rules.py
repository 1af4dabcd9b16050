"""The forms of a QoS and a partition.

This module holds their fields, reads values of config.toml, and finds the changes that a form requests. The
fields are the keys that change often. All other keys of the table are left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.model.amendment import Value
from warpdeck.notation.config.rules import literal

WORD, COUNT, NUMBER, NAMES = "word", "count", "number", "names"
"""Types of fields: a text, a whole number, a number, names separated by commas."""


class RuleField(NamedTuple):
    """A field. `name` is the key in config.toml; `hint` is shown while the field is empty."""

    name: str
    kind: str
    hint: str


class Kind(NamedTuple):
    """A kind of table in config.toml: its name there, the noun for one entry, and the fields."""

    table: str
    noun: str
    fields: tuple[RuleField, ...]


KINDS = {
    "qos": Kind(
        "qos",
        "QoS",
        (
            RuleField("priority", COUNT, "100; higher starts first"),
            RuleField("preempts", NAMES, "normal,scavenger; QoS that it preempts"),
            RuleField("preempt_mode", WORD, "requeue, suspend or cancel; for its own jobs"),
            RuleField("grace_s", COUNT, "60; seconds before preemption"),
            RuleField("usage_factor", NUMBER, "1.0; 0.0: usage is not counted"),
            RuleField("max_wall", WORD, "12:00:00; per job"),
            RuleField("max_tres_per_job", WORD, "gres/gpu=8"),
            RuleField("max_tres_per_user", WORD, "gres/gpu=32,cpu=256"),
            RuleField("grp_tres", WORD, "gres/gpu=64; all jobs together"),
            RuleField("max_jobs_per_user", COUNT, "10; running jobs"),
            RuleField("max_submit_per_user", COUNT, "100; pending and running jobs"),
        ),
    ),
    "partitions": Kind(
        "partitions",
        "partition",
        (
            RuleField("nodes", WORD, "gpu[01-16]; empty: all nodes"),
            RuleField("state", WORD, "UP, DOWN, DRAIN, INACTIVE"),
            RuleField("max_time", WORD, "2-00:00:00; per job"),
            RuleField("default_time", WORD, "1:00:00; for jobs without --time"),
            RuleField("max_nodes", COUNT, "4; per job"),
            RuleField("priority_tier", COUNT, "1; higher starts first, before priority"),
            RuleField("qos", WORD, "QoS with limits for the partition"),
            RuleField("allow_groups", NAMES, "staff,phd; Unix groups"),
            RuleField("allow_accounts", NAMES, "vision,speech"),
            RuleField("allow_qos", NAMES, "normal,urgent"),
        ),
    ),
}
_NUMBERS = {COUNT: re.compile(r"\d{1,15}"), NUMBER: re.compile(r"\d{1,9}(\.\d{1,9})?")}


def field_texts(kind: Kind, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form's fields for these values of the table."""
    return {field.name: _text(values[field.name]) if field.name in values else "" for field in kind.fields}


def asked(kind: Kind, before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, Value | None]:
    """Return the changed values as in config.toml.

    None means that the field was emptied, so its key is removed. Raises UserError.
    """
    return {
        field.name: _value(field, now[field.name]) if now[field.name] else None
        for field in kind.fields
        if now[field.name] != before[field.name]
    }


def told(kind: Kind, name: str, values: Mapping[str, Value | None]) -> str:
    """Return the change in the notation of the file, such as "[qos.high] priority = 10"."""
    words = [
        f"{key} = {literal(value)}" if value is not None else f"remove {key}" for key, value in values.items()
    ]
    return f"[{kind.table}.{name or 'NAME'}] {', '.join(words)}".rstrip()


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={count}" for key, count in value.items())
    return str(value)


def _value(field: RuleField, text: str) -> Value:
    if field.kind == NAMES:
        return [name.strip() for name in text.split(",") if name.strip()]
    if field.kind == WORD:
        return text
    if not _NUMBERS[field.kind].fullmatch(text):
        raise UserError(f"{field.name} must be a number, not {text!r}", f"Example: {field.hint}")
    return int(text) if field.kind == COUNT else float(text)
