"""The tables of a real Slurm of four versions, as they were recorded from the same jobs and nodes.

`tests/data/slurm/VERSION` holds the output of squeue with our columns and the mark MARK, of `scontrol --oneliner
--details show node`, of `scontrol --oneliner show partition` and of `sbatch --version`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.cluster.job_changes import JobChanges, compare
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading import reasons, values
from warpdeck.engines.slurm.reading.job_table import COLUMNS, ELSEWHERE, read_job, read_jobs
from warpdeck.engines.slurm.reading.marked_table import Column, MalformedTable, format_argument, read_table
from warpdeck.engines.slurm.reading.node_reasons import unclear
from warpdeck.engines.slurm.reading.node_table import node_fields, read_nodes
from warpdeck.engines.slurm.reading.partition_table import partition_fields, read_partitions
from warpdeck.engines.slurm.versions import Feature, Version, has, read_version
from warpdeck.model import Job, Request, count_tasks
from warpdeck.protocol.job_rows import JobRow

DATA = Path(__file__).parents[2] / "data" / "slurm"
VERSIONS = ("20.11", "22.05", "24.11", "26.05")
MARK = "Mark0a1b2c3d"
MIB = 1024 * 1024


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def jobs(version: str) -> list[JobRow]:
    """Return the rows of all recorded jobs, as the app shows them."""
    text = (DATA / version / "squeue.txt").read_text()
    state, changes = State(), JobChanges()
    compare(state, read_jobs(read_table(text, COLUMNS, MARK)), changes, now=0.0)
    for job in changes.jobs:
        state.upsert_job(job)
    state.planned.pending_reasons.update(changes.reasons)
    return [job_row(state, job) for job in changes.jobs]


def named(jobs: list[JobRow], name: str) -> list[JobRow]:
    """Return the rows of the jobs with this name."""
    return [row for row in jobs if row.name == name]


def test_the_version_of_each_recording_is_read(version: str) -> None:
    found = read_version((DATA / version / "version.txt").read_text())
    assert str(found).startswith(version)


def test_a_running_job_has_its_allocation(jobs: list[JobRow]) -> None:
    (row,) = named(jobs, "my job|x=y Partition=z")
    assert (row.state, row.state_short, row.partition, row.user) == ("RUNNING", "R", "gpu", "root")
    assert (row.nodes, row.node_list, row.cpus, row.gpus) == (1, "n1", 2, 2)
    assert (row.mem_bytes, row.time_limit_s, row.comment) == (200 * MIB, 3600, "a b=c Reason=x")
    assert row.start is not None and row.start >= row.submit and row.end is None and row.why is None


def test_a_name_with_a_line_break_is_one_record(jobs: list[JobRow]) -> None:
    (row,) = named(jobs, "line\nbreak é")
    assert (row.state, row.exit_code) == ("FAILED", "3:0")
    assert row.end is not None


def test_waiting_tasks_of_an_array_are_one_row_and_running_ones_have_their_own(
    jobs: list[JobRow],
) -> None:
    waiting, *running = sorted(named(jobs, "sweep"), key=lambda row: -row.tasks_pending)
    assert waiting.label == f"{waiting.array_job_id}_[2-9]" and waiting.tasks_pending == 8
    assert (
        waiting.array_task_id is None and waiting.why is not None and waiting.why.code == "JobArrayTaskLimit"
    )
    assert sorted(row.array_task_id or 0 for row in running) == [0, 1]
    assert all(row.array_job_id == waiting.array_job_id and row.gpus == 1 for row in running)


def test_each_waiting_job_has_a_reason_in_words(jobs: list[JobRow]) -> None:
    (held,), (later,), (wide,) = named(jobs, "held"), named(jobs, "later"), named(jobs, "wide")
    assert held.held and held.why is not None and "releases it" in held.why.sentence
    assert later.why is not None and later.why.expected_start is not None
    assert later.why.expected_start >= later.submit + 3500
    assert wide.why is not None and wide.why.code == "ReqNodeNotAvail" and "drained" in wide.why.sentence
    assert (wide.nodes, wide.time_limit_s) == (2, 172_800)


def test_components_of_a_heterogeneous_job_keep_their_labels(jobs: list[JobRow]) -> None:
    first, second = sorted(named(jobs, "het"), key=lambda row: row.id)
    assert (first.label, second.label) == (f"{first.id}+0", f"{first.id}+1")
    assert (first.gpus, second.gpus) == (0, 1)


def test_ended_jobs_have_an_end_and_an_exit_code(jobs: list[JobRow]) -> None:
    (fine,), (killed,) = named(jobs, "fine"), named(jobs, "killed")
    assert (fine.state, fine.exit_code) == ("COMPLETED", "0:0") and fine.end is not None
    assert killed.state == "CANCELLED" and killed.end is not None


def test_nodes_have_their_state_reason_and_gpus_in_use(version: str) -> None:
    first, second = read_nodes(node_fields((DATA / version / "node.txt").read_text()), at=5.0)
    assert (first.name, first.state, first.cpus, first.mem_bytes) == ("n1", "mixed", 16, 64_000 * MIB)
    assert [bool(gpu.job) for gpu in first.gpus] == [True] * 4 and first.gpus[0].type == "a100"
    assert first.mem_alloc_bytes > 0 and first.kernel.startswith("Linux ") and first.at == 5.0
    assert (second.state, second.reason) == ("drained", "bad fan = hot")
    assert second.reason_at is not None and not any(gpu.job for gpu in second.gpus)


@pytest.mark.parametrize(
    ("tail", "is_clear"),
    [
        ("bad fan = hot [root@2026-11-27T10:00:00]", True),
        ("bad fan [root@2026-11-27T10:00:00] Comment=a b Extra=c", True),
        ("fan Comment=hot [root@2026-11-27T10:00:00]", False),
        ("fan [root@2026-01-01T00:00:00] Comment=hot [root@2026-11-27T10:00:00]", False),
        ("a [root@2026-11-27T10:00:00]        NodeName=evil State=IDLE", False),
        ("a line break", False),
    ],
)
def test_reasons_that_may_contain_fields_are_told_apart(tail: str, is_clear: bool) -> None:
    text = f"NodeName=n7 State=IDLE+DRAIN Partitions=p Reason={tail}\nNodeName=n8 State=IDLE\n"
    assert unclear(text) == ([] if is_clear else ["n7"])


def test_the_text_of_a_reason_is_no_field() -> None:
    text = "NodeName=n7 State=IDLE+DRAIN Reason=fan Comment=hot [root@2026-11-27T10:00:00] Comment=(null)"
    (row,) = read_nodes(node_fields(text, {"n7": "fan Comment=hot"}), at=0.0)
    assert (row.state, row.reason, row.comment) == ("drained", "fan Comment=hot", "")
    assert row.reason_at is not None


def test_partitions_sum_up_their_nodes(version: str) -> None:
    nodes = read_nodes(node_fields((DATA / version / "node.txt").read_text()), at=5.0)
    (row,) = read_partitions(partition_fields((DATA / version / "partition.txt").read_text()), nodes)
    assert (row.name, row.default, row.nodes, row.cpus, row.gpus, row.gpus_used) == ("gpu", True, 2, 32, 8, 4)
    assert (row.max_time_s, row.default_time_s, row.node_states) == (
        604_800,
        3600,
        {"mixed": 1, "drained": 1},
    )
    assert row.allow_accounts is None and row.max_nodes is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", "idle"),
        ("IDLE*", "down"),
        ("IDLE+DRAIN", "drained"),
        ("ALLOCATED+DRAIN", "draining"),
        ("MIXED+DRAIN*", "draining"),
        ("IDLE+COMPLETING+DRAIN", "draining"),
        ("DOWN*", "down"),
        ("DOWN+NOT_RESPONDING", "down"),
        ("DOWN+DRAIN", "drained"),
        ("MIXED+PLANNED", "mixed"),
        ("IDLE+CLOUD+POWERED_DOWN", "connecting"),
        ("UNKNOWN*", "down"),
    ],
)
def test_states_with_flags_become_names_of_sinfo(state: str, expected: str) -> None:
    (row,) = read_nodes(node_fields(f"NodeName=a Arch=x86_64 CPUTot=4 State={state} Partitions=p"), at=0.0)
    assert row.state == expected


def test_a_user_cannot_forge_a_record() -> None:
    """The text of a user holds everything but the mark, which is drawn for each call."""
    columns = (Column("id", "JobID", 12), Column("name", "Name", 80))
    forged = "x\n99          Mark0000000Zevil Mark0000000Z"
    text = f"12          {MARK}{forged:80}{MARK}\n13          {MARK}{'fine':80}{MARK}\n"
    records = list(read_table(text, columns, MARK))
    assert [record["id"] for record in records] == ["12", "13"]
    assert records[0]["name"] == forged
    assert format_argument(columns, MARK) == f"JobID:12{MARK},Name:80{MARK}"


@pytest.mark.parametrize(
    "text", ["slurm_load_jobs error: Unable to contact slurm controller\n", f"12{MARK}13{MARK}14{MARK}"]
)
def test_output_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(MalformedTable):
        list(read_table(text, (Column("id", "JobID", 12), Column("name", "Name", 80)), MARK))


def test_no_output_is_an_empty_table() -> None:
    assert list(read_table("", COLUMNS, MARK)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gres/gpu=2,gres/gpu:a100=2", (2, "a100")),
        ("cpu=4,mem=8G,gres/gpu=3", (3, "")),
        ("gpu:a100:2,gpu:h100:1", (3, "")),
        ("gres/gpu:4", (4, "")),
        ("gpu:2(IDX:0-1)", (2, "")),
        ("gres/shard:3", (0, "")),
        ("", (0, "")),
    ],
)
def test_gpus_are_counted_in_every_notation(text: str, expected: tuple[int, str]) -> None:
    assert values.gpus(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2-9%2", 8), ("1,5,7-20:2", 9), ("0-4294967293", 4_294_967_294), ("7", 1), ("", 0), ("1,2,...", 2)],
)
def test_tasks_of_an_array_are_counted(text: str, expected: int) -> None:
    assert count_tasks(values.task_ranges(text)[0]) == expected
    assert values.task_ranges(text)[1] == (2 if "%2" in text else 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("200M", 200 * MIB), ("62.50G", 64_000 * MIB), ("64000", 64_000 * MIB), ("1T", 2**40), ("N/A", 0)],
)
def test_sizes_are_in_bytes(text: str, expected: int) -> None:
    assert values.size_bytes(text) == expected


def test_an_unknown_reason_is_shown_as_slurm_wrote_it() -> None:
    assert reasons.sentence("SomethingNew") == ("SomethingNew", "SomethingNew")
    assert reasons.sentence("None") == ("None", "")
    assert reasons.sentence("ReqNodeNotAvail,_UnavailableNodes:n[1-2]") == (
        "ReqNodeNotAvail",
        "a requested node is down, drained, or reserved (unavailable: n[1-2])",
    )


def test_versions_are_compared_and_old_ones_refused() -> None:
    assert read_version("slurm 23.11.4") == Version(23, 11, 4)
    assert read_version("slurm-wlm 26.05.5\n") > Version(24, 11)
    assert has(Version(22, 5, 8), Feature.SUBMIT_LINE) and not has(Version(20, 11, 4), Feature.SUBMIT_LINE)
    with pytest.raises(Exception, match="too old"):
        read_version("slurm 19.05.8")
    with pytest.raises(Exception, match="cannot read the version"):
        read_version("bash: sinfo: command not found")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "FAILED"])
@pytest.mark.parametrize(
    "value",
    [
        "4294967294",
        "-1",
        "9" * 40,
        "x" * 1000,
        "1-2147483648",
        "9" * 9,
        "gres/gpu=18446744073709551614,mem=18446744073709551614M",
        "N/A",
    ],
)
def test_a_job_with_any_value_can_be_recorded_and_read_again(value: str, state: str) -> None:
    """squeue shows requests that Slurm has refused, too. NO_VAL is 4294967294."""
    usual = dict.fromkeys((column.name for column in COLUMNS), "")
    usual |= {"id": "7", "state": state, "node_list": "n1", "nodes": "1", "tasks": "1", "tres": "cpu=1"}
    for column in COLUMNS:
        job = read_job(usual | {column.name: value[: column.width_bytes]}).job
        assert msgspec.json.decode(msgspec.json.encode(job.request), type=Request) == job.request, column
        assert msgspec.json.decode(msgspec.json.encode(job), type=Job).id == job.id, column


def test_a_job_that_another_cluster_of_the_federation_has_is_told_as_such() -> None:
    """Slurm revokes the copies of a job on the clusters that do not start it. Its id names the cluster of its origin."""
    record = {column.name: "" for column in COLUMNS}
    number = 3 << 26 | 17
    fields = {"id": str(number), "label": str(number), "state": "REVOKED", "submit": "2026-11-27T10:00:00"}
    job = read_job(record | fields).job
    assert job.id == number and job.is_finished and job.end_at_unix == job.submit_at_unix
    assert job.exit is not None and (job.exit.cause, job.exit.message) == ("unknown", ELSEWHERE)


@pytest.mark.parametrize(
    "name", ["SLURM_CLUSTERS", "SQUEUE_FORMAT2", "SCANCEL_USER", "SPRIO_FEDERATION", "SACCT_FEDERATION"]
)
def test_no_variable_of_the_user_changes_which_jobs_a_command_names(name: str) -> None:
    assert name not in SlurmCommands({name: "other"}).environ


def test_commands_show_this_cluster_only_and_times_in_utc() -> None:
    environ = SlurmCommands({"TZ": "Asia/Kolkata", "SQUEUE_LOCAL": ""}).environ
    assert (environ["TZ"], environ["SQUEUE_LOCAL"], environ["SCONTROL_LOCAL"]) == ("UTC", "1", "1")
