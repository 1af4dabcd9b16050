"""The page about the answers of `--json`."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from warpdeck.backup import create, restore, verify
from warpdeck.model.states import COMPACT
from warpdeck.protocol import job_rows, node_rows, results, site_rows

from .configuration import is_table
from .fields import field_text
from .markdown import cell, code, escaped, page, sentence, table

JSON_OF = (
    ("warpdeck queue", "a list", job_rows.JobRow),
    ("warpdeck show JOB", "one object", job_rows.JobDetail),
    ("warpdeck status", "one object, and `running`", results.ControllerStatus),
    ("warpdeck submit, warpdeck rerun", "an object: `job_id`, `label`, `tasks`, `notes`", None),
    ("warpdeck cancel, hold, release, suspend, resume, requeue", "an object: `jobs`, `errors`", None),
    ("warpdeck logs JOB", "an object with the `text`", None),
    (
        "warpdeck snapshot show JOB",
        "an object: the snapshot, its `meta`, its `paths` and the files `left_out`",
        None,
    ),
    ("warpdeck snapshot diff JOB", "an object: `old`, `new`, `diff`, `at`", None),
    ("warpdeck snapshot restore JOB FOLDER", "an object: `tree`, `folder`", None),
    ("warpdeck config show", "an object: `file`, `settings`", None),
    ("warpdeck config check FILE", "an object: `ok`, `errors`, `warnings`", None),
    ("warpdeck config reload", "one object", results.Reloaded),
    ("warpdeck show JOB --environment", "an object: variable → value", None),
    ("warpdeck why JOB", "one object", site_rows.ForecastRow),
    ("warpdeck submit --dry-run", "one object, and `notes`", site_rows.ForecastRow),
    ("warpdeck metrics", "one object", job_rows.UsageCurves),
    ("warpdeck node ls", "a list", node_rows.NodeRow),
    ("warpdeck node show NODE", "one object", node_rows.NodeRow),
    (
        "warpdeck node ls --at WHEN, warpdeck node show NODE --at WHEN",
        "a list, or one object",
        node_rows.PastNodeRow,
    ),
    ("warpdeck node check", "a list", node_rows.NodeHealthRow),
    ("warpdeck prio", "one object", results.PriorityList),
    ("warpdeck share", "one object", results.ShareTree),
    ("warpdeck partitions", "an object; its list holds", site_rows.PartitionRow),
    ("warpdeck reservations", "an object; its list holds", site_rows.ReservationRow),
    ("warpdeck qos", "an object; its list holds", site_rows.QosRow),
    ("warpdeck forward --list", "a list", job_rows.ForwardRow),
    ("warpdeck backup FILE", "one object", create.Backup),
    ("warpdeck restore FILE", "one object", restore.Restored),
    ("warpdeck verify", "one object", verify.Report),
    ("warpdeck audit", "one object", results.AuditList),
)
"""Command, form of the document, and its struct."""


def _json_type(hint: Any) -> str:
    """Return a field's type in JSON's words."""
    if typing.get_origin(hint) is typing.Annotated:
        return _json_type(typing.get_args(hint)[0])
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(code(f'"{each}"') for each in typing.get_args(hint))
    plain = {
        bool: "true or false",
        int: "integer",
        float: "number",
        str: "string",
        type(None): "null",
        object: "any value",
        Any: "any value",
    }
    if hint in plain:
        return plain[hint]
    if is_table(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    arguments = [each for each in typing.get_args(hint) if each is not Ellipsis]
    origin = typing.get_origin(hint)
    if origin in (list, tuple, frozenset):
        return f"list of {_json_type(arguments[0])}"
    if origin is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return f"object: string → {_json_type(arguments[1])}"
    if arguments:
        return " or ".join(_json_type(each) for each in arguments)
    return (
        "string"
        if isinstance(hint, type) and issubclass(hint, str)
        else str(getattr(hint, "__supertype__", hint))
    )


def _structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if is_table(hint):
        yield hint
    for each in typing.get_args(hint):
        yield from _structs_in(each)


def _with_inner(structs: Iterable[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    """Return the structs and all structs in their fields, each once."""
    found: list[type[msgspec.Struct]] = []
    waiting = list(structs)
    while waiting:
        struct = waiting.pop(0)
        if struct not in found:
            found.append(struct)
            hints = typing.get_type_hints(struct, include_extras=True)
            waiting += [inner for hint in hints.values() for inner in _structs_in(hint)]
    return found


def json_page() -> str:
    """Return the page of the JSON that commands print."""
    named = list(dict.fromkeys(struct for _, _, struct in JSON_OF if struct is not None))
    parts = []
    for struct in _with_inner(named):
        hints = typing.get_type_hints(struct, include_extras=True)
        lines = [
            [code(field.name), _json_type(hints[field.name]), cell(sentence(field_text(struct, field.name)))]
            for field in msgspec.structs.fields(struct)
        ]
        parts += [
            f"## {struct.__name__}\n",
            escaped(sentence(" ".join((struct.__doc__ or "").split()))) + "\n",
        ]
        parts.append(table(["Field", "Type", "Meaning"], lines))
    states = table(["State", "Short"], [[code(state.value), code(short)] for state, short in COMPACT.items()])
    return page(
        "JSON",
        "Commands that read take `--json` and print one JSON document. Times are seconds since 1970, sizes are bytes, and `null` "
        "stands for a value that is unknown or does not apply.\n",
        table(
            ["Command with `--json`", "Document", "Struct"],
            [
                [
                    code(command),
                    form,
                    f"[{struct.__name__}](#{struct.__name__.lower()})" if struct is not None else "",
                ]
                for command, form, struct in JSON_OF
            ],
        ),
        "## Job states\n",
        states,
        *parts,
    )
