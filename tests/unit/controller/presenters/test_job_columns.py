"""The columns of the queue equal the fields of rows, with additional ones for Slurm's commands."""

from typing import Any

import msgspec
import pytest
from tests.support.core import ANN, BOB, Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.config import Config
from warpdeck.controller.events.events import Held, NodeDrained
from warpdeck.controller.presenters.job_columns import (
    JOB_FIELDS,
    RECORD_COLUMNS,
    SELECTED_COLUMNS,
    STATE_COLUMNS,
    TIMED_COLUMNS,
    job_row,
    row_maker,
)
from warpdeck.engines.shared.selection import Selection
from warpdeck.engines.shared.visibility import Visibility
from warpdeck.model import (
    ArraySpec,
    Dependencies,
    Dependency,
    GpuReading,
    Job,
    JobId,
    NodeName,
    NodeReading,
    Request,
    Resources,
)
from warpdeck.protocol.job_rows import JobFacts, JobRow
from warpdeck.protocol.requests import Jobs


class NamedJobs(Core):
    """A running job with two GPUs, a started array, a held job, a dependent job and a failed one."""

    def __init__(self) -> None:
        super().__init__("n1", "n2")
        self.state.site = msgspec.structs.replace(self.state.site, licenses=(("matlab", 4),))
        self.runs = self.run(make_request("runs", gpus=2, time_limit_s=600))
        self.array = self.run(make_request("array", array=ArraySpec(ranges=((1, 9, 1),), throttle=2)))
        self.held = self.submit(make_request("held", comment="later", licenses=(("matlab", 2),)), who=BOB)
        self.apply(Held(principal=BOB, jobs=(str(self.held),)))
        self.failed = self.run(make_request("fails"))
        self.end(self.failed, exit_code=3)
        clauses = tuple(Dependency(kind="afterok", job_id=job) for job in (self.runs, self.array))
        self.depends = self.submit(make_request("depends", dependencies=Dependencies(clauses=clauses)))


@pytest.fixture
def core() -> NamedJobs:
    return NamedJobs()


def column(core: Core, job_id: int, name: str) -> Any:
    return row_maker(core.state, [name], now=core.now)([core.job(job_id)])[0][name]


def chosen(core: Core, **filters: object) -> set[str]:
    selection = Selection(msgspec.convert({"t": "jobs", "id": 1, **filters}, Jobs), Visibility(ANN, Config()))
    return {job.request.name for job in core.state.jobs.values() if selection.has(job)}


def test_every_field_is_one_column_of_the_table() -> None:
    assert not RECORD_COLUMNS.keys() & STATE_COLUMNS.keys()
    assert not (RECORD_COLUMNS.keys() | STATE_COLUMNS.keys()) & TIMED_COLUMNS.keys()
    assert {*RECORD_COLUMNS, *STATE_COLUMNS, *TIMED_COLUMNS} == set(JOB_FIELDS)
    assert SELECTED_COLUMNS.keys() < set(JOB_FIELDS)


@pytest.mark.parametrize("kind", [JobRow, JobFacts])
def test_every_column_has_the_type_of_its_field(core: NamedJobs, kind: type[JobRow | JobFacts]) -> None:
    names = kind.__struct_fields__
    for row in row_maker(core.state, names, now=core.now)(list(core.state.jobs.values())):
        msgspec.convert(row, kind, strict=True)


def test_columns_may_be_fields_that_only_rows_have(core: NamedJobs) -> None:
    row = row_maker(core.state, ["uid", "gpu_type"], now=core.now)([core.job(core.runs)])[0]
    assert row == {"uid": 1, "gpu_type": ""}
    with pytest.raises(UserError, match="unknown job field colour"):
        row_maker(core.state, ["colour"], now=core.now)


def test_reasons_have_slurms_names(core: NamedJobs) -> None:
    def reason(job_id: int) -> object:
        return column(core, job_id, "reason")

    assert (reason(core.runs), reason(core.held), reason(core.failed)) == (
        "None",
        "JobHeldUser",
        "NonZeroExitCode",
    )
    core.plan()
    assert reason(core.depends) == "Dependency"


def test_a_reason_names_the_nodes_that_are_not_available() -> None:
    core = Core("n1", "n2", "n3")

    def reason(request: Request) -> object:
        job = core.submit(request)
        core.plan()
        return column(core, job, "reason")

    core.apply(NodeDrained(name=NodeName("n3"), reason="broken"))
    assert (
        reason(make_request(resources=Resources(nodelist=("n3",)))) == "ReqNodeNotAvail, UnavailableNodes:n3"
    )
    for name in ("n1", "n2"):
        core.apply(NodeDrained(name=NodeName(name), reason="broken"))
    assert reason(make_request()) == "ReqNodeNotAvail, UnavailableNodes:n[1-3]"
    assert (
        reason(make_request(resources=Resources(nodelist=("n2",)))) == "ReqNodeNotAvail, UnavailableNodes:n2"
    )


def test_the_dependency_column_lists_unfulfilled_dependencies(core: NamedJobs) -> None:
    assert column(core, core.depends, "dependency") == (
        f"afterok:{core.runs}(unfulfilled),afterok:{core.array}_*(unfulfilled)"
    )
    core.end(core.runs)
    assert column(core, core.depends, "dependency") == f"afterok:{core.array}_*(unfulfilled)"
    assert column(core, core.depends, "eligible") is None


def test_the_text_of_an_arrays_tasks_contains_its_throttle(core: NamedJobs) -> None:
    waiting = next(job for job in core.state.jobs.values() if job.pending_tasks)
    assert column(core, waiting.id, "tasks_text") == "3-9%2"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("sbatch -n2 --gpus=2 train.sh --lr 3", "/data/train.sh"),
        ("sbatch /opt/train.sh", "/opt/train.sh"),
        ("sbatch -J x wrap", ""),
        ("sbatch 'unclosed", ""),
        ("", ""),
    ],
)
def test_the_command_column_is_the_path_of_the_script(core: NamedJobs, line: str, command: str) -> None:
    job = core.submit(make_request("named", submit_line=line, submit_dir="/data"))
    assert column(core, job, "command") == command


def test_the_tres_column_shows_allocated_or_requested_resources(core: NamedJobs) -> None:
    assert column(core, core.runs, "tres")["gres/gpu"] == 2
    waiting = core.submit(
        make_request("asks", resources=Resources(nodes_min=2, nodes_max=2, cpus_per_task=3))
    )
    assert column(core, waiting, "tres") == {"cpu": 6, "mem": 0, "node": 2, "gres/gpu": 0, "billing": 6}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"runs", "array", "held", "depends"}),
        ({"users": ["bob"]}, {"held"}),
        ({"users": ["2"]}, {"held"}),
        ({"users": ["ann"], "names": ["runs", "held"]}, {"runs"}),
        ({"states": ["F"]}, {"fails"}),
        ({"licenses": ["matlab"]}, {"held"}),
        ({"nodes": ["n1"], "names": ["runs"]}, {"runs"}),
        ({"nodes": ["n9"]}, set()),
        ({"partitions": ["main"], "users": ["bob"]}, {"held"}),
        ({"partitions": ["gpu"]}, set()),
        ({"qos": ["normal"], "users": ["bob"]}, {"held"}),
        ({"accounts": ["lab"]}, set()),
        ({"reservations": ["none"]}, set()),
    ],
)
def test_a_job_is_selected_if_all_filters_match(
    core: NamedJobs, filters: dict[str, list[str]], names: set[str]
) -> None:
    assert chosen(core, **filters) == names


def test_a_job_for_several_partitions_is_found_by_each_until_it_starts(core: NamedJobs) -> None:
    job = Job(
        id=JobId(1),
        array_job_id=JobId(1),
        request=make_request("both", partition="gpu,debug"),
        user="ann",
        uid=1,
    )
    core.state.jobs[job.id] = job
    assert chosen(core, partitions=["debug"]) == chosen(core, partitions=["gpu"]) == {"both"}
    core.state.jobs[job.id] = msgspec.structs.replace(job, partition="gpu")
    assert chosen(core, partitions=["debug"]) == set()


def test_measurements_from_before_a_jobs_start_are_not_shown(core: NamedJobs) -> None:
    job = core.job(core.runs)
    assert job.start_at_unix is not None
    gpus = tuple(GpuReading(index=index, util_pct=0) for index in range(8))
    shown = []
    for at_unix in (job.start_at_unix - 1, job.start_at_unix + 1):
        reading = NodeReading(at_unix=at_unix, cpu_pct=0.0, mem_used_bytes=0, gpus=gpus)
        core.state.node_status.readings[job.shares[0].node] = reading
        shown.append(job_row(core.state, job).gpu_util_pct)
    assert shown == [None, 0]


def test_the_last_task_of_an_array_is_shown_without_brackets_once_started() -> None:
    core = Core("a")
    pair = core.run(make_request("pair", gpus=4, array=ArraySpec(ranges=((5, 6, 1),))))
    last = next(job for job in core.state.jobs.values() if job.start_at_unix is None)
    assert (last.id, column(core, last.id, "tasks_folded")) == (pair, True), "75_[6]: it waits"
    core.end(next(job.id for job in core.state.jobs.values() if job.array_task_id == 5))
    starts = core.plan().effects
    assert core.job(last.id).state == "CONFIGURING"
    assert column(core, last.id, "tasks_folded") is False, "75_6: it starts"
    core.launch(starts)
    core.end(last.id, phase="refused", message="no room")
    assert column(core, last.id, "tasks_folded") is False
