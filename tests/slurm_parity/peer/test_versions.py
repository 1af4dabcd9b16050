"""A real Slurm of each supported version, read with the commands and tables of the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import PACKAGES, SUITES, VERSIONS, RealSlurm
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.polling import BUSY, PLANS, Source, load_factor
from warpdeck.engines.slurm.commands import UNREACHABLE, SlurmCommands
from warpdeck.engines.slurm.reading.job_table import COLUMNS, read_jobs
from warpdeck.engines.slurm.reading.load_table import read_load
from warpdeck.engines.slurm.reading.node_table import node_fields, read_nodes
from warpdeck.engines.slurm.reading.partition_table import partition_fields, read_partitions
from warpdeck.engines.slurm.versions import read_version

pytestmark = pytest.mark.slurm
SQUEUE = ("squeue", "--noheader", "--all", "--states=all")
NODES = ("scontrol", "--oneliner", "--details", "show", "node")
NEW_NAME = "two\nlines | of=text 12          x"
"""A job's name that looks like the output of squeue."""


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    """A cluster of this version with a running and a held job."""
    suite = SUITES.get(request.param, "")
    assert not suite or Path(f"{PACKAGES}-{suite}/root").is_dir(), "run tests/setup.sh"
    with RealSlurm(version=request.param) as running:
        held = ("sbatch", "--hold", f"--job-name={NEW_NAME}", "--wrap=true")
        running.ok("sbatch", "--gres=gpu:2", "--job-name=runs", "--output=/dev/null", "--wrap=sleep 600")
        running.ok(*held)
        eventually(lambda: "runs" in running.ok("squeue", "-h", "-t", "R", "-o", "%j"), what="the job runs")
        yield running


@pytest.fixture
def commands(slurm: RealSlurm, tmp_path: Path) -> SlurmCommands:
    return SlurmCommands({**os.environ, **slurm.wrappers(tmp_path / "bin")})


async def test_the_tables_of_this_version_are_read(commands: SlurmCommands, slurm: RealSlurm) -> None:
    version = read_version(await commands.read("sbatch", "--version"))
    assert slurm.ok("sinfo", "--version").split() == ["slurm-wlm", str(version)]
    jobs = {
        each.job.request.name: each.job
        for each in read_jobs([row async for rows in commands.table(SQUEUE, COLUMNS) for row in rows])
    }
    assert jobs.keys() == {"runs", NEW_NAME}
    allocation = jobs["runs"].allocation
    assert jobs["runs"].state == "RUNNING" and allocation is not None and allocation.gpu_count() == 2
    assert jobs[NEW_NAME].held
    nodes = read_nodes(node_fields(await commands.read(*NODES)), at=1.0)
    assert [node.name for node in nodes] == ["n1", "n2", "n3", "n4"]
    busy = {node.name: sum(bool(gpu.job) for gpu in node.gpus) for node in nodes}
    assert busy[allocation.node_names()[0]] == 2 and sum(busy.values()) == 2
    rows = read_partitions(
        partition_fields(await commands.read("scontrol", "--oneliner", "show", "partition")), nodes
    )
    assert [(row.name, row.nodes, row.gpus) for row in rows] == [("gpu", 4, 16), ("debug", 2, 8)]


@pytest.mark.parametrize(("source", "argv"), [(Source.JOBS, SQUEUE), (Source.NODES, NODES)])
async def test_each_command_causes_the_counted_number_of_requests(
    commands: SlurmCommands, slurm: RealSlurm, source: Source, argv: tuple[str, ...]
) -> None:
    """slurmctld counts its requests itself. The one of sdiag does not belong to the command."""
    slurm.ok("sdiag", "--reset")
    await commands.read(*argv)
    lines = [
        line.split() for line in slurm.ok("sdiag").splitlines() if "REQUEST_" in line and "count:" in line
    ]
    counts = {words[0]: int(word[6:]) for words in lines for word in words if word.startswith("count:")}
    daemons = {name for name in counts if "STATS" in name or "NODE_REGISTRATION" in name or "PING" in name}
    assert sum(count for name, count in counts.items() if name not in daemons) == PLANS[source].rpcs, counts


async def test_an_ordinary_user_reads_the_load_of_this_version(slurm: RealSlurm) -> None:
    """An idle slurmctld has at least one thread, the one that answers. A pass of its scheduler takes some microseconds."""
    eventually(lambda: "Mean cycle" in slurm.ok("sdiag"), what="a pass of the scheduler")
    load = read_load(slurm.run(["sdiag"], user="nobody").out)
    assert load.threads >= 1 and 0 < load.mean_cycle_s < BUSY.mean_cycle_s and load_factor(load) == 1.0


async def test_an_error_has_slurms_words_and_ours(commands: SlurmCommands, slurm: RealSlurm) -> None:
    with pytest.raises(UserError, match="Invalid job id specified"):
        await commands.read("scontrol", "show", "job", "999999")
    broken = SlurmCommands({"PATH": os.environ["PATH"]})
    with pytest.raises(UserError, match="cannot run squeue-that-is-missing"):
        await broken.read("squeue-that-is-missing")


async def test_a_stopped_slurmctld_is_reported_as_unreachable(tmp_path: Path) -> None:
    with RealSlurm() as slurm:
        commands = SlurmCommands({**os.environ, **slurm.wrappers(tmp_path / "bin")})
        pid = int((slurm.folder / "slurmctld.pid").read_text())
        slurm.run(["kill", "-9", str(pid)])
        with pytest.raises(UserError) as caught:
            await commands.read("squeue", "--noheader")
        assert caught.value.code == UNREACHABLE and "warpdeck asks again" in caught.value.hint
