"""`scontrol show ENTITY [ID]`: requests records from the controller and prints them with Slurm's messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from warpdeck.base.slurm_version import RELEASE
from warpdeck.notation.values.arrays import number_ranges, parse_array
from warpdeck.notation.values.job_ids import TaskRanges, is_job_id, parse_job_id
from warpdeck.slurm.data_parser import job as job_layout
from warpdeck.slurm.data_parser import node as node_layout
from warpdeck.slurm.data_parser import partition as partition_layout
from warpdeck.slurm.data_parser import site as site_layout
from warpdeck.slurm.data_parser.layout import Layout
from warpdeck.slurm.fields import job_json
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.fields.node_fields import in_configured_order
from warpdeck.slurm.fields.node_json import node_object
from warpdeck.slurm.fields.partition_fields import with_members
from warpdeck.slurm.format.units import moment
from warpdeck_agent.wire import hostnames

from . import job_text, site_json, site_text
from .associations import show_associations
from .session import Failed, Missing, ScontrolSession

if TYPE_CHECKING:
    from warpdeck.client.blocking_client import SyncClient

NO_TASK = "4294967294"
"""Value that replaces %a in the file names of array tasks that are still pending as one record."""
OF_NAMES = ("array_task_id", "id", "state", "stderr", "stdout", "tasks_pending", "tasks_text")
"""Columns that are needed to narrow an array to the tasks that an id names."""
NO_ID = "scontrol_print_job error: Invalid job id specified"


class ShownEntity(NamedTuple):
    """A kind of object that can be shown.

    `least` is the minimum number of letters of its name. `nameless` handles an empty name, as in `show
    partition=`, if that differs from giving no name.
    """

    least: int
    show: Callable[[ScontrolSession, str], None]
    nameless: Callable[[ScontrolSession], None] | None = None


def show(session: ScontrolSession, words: list[str]) -> None:
    """Handle `scontrol show`; `words` are the arguments after `show`. Raises Failed."""
    if not words:
        raise Failed("too few arguments for keyword:show")
    written = words[0]
    if len(written) > 1 and "assoc_mgr".startswith(written.lower()):
        show_associations(session, words[1:])
        return
    if len(words) > 2:
        raise Failed("too many arguments for keyword:show")
    if "=" in written:  # The same form as in `update`: jobid=12.
        words = words[0].split("=", 1)
    word = words[0].lower()
    if hostnames.entity(word):
        code = hostnames.show(
            words, session.console.env, session.console.streams.out, session.console.streams.err
        )
        session.code = session.code or code
        return
    for name, entity in ENTITIES.items():
        if len(word) >= entity.least and name.startswith(word):
            if entity.nameless and words[1:] == [""]:
                entity.nameless(session)
                return
            entity.show(session, words[1] if len(words) > 1 else "")
            return
    raise Failed(f"invalid entity:{written} for keyword:show ")


def print_lines(session: ScontrolSession, blocks: Iterable[list[str]]) -> None:
    """Print blocks of lines, each block on one line with --oneliner."""
    for lines in blocks:
        if session.oneliner:
            session.console.print_lines(lines, between=" ")
        else:
            session.console.print_lines(lines, between="\n   ", end="\n\n")


def records(client: SyncClient, word: str = "", *, needs: Iterable[str], steps: bool = False) -> list[Row]:
    """Return these columns of the jobs that an id names, or of all jobs in the controller's memory if it is empty.

    Raises Failed.
    """
    fields = sorted({*needs, *OF_NAMES})
    if not word or word.lower() == "all":
        return list(client.call("records", fields=fields, steps=steps)["jobs"])
    base = word.partition(".")[0]
    if not is_job_id(base):
        raise Failed(NO_ID)
    found = client.call("records", ids=[base], fields=fields, steps=steps)["jobs"]
    return [_narrowed(job, base) for job in found]


def _narrowed(job: Row, word: str) -> Row:
    """Return a pending array record with only the tasks that the id names."""
    ranges = parse_job_id(word)[1]
    waiting = job["tasks_text"].partition("%")[0]
    if ranges is None or job["array_task_id"] is not None or not waiting:
        return job
    tasks = _numbers(ranges) & _numbers(tuple(parse_array(waiting)[0]))
    files = {
        name: job[name].replace(NO_TASK, str(min(tasks))) for name in ("stdout", "stderr") if len(tasks) == 1
    }
    return {**job, "tasks_text": number_ranges(tasks), "tasks_pending": len(tasks), **files}


def _numbers(ranges: TaskRanges) -> set[int]:
    return {number for first, last, step in ranges for number in range(first, last + 1, step)}


def _job_needs(session: ScontrolSession) -> Iterable[str]:
    """Return the columns of a job that are shown."""
    if session.json is None:
        return job_text.JOB_TEXT.needs
    return job_layout.LAYOUT.needs if session.json.version else job_json.NEEDS


def _print_json(
    session: ScontrolSession, name: str, rows: Iterable[Row], old: Callable[[Row], Row], newer: Layout
) -> None:
    """Print the rows with the function `old` in the layout of Slurm 22.05, or in the requested newer layout."""
    assert session.json is not None
    version = session.json.version
    session.print_json({name: [newer.object(row, version) if version else old(row) for row in rows]})


def _not_found(what: str) -> Callable[[ScontrolSession], None]:
    def miss(session: ScontrolSession) -> None:
        raise Missing(f"{what}  not found")

    return miss


def _jobs(session: ScontrolSession, word: str) -> None:
    if "." in word:
        raise Failed(NO_ID)
    word = "" if word == "0" else word  # Slurm treats 0 like no id.
    with session.connect() as client:
        needs = _job_needs(session)
        found = records(client, word, needs=needs, steps=session.details)
    if not found and word and word.lower() != "all":
        if "_" in word or "+" in word:
            raise Missing(f"Job {word} not found")
        raise Failed("slurm_load_jobs error: Invalid job id specified")
    if session.json:
        _print_json(session, "jobs", found, job_json.job_object, job_layout.LAYOUT)
        return
    if not found:
        session.console.streams.out.write("No jobs in the system\n")
    if word and "_" not in word:
        found.sort(key=lambda job: (not job["tasks_pending"], job["id"]))
    print_lines(
        session, ([*job_text.JOB_TEXT.lines(record, details=session.details), ""] for record in found)
    )


def _steps(session: ScontrolSession, word: str) -> None:
    with session.connect() as client:
        number = word if word[:1].isdecimal() else ""
        found = records(client, number, needs=job_text.STEP_TEXT.needs, steps=True)
    if number and not found:
        raise Failed("slurm_get_job_steps error: Invalid job id specified")
    blocks = [
        job_text.step_lines(step, record)
        for record in found
        for step in record["steps"]
        if step["row"]["state"] == "RUNNING" and ("." not in number or step["row"]["id"] == number)
    ]
    if number and not blocks:
        raise Missing(f"Job step {number} not found")
    if not blocks:
        session.console.streams.out.write("No job steps in the system\n")
    print_lines(session, blocks)


def _nodes(session: ScontrolSession, word: str) -> None:
    with session.connect() as client:
        found = client.call("nodes", facts=True)["nodes"]
        nodes = in_configured_order(found, client.call("partitions")["partitions"])
    chosen = _named(session, word, nodes, "Node")
    if session.json:
        _print_json(session, "nodes", chosen, node_object, node_layout.LAYOUT)
        return
    if not nodes:
        session.console.streams.out.write("No nodes in the system\n")
    print_lines(session, (site_text.NODE_TEXT.lines(node, details=session.details) for node in chosen))


def _named(session: ScontrolSession, word: str, rows: list[Row], what: str) -> Iterable[Row]:
    """Yield the rows that a host list or a list of names selects.

    A name without a row is reported and makes the exit code 1.
    """
    if not word or word.lower() == "all":
        yield from rows
        return
    by_name = {row["name"]: row for row in rows}
    try:
        names = hostnames.expand(word)
    except hostnames.HostlistError:
        names = [word]
    for name in names:
        if name in by_name:
            yield by_name[name]
        else:
            session.miss(f"{what} {name} not found")


def _with_members(client: SyncClient, rows: list[Row]) -> list[Row]:
    """Return partitions or reservations with the rows of their nodes."""
    nodes = {node["name"]: node for node in client.call("nodes", facts=True)["nodes"]}
    return [with_members(row, nodes) for row in rows]


def _partitions(session: ScontrolSession, word: str) -> None:
    with session.connect() as client:
        rows = sorted(client.call("partitions")["partitions"], key=lambda row: int(row["position"]))
        rows = _with_members(client, rows)
    chosen = _named(session, word, rows, "Partition")
    if session.json:
        _print_json(session, "partitions", chosen, site_json.partition_object, partition_layout.LAYOUT)
        return
    print_lines(session, (site_text.PARTITION_TEXT.lines(row) for row in chosen))


def _reservations(session: ScontrolSession, word: str) -> None:
    with session.connect() as client:
        rows = [row for row in client.call("reservations")["reservations"] if row["state"] != "over"]
        rows = _with_members(client, rows)
    chosen = _named(session, word, rows, "Reservation")
    if session.json:
        _print_json(
            session, "reservations", chosen, site_json.reservation_object, site_layout.RESERVATION_LAYOUT
        )
        return
    if not rows and not word:
        session.console.streams.out.write("No reservations in the system\n")
    print_lines(session, (site_text.RESERVATION_TEXT.lines(row) for row in chosen))


def _licenses(session: ScontrolSession, word: str) -> None:
    with session.connect() as client:
        rows = client.call("licenses")["licenses"]
    if session.json:
        _print_json(session, "licenses", rows, site_json.license_object, site_layout.LICENSE_LAYOUT)
        return
    if not rows:
        session.console.streams.out.write("No licenses configured in Slurm.\n")
    for row in rows:
        if not word or row["name"] == word:
            lines = site_text.LICENSE_TEXT.lines(row)
            session.console.print_lines(lines, between="     " if session.oneliner else "\n    ")


def _config(session: ScontrolSession, word: str) -> None:
    with session.connect() as client:
        status = client.call("status")
        made = {"SlurmctldHost[0]": status["host"], "SLURM_VERSION": RELEASE}
        values = {**client.call("settings")["settings"], **made}
    if session.json:
        session.print_json({"config": values})
        return
    out = session.console.streams.out
    out.write(f"Configuration data as of {moment(time.time())}\n")
    session.console.print_lines(
        f"{name:<23} = {values[name] or '(null)'}" for name in sorted(values, key=str.lower)
    )
    out.write(f"\n{alive(status)}\n")


def alive(status: Row) -> str:
    """Return the line that `scontrol ping` prints."""
    return f"Slurmctld(primary) at {status['host']} is UP"


def _daemons(session: ScontrolSession, word: str) -> None:
    if word:
        _daemons_take_no_name(session)
    session.console.streams.out.write("slurmctld slurmd\n")


def _daemons_take_no_name(session: ScontrolSession) -> None:
    raise Failed("too many arguments for keyword:show")


def _topology(session: ScontrolSession, word: str) -> None:
    message = f"Topology information contains no switch or node named {word}"
    session.console.streams.err.write(
        f"scontrol: error: {message if word else 'No topology information available'}\n"
    )


def _topoconf(session: ScontrolSession, word: str) -> None:
    raise Failed(
        "scontrol: error: topoconf does not exist here: `switch` under [nodes] names a node's switch"
    )


def _aliases(session: ScontrolSession, word: str) -> None:
    """Print the node names of the named hosts. Each node has the name of its host."""
    with session.connect() as client:
        names = [node["name"] for node in client.call("nodes")["nodes"]]
    found = [name for name in names if not word or name in hostnames.expand(word)]
    if found:
        session.console.print_lines([" ".join(found)])


def _cache(session: ScontrolSession, word: str) -> None:
    """Handle `cache`, the older name of assoc_mgr, which takes at most one argument."""
    show_associations(session, [word] if word else [])


def _none(session: ScontrolSession, word: str = "") -> None:
    """Print nothing for kinds that never exist here, as Slurm does for kinds that a cluster does not have."""


def _front_ends(session: ScontrolSession, word: str) -> None:
    if word:
        raise Missing(f"Node {word} not found")
    session.console.streams.out.write("No nodes in the system\n")


def _slurmd(session: ScontrolSession, word: str) -> None:
    raise Failed("scontrol: error: slurmd does not exist here: use `warpdeck nodes` to show the agents")


ENTITIES = {
    "aliases": ShownEntity(1, _aliases),
    "bbstat": ShownEntity(2, _none),
    "burstbuffer": ShownEntity(2, _none),
    "cache": ShownEntity(2, _cache),
    "config": ShownEntity(1, _config),
    "daemons": ShownEntity(1, _daemons, _daemons_take_no_name),
    "dwstat": ShownEntity(2, _none),
    "federation": ShownEntity(1, _none),
    "frontend": ShownEntity(1, _front_ends),
    "jobs": ShownEntity(1, _jobs),
    "jobid": ShownEntity(1, _jobs),
    "licenses": ShownEntity(2, _licenses),
    "nodes": ShownEntity(1, _nodes, _none),
    "partitions": ShownEntity(2, _partitions, _not_found("Partition")),
    "partitionname": ShownEntity(2, _partitions, _not_found("Partition")),
    "reservations": ShownEntity(1, _reservations, _not_found("Reservation")),
    "reservationname": ShownEntity(1, _reservations, _not_found("Reservation")),
    "slurmd": ShownEntity(2, _slurmd),
    "steps": ShownEntity(2, _steps),
    "topoconf": ShownEntity(5, _topoconf),
    "topology": ShownEntity(1, _topology),
}
