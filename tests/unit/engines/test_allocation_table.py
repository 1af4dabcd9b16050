"""Which GPUs jobs have, in the output of a real Slurm of four versions, among texts of hostile users.

`tests/data/slurm/VERSION/gpu_jobs.txt` is the output of `scontrol --oneliner --details show job`, `gpu_squeue.txt` that of
squeue with our columns and the mark MARK, and `gpu_nodes.txt` that of `scontrol --oneliner --details show node`. All three
show the same moment. The names and comments of the jobs "thief" and "liar" contain records and blocks.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warpdeck.engines.slurm.reading.allocation_table import (
    MAX_NODES,
    NO_CLAIMS,
    AllocationReader,
    Claims,
    confirmed,
    has_unknown_gpus,
)
from warpdeck.engines.slurm.reading.job_table import COLUMNS, read_jobs
from warpdeck.engines.slurm.reading.marked_table import read_table
from warpdeck.engines.slurm.reading.node_table import gpus_in_use, node_fields
from warpdeck.model import UNKNOWN_GPU, Allocation, Job, NodeName

DATA = Path(__file__).parents[2] / "data" / "slurm"
VERSIONS = ("20.11", "22.05", "24.11", "26.05")
MARK = "Mark0a1b2c3d"
MIB = 1024 * 1024
BLOCK = "Nodes={} CPU_IDs=0-1 Mem=200 GRES=gpu:a100:1(IDX:{})"


class Recording:
    """The answers of one version."""

    def __init__(self, version: str) -> None:
        folder = DATA / version
        table = read_table((folder / "gpu_squeue.txt").read_text(), COLUMNS, MARK)
        self.jobs = [each.job for each in read_jobs(table)]
        self.text = (folder / "gpu_jobs.txt").read_text()
        self.in_use = gpus_in_use(node_fields((folder / "gpu_nodes.txt").read_text()))

    def named(self, name: str) -> Job:
        return next(job for job in self.jobs if job.request.name.startswith(name))

    def allocation(self, name: str, text: str = "") -> Allocation:
        found = confirmed(self.named(name), read(text or self.text), self.in_use)
        assert found is not None
        return found

    def gpus(self, name: str, text: str = "") -> dict[str, tuple[int, ...]]:
        return {share.node: share.gpus for share in self.allocation(name, text).shares}


def read(text: str, *, piece_chars: int = 1000) -> Claims:
    reader = AllocationReader()
    for at in range(0, len(text), piece_chars):
        reader.feed(text[at : at + piece_chars])
    return reader.close()


@pytest.fixture(params=VERSIONS)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_squeue_alone_tells_only_the_number_of_gpus(recording: Recording) -> None:
    job = recording.named("two")
    assert job.allocation is not None and job.allocation.gpu_count() == 3
    assert {gpu for share in job.allocation.shares for gpu in share.gpus} == {UNKNOWN_GPU}
    assert has_unknown_gpus(job) and not has_unknown_gpus(recording.named("plain"))


def test_the_gpus_of_jobs_are_known_by_node(recording: Recording) -> None:
    assert recording.gpus("one") == {"n1": (0,)}
    assert recording.gpus("two") == {"n2": (0, 1), "n3": (0,)}
    tasks = [job for job in recording.jobs if job.request.name == "arr"]
    claims = read(recording.text)
    found = [confirmed(job, claims, recording.in_use) for job in tasks]
    assert sorted(share.gpus for each in found if each for share in each.shares) == [(1,), (2,)]


def test_cpus_and_memory_are_those_of_each_node(recording: Recording) -> None:
    for name in ("two", "plain"):
        shares = recording.allocation(name).shares
        assert [(share.cpus, share.mem_bytes) for share in shares] == [(2, 200 * MIB)] * 2


def test_a_name_that_holds_a_record_of_another_job_makes_neither_of_them_known(recording: Recording) -> None:
    assert recording.gpus("victim") == {"n2": (UNKNOWN_GPU,)}
    assert recording.gpus("thief") == {"n1": (UNKNOWN_GPU,)}


def test_a_job_that_claims_a_free_gpu_gets_none(recording: Recording) -> None:
    claims = read(recording.text)
    (claim,) = claims.jobs[recording.named("liar").id]
    assert (claim.node, claim.gpus) == ("n1", (3,)) and 3 not in recording.in_use[NodeName("n1")]
    assert recording.gpus("liar") == {"n1": (UNKNOWN_GPU,)}


def test_an_answer_about_one_job_has_no_texts_of_others(recording: Recording) -> None:
    start = recording.text.index("JobId=" + str(recording.named("victim").id))
    record = recording.text[start : recording.text.index("\n", start) + 1]
    found = confirmed(recording.named("victim"), read(record), None)
    assert found is not None and [share.gpus for share in found.shares] == [(2,)]


def test_the_same_is_read_from_pieces_of_any_size(recording: Recording) -> None:
    whole = read(recording.text, piece_chars=10**6)
    assert all(read(recording.text, piece_chars=size) == whole for size in (1, 7, 64))


def test_a_claim_of_the_gpu_of_another_job_is_a_dispute(recording: Recording) -> None:
    theirs = recording.text.replace("JobName=one", f"JobName=one Comment=x {BLOCK.format('n2', 1)}")
    assert recording.gpus("one", theirs) == {"n1": (UNKNOWN_GPU,)}
    assert recording.gpus("two", theirs) == {"n2": (UNKNOWN_GPU,) * 2, "n3": (UNKNOWN_GPU,)}


def test_a_node_that_is_named_twice_and_a_wrong_number_of_gpus_prove_nothing(recording: Recording) -> None:
    again = recording.text.replace("JobName=one", f"JobName=one {BLOCK.format('n1', 1)}")
    assert recording.gpus("one", again) == {"n1": (UNKNOWN_GPU,)}
    fewer = recording.text.replace("(IDX:0-1)", "(IDX:0)")
    assert recording.gpus("two", fewer) == {"n2": (UNKNOWN_GPU,) * 2, "n3": (UNKNOWN_GPU,)}


def test_a_gpu_counts_only_if_its_node_reports_it_in_use(recording: Recording) -> None:
    recording.in_use[NodeName("n3")] = frozenset({1, 2})
    assert recording.gpus("two") == {"n2": (UNKNOWN_GPU,) * 2, "n3": (UNKNOWN_GPU,)}
    assert recording.gpus("one") == {"n1": (0,)}


def test_known_gpus_stay_known_when_they_are_compared_again(recording: Recording) -> None:
    job = msgspec.structs.replace(recording.named("two"), allocation=recording.allocation("two"))
    assert confirmed(job, read(recording.text), recording.in_use) == job.allocation
    assert confirmed(job, NO_CLAIMS, {}) == job.allocation


@pytest.mark.parametrize(
    "text",
    [
        f"Nodes=n[1-99999] CPU_IDs=0 Mem=1 GRES= {' '.join(['Nodes=n[1-99999] CPU_IDs=0 Mem=1 GRES='] * 4)}",
        "Nodes=n[1-999999999] CPU_IDs=0 Mem=1 GRES=gpu:1(IDX:0)",
        "Nodes=n9 CPU_IDs=0-999999999 Mem=1 GRES=gpu:1(IDX:0)",
        "Nodes=n9 CPU_IDs=0 Mem=1 GRES=gpu:1(IDX:0-99999999)",
        "Nodes=n[ CPU_IDs=- Mem=1 GRES=gpu:1(IDX:-,-)",
    ],
)
def test_long_lists_of_a_user_cost_little_and_prove_nothing(text: str) -> None:
    claims = read(f"JobId=1 JobName=x {text} UserId=ann(7)\n")
    assert sum(len(each.gpus) for job in claims.jobs.values() for each in job) == 0
    assert sum(map(len, claims.jobs.values())) <= MAX_NODES


def test_shared_parts_of_gpus_and_other_resources_are_no_gpus() -> None:
    line = "JobId=1 JobName=x   Nodes=n1 CPU_IDs=0,8-9 Mem=5 GRES=nic:1(IDX:3),gpu:v100:1(IDX:4),gpu:2(IDX:0,2),shard:4(1/4)"
    (claim,) = read(f"{line} MinCPUsNode=1\n").jobs[next(iter(read(line).jobs))]
    assert (claim.cpus, claim.mem_bytes, claim.gpus) == (3, 5 * MIB, (4, 0, 2))
