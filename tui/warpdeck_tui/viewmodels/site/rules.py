"""The forms of a QoS and a partition.

This module holds their fields, reads values of config.toml, and finds the changes that a form requests. The
fields are the keys that change often. All other keys of the table are left unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpdeck.model.config_edit import Value
from warpdeck.notation.config.rules import literal
from warpdeck_tui.widgets.form_fields import FieldKind, FormField


class Kind(NamedTuple):
    """A kind of table in config.toml: its name there, the noun for one entry, and the fields."""

    table: str
    noun: str
    fields: tuple[FormField, ...]


def _field(name: str, hint: str, kind: FieldKind = FieldKind.TEXT) -> FormField:
    """Return the field of the key `name`, which is also its label."""
    return FormField(name, name, hint, kind)


KINDS = {
    "qos": Kind(
        "qos",
        "QoS",
        (
            _field("priority", "100; higher starts first", FieldKind.COUNT),
            _field("preempts", "normal,scavenger; QoS that it preempts", FieldKind.NAMES),
            _field("preempt_mode", "requeue, suspend or cancel; for its own jobs"),
            _field("grace_s", "60; seconds before preemption", FieldKind.COUNT),
            _field("usage_factor", "1.0; 0.0: usage is not counted", FieldKind.NUMBER),
            _field("max_wall", "12:00:00; per job"),
            _field("max_tres_per_job", "gres/gpu=8"),
            _field("max_tres_per_user", "gres/gpu=32,cpu=256"),
            _field("grp_tres", "gres/gpu=64; all jobs together"),
            _field("max_jobs_per_user", "10; running jobs", FieldKind.COUNT),
            _field("max_submit_per_user", "100; pending and running jobs", FieldKind.COUNT),
        ),
    ),
    "partitions": Kind(
        "partitions",
        "partition",
        (
            _field("nodes", "gpu[01-16]; empty: all nodes"),
            _field("state", "UP, DOWN, DRAIN, INACTIVE"),
            _field("max_time", "2-00:00:00; per job"),
            _field("default_time", "1:00:00; for jobs without --time"),
            _field("max_nodes", "4; per job", FieldKind.COUNT),
            _field("priority_tier", "1; higher starts first, before priority", FieldKind.COUNT),
            _field("qos", "QoS with limits for the partition"),
            _field("allow_groups", "staff,phd; Unix groups", FieldKind.NAMES),
            _field("allow_accounts", "vision,speech", FieldKind.NAMES),
            _field("allow_qos", "normal,urgent", FieldKind.NAMES),
        ),
    ),
}


def field_texts(kind: Kind, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form's fields for these values of the table."""
    return {field.id: _text(values[field.id]) if field.id in values else "" for field in kind.fields}


def asked(kind: Kind, before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, Value | None]:
    """Return the changed values as in config.toml.

    None means that the field was emptied, so its key is removed. Raises UserError.
    """
    return {
        field.id: field.value(now[field.id]) if now[field.id] else None
        for field in kind.fields
        if now[field.id] != before[field.id]
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
