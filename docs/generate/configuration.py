"""The page about config.toml."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from warpdeck.config import forms, tables
from warpdeck.engines.slurm.settings import SlurmSettings

from .fields import default, field_text
from .markdown import block, cell, code, escaped, page, sentence, table

EXAMPLE_CONFIG = Path(inspect.getfile(tables)).with_name("example.toml")
FORMS = {
    forms.Limit: 'time: `"2-00:00:00"`, or `"UNLIMITED"`',
    forms.Time: 'time: `"2-00:00:00"`',
    forms.Memory: 'memory: `"4G"`',
    forms.Nodes: 'nodes: `"gpu[01-08]"`, or `"ALL"`',
    forms.TresCounts: 'resources: `"gres/gpu=8,cpu=64"`',
    forms.TresWeights: 'resources and weights: `"gres/gpu=500"`',
    forms.TresPrices: 'resources and prices: `"cpu=1,gres/gpu=16"`',
}
MEANINGS = {
    "licenses": "Number of each license. A job asks for them with `-L NAME:COUNT`",
    "age": "Weight of the time that the job has waited (PriorityWeightAge)",
    "fairshare": "Weight of the fair-share factor of the user and account (PriorityWeightFairshare)",
    "job_size": "Weight of the size of the job (PriorityWeightJobSize)",
    "partition": "Weight of the partition's `priority_job_factor` (PriorityWeightPartition)",
    "default_partition": "Partition of jobs that name none",
    "backfill": 'How jobs may start before jobs of higher priority: `"none"` never, `"easy"` if the first waiting jobs are not '
    'delayed, `"conservative"` if no waiting job is delayed',
    "preempt_by": "What decides which jobs may preempt others: the QoS, the tier of the partition, or nothing (PreemptType)",
    "max_clock_skew_s": "Difference between the clocks of a node and the controller from which the check `clock` fails",
    "features": "Names that `--constraint` may ask for",
    "switch": "Name of the network switch of the nodes, for `--switches`",
    "comment": "Text that `scontrol show node` prints. It decides nothing",
    "max_time": "Longest time limit that a job may have (MaxTime)",
    "max_nodes": "Largest number of nodes of a job (MaxNodes)",
    "min_nodes": "Smallest number of nodes of a job (MinNodes)",
    "allow_accounts": "Accounts whose jobs are allowed. Absent: all",
    "allow_qos": "QoS whose jobs are allowed. Absent: all",
    "grp_tres": "Resources that all running jobs together may hold (GrpTRES)",
    "grp_tres_mins": "Resource-minutes that all jobs together may use. Past use fades with `fairshare.half_life` (GrpTRESMins)",
    "grp_tres_run_mins": "Resource-minutes that the running jobs together may still use until their time limits (GrpTRESRunMins)",
    "grp_wall": "Run time that all jobs together may use. Past use fades with `fairshare.half_life` (GrpWall)",
    "grp_jobs": "Number of jobs that may run at once (GrpJobs)",
    "grp_submit": "Number of jobs that may wait or run at once (GrpSubmitJobs)",
    "max_tres_per_job": "Resources that one job may ask for (MaxTRESPerJob)",
    "max_tres_per_node": "Resources that one job may have on one node (MaxTRESPerNode)",
    "max_tres_per_user": "Resources that the running jobs of one user may hold (MaxTRESPerUser)",
    "max_tres_per_account": "Resources that the running jobs of one account may hold (MaxTRESPerAccount)",
    "max_tres_mins_per_job": "Resource-minutes that one job may use until its time limit (MaxTRESMinsPerJob)",
    "min_tres_per_job": "Resources that one job must ask for at least (MinTRESPerJob)",
    "max_jobs_per_user": "Number of jobs of one user that may run at once (MaxJobsPerUser)",
    "max_jobs_per_account": "Number of jobs of one account that may run at once (MaxJobsPerAccount)",
    "max_submit_per_user": "Number of jobs of one user that may wait or run (MaxSubmitJobsPerUser)",
    "max_submit_per_account": "Number of jobs of one account that may wait or run (MaxSubmitJobsPerAccount)",
    "max_wall": "Longest time limit of one job (MaxWall)",
    "preempts": "QoS whose jobs the jobs of this QoS may preempt (Preempt)",
    "usage_factor": "Factor by which the use of the jobs counts for fair share (UsageFactor)",
    "parent": "Account above this one. Absent: the root",
    "shares": "Number of shares among the accounts or users beside this one (Fairshare)",
    "default_qos": "QoS of jobs that name none (DefaultQOS)",
    "end": "End of the reservation. See also `duration`",
    "maintenance": "The reservation is for maintenance, as with Slurm's flag MAINT",
    "exclusive": "Jobs have their nodes for themselves (OverSubscribe=EXCLUSIVE)",
    "exclusive_user": "A node runs jobs of one user at a time (ExclusiveUser)",
}
"""Key -> its meaning, where the code's own words are missing or hold the allowed values alone."""
PATH_MEANINGS = {
    "partitions.NAME.nodes": "Nodes of the partition",
    "partitions.NAME.default_time": "Time limit of jobs that ask for none (DefaultTime)",
    "reservations.NAME.nodes": "Nodes that are reserved",
    "reservations.NAME.users": "Users who may use the reservation",
    "reservations.NAME.accounts": "Accounts whose users may use the reservation",
    "qos.NAME.priority": "Priority that the QoS gives. The factor is its part of the largest priority of any QoS",
    "qos.NAME.preempt_mode": 'What happens to preempted jobs of this QoS; `""` leaves it to the partition or to `[scheduler]`',
    "qos.NAME.grace_s": "Seconds between TERM and KILL of a preempted job of this QoS (GraceTime)",
    "scheduler.preempt_mode": "What happens to preempted jobs (PreemptMode)",
    "scheduler.weights.qos": "Weight of the priority of the QoS (PriorityWeightQOS)",
}


def form_of(hint: Any) -> str:
    """Return in words which values a key of config.toml takes."""
    for form, words in FORMS.items():
        if hint == form:
            return words
    if typing.get_origin(hint) is typing.Annotated:
        return form_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(code(f'"{each}"') for each in typing.get_args(hint))
    plain = {bool: "true or false", int: "number", float: "number", str: "text"}
    if hint in plain:
        return plain[hint]
    arguments = [each for each in typing.get_args(hint) if each is not type(None) and each is not Ellipsis]
    if typing.get_origin(hint) is dict:
        return f"table: name → {form_of(arguments[1])}"
    if typing.get_origin(hint) is tuple:
        return f"list of {form_of(arguments[0])}s".replace("texts", "text")
    if len(arguments) == 1:
        return form_of(arguments[0])
    return getattr(hint, "__name__", str(hint)).replace("datetime", "date and time")


def written(hint: Any, value: Any) -> str:
    """Return a default as config.toml would have it."""
    if value is msgspec.NODEFAULT:
        return "required"
    for each in typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else ():
        if isinstance(each, forms.TextForm):
            return (
                code(f'"{each.write(value)}"')
                if value or value is None
                else ("empty" if value == {} else code(value))
            )
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, str):
        return code(f'"{value}"')
    if isinstance(value, tuple):
        return code(
            "[" + ", ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in value) + "]"
        )
    if isinstance(value, float) and value == int(value):
        return code(int(value))
    return "empty" if value == {} else code(value)


def is_table(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _tables(struct: type[msgspec.Struct], path: str) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Yield (path in config.toml, struct) of a table and of all tables in it."""
    yield path, struct
    for name, hint in typing.get_type_hints(struct, include_extras=True).items():
        before = f"{path}.{name}" if path else name
        if is_table(hint):
            yield from _tables(hint, before)
        elif typing.get_origin(hint) is dict and is_table(typing.get_args(hint)[1]):
            inner = typing.get_args(hint)[1]
            label = '"HOSTLIST"' if inner is tables.NodeTable else ("USER" if path else "NAME")
            yield from _tables(inner, f"{before}.{label}")


def _example_comments() -> dict[str, dict[str, str]]:
    """Return table -> key -> comment of example.toml. Names of one's own count as the table's kind."""
    found: dict[str, dict[str, str]] = {}
    where = ""
    for line in EXAMPLE_CONFIG.read_text().splitlines():
        if line.startswith("["):
            where = (
                line.partition("]")[0].strip("[").split(".")[0]
                if '"' in line
                else line.split("]")[0].strip("[")
            )
            continue
        head, _, comment = line.partition("#")
        key, equals, value = head.partition("=")
        if equals and comment and '"' not in comment.split(" ")[0] and value.count('"') % 2 == 0:
            found.setdefault(where, {}).setdefault(key.strip(), comment.strip().rstrip(",;"))
    return found


def _comment_of(path: str, key: str) -> str:
    parts = path.split(".")
    for where, keys in _example_comments().items():
        named = len(parts) > 1 and "NAME" in path and where.split(".")[0] == parts[0]
        if key in keys and (where == path or named or where == parts[0] == "nodes"):
            return keys[key]
    return ""


def configuration_page() -> str:
    """Return the page of config.toml."""
    parts = []
    for path, struct in _tables(tables.Config, ""):
        hints = typing.get_type_hints(struct, include_extras=True)
        lines = []
        for field in msgspec.structs.fields(struct):
            hint = hints[field.name]
            if is_table(hint) or (typing.get_origin(hint) is dict and is_table(typing.get_args(hint)[1])):
                continue
            meaning = (
                PATH_MEANINGS.get(f"{path}.{field.name}")
                or MEANINGS.get(field.name)
                or field_text(struct, field.name)
                or _comment_of(path, field.name)
            )
            lines.append(
                [
                    code(field.name),
                    form_of(hint).replace("|", "\\|"),
                    written(hint, default(field)),
                    cell(sentence(meaning)),
                ]
            )
        if lines:
            title = code(f"[{path}]") if path else "Keys above the first table"
            about = (
                re.sub(r"^\[[^\]]*\](: )?", "", (struct.__doc__ or "").partition("\n\n")[0]) if path else ""
            )
            head = ["Key", "Value", "Default", "Meaning"]
            parts += [f"## {title}\n", escaped(sentence(about)) + "\n" if about else "", table(head, lines)]
    return page(
        "config.toml",
        "The controller reads `config.toml` in its home. The file need not exist; each key has a default. `warpdeck config check "
        "FILE` names every error with its line, `warpdeck config show` prints the values in force, and `warpdeck config reload` takes "
        "up a changed file. Keys that end in `_s` are numbers of seconds. Other times are written as in Slurm: "
        '`"90"` is 90 minutes.\n',
        *parts,
        "## A file with every table and every key\n",
        block(EXAMPLE_CONFIG.read_text(), "toml"),
        _gateway_section(),
    )


def _gateway_section() -> str:
    """Return the section about the settings of a gateway to Slurm."""
    hints = typing.get_type_hints(SlurmSettings, include_extras=True)
    rows = [
        [
            code(field.name),
            form_of(hints[field.name]),
            written(hints[field.name], default(field)),
            cell(sentence(field_text(SlurmSettings, field.name))),
        ]
        for field in msgspec.structs.fields(SlurmSettings)
    ]
    parts = (
        "## The file of a gateway to Slurm\n",
        "In the home of [a gateway to Slurm](../guides/over-slurm.md), `config.toml` has only the table `[slurm]`. Restart the "
        "gateway after a change.\n",
        table(["Key", "Value", "Default", "Meaning"], rows),
    )
    return "\n".join(parts)
