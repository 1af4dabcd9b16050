"""The placement of a step's tasks, and the resources that they hold."""

from __future__ import annotations

from typing import Any

import pytest

from warpdeck.base.errors import UserError
from warpdeck.model import Allocation, GpuRequest, GpuUuid, JobId, NodeName, Resources, Share
from warpdeck.model.step import Program, Step, StepOptions
from warpdeck.policy.step_placement import Busy, StepLayout, lay_out


def job(*cpus: int, gpus: int = 0, tasks: tuple[int, ...] = (), mem_bytes: int = 0) -> Allocation:
    """Return an allocation with one share for each number of CPUs, on n1, n2 and so on."""
    return Allocation(
        shares=tuple(
            Share(
                node=NodeName(f"n{at}"),
                cpus=count,
                mem_bytes=mem_bytes,
                tasks=tasks[at - 1] if tasks else 1,
                gpus=tuple(range(gpus)),
                gpu_uuids=tuple(GpuUuid(f"n{at}-{index}") for index in range(gpus)),
            )
            for at, count in enumerate(cpus, 1)
        )
    )


def place(
    allocation: Allocation, *running: Step, resources: Resources | None = None, **fields: Any
) -> StepLayout | Busy:
    fields.setdefault("argv", ("true",))
    resources = resources or Resources(nodes_min=len(allocation.shares), nodes_max=len(allocation.shares))
    return lay_out(StepOptions(**fields), allocation, job=resources, running=running)


def counts(found: StepLayout | Busy) -> dict[str, int]:
    assert isinstance(found, StepLayout), found
    return {share.node: len(share.ranks) for share in found.shares}


def running(number: int, found: StepLayout | Busy, *, holds: bool = True, whole: bool = True) -> Step:
    assert isinstance(found, StepLayout)
    return Step(
        job_id=JobId(1), restarts=0, number=number, name="s", holds=holds, whole=whole, shares=found.shares
    )


def test_a_step_without_options_gets_the_jobs_tasks() -> None:
    assert counts(place(job(4, 4))) == {"n1": 1, "n2": 1}
    assert counts(place(job(4, 4), resources=Resources(nodes_min=2, nodes_max=2, tasks_per_node=3))) == {
        "n1": 3,
        "n2": 3,
    }
    four = Resources(nodes_min=2, nodes_max=2, tasks=4)
    assert counts(place(job(4, 4, tasks=(3, 1)), resources=four)) == {"n1": 3, "n2": 1}


def test_tasks_are_distributed_by_the_cpus_of_the_nodes() -> None:
    assert counts(place(job(2, 2, 2), tasks=4)) == {"n1": 2, "n2": 1, "n3": 1}
    assert counts(place(job(8, 8), tasks=4)) == {"n1": 2, "n2": 2}
    assert counts(place(job(16, 4), tasks=18)) == {"n1": 14, "n2": 4}
    assert counts(place(job(8, 8), tasks=4, packed=True)) == {"n1": 3, "n2": 1}


def test_a_step_for_a_range_of_nodes_gets_as_many_as_the_job_has() -> None:
    assert counts(place(job(4, 4, 4), tasks=3, nodes_min=1, nodes_max=2)) == {"n1": 2, "n2": 1}
    assert counts(place(job(4, 4), tasks=3, nodes_min=1, nodes_max=9)) == {"n1": 2, "n2": 1}


def test_cyclic_distribution_alternates_between_nodes() -> None:
    found = place(job(4, 4), tasks=4, distribution="cyclic")
    assert isinstance(found, StepLayout)
    assert [share.ranks for share in found.shares] == [(0, 2), (1, 3)]


@pytest.mark.parametrize(
    ("fields", "ranks"),
    [
        ({"tasks": 5, "distribution": "plane", "plane_size": 2}, [(0, 1, 4), (2, 3)]),
        ({"tasks": 5, "distribution": "cyclic"}, [(0, 2, 4), (1, 3)]),
        ({"tasks": 5, "distribution": "block"}, [(0, 1, 2), (3, 4)]),
        ({"tasks": 5, "distribution": "plane", "plane_size": 3}, [(0, 1, 2), (3, 4)]),
        ({"tasks": 7, "distribution": "plane", "plane_size": 3}, [(0, 1, 2, 6), (3, 4, 5)]),
        ({"hosts": ("n2", "n1", "n2"), "distribution": "arbitrary"}, [(1,), (0, 2)]),
        ({"hosts": ("n2", "n1", "n2"), "distribution": "arbitrary", "tasks": 2}, [(1,), (0,)]),
        ({"nodelist": ("n2", "n1"), "distribution": "arbitrary"}, [(1,), (0,)]),
        ({"tasks_per_gpu": 2, "gpu_bind": "single:2"}, [(0, 1, 2, 3), (4, 5, 6, 7)]),
    ],
)
def test_ranks_are_placed_as_by_real_slurm(fields: dict[str, Any], ranks: list[tuple[int, ...]]) -> None:
    found = place(job(4, 4, gpus=2), **fields)
    assert isinstance(found, StepLayout)
    assert [share.ranks for share in found.shares] == ranks


def test_a_packed_step_fills_nodes_instead_of_using_the_jobs_layout() -> None:
    allocation, six = job(4, 4, tasks=(3, 3)), Resources(nodes_min=2, nodes_max=2, tasks=6)
    assert counts(place(allocation, resources=six)) == {"n1": 3, "n2": 3}
    assert counts(place(allocation, resources=six, packed=True)) == {"n1": 4, "n2": 2}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hosts": ("n1",), "tasks": 2}, "2 tasks, but the list of nodes has 1 entries"),
        ({"hosts": ("n1", "n9")}, "node n9 does not belong to the job"),
        ({"hosts": ("n1",) * 5}, "5 tasks of 1 CPUs do not fit on n1"),
    ],
)
def test_an_impossible_host_list_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        place(job(4, 4), **fields)


def test_a_step_with_fewer_tasks_than_nodes_uses_fewer_nodes() -> None:
    assert counts(place(job(4, 4, 4), tasks=2)) == {"n1": 1, "n2": 1}
    assert counts(place(job(4, 4, 4), tasks=1, nodelist=("n3",))) == {"n3": 1}
    assert counts(place(job(4, 4, 4), nodes_min=1, exclude=("n1",))) == {"n2": 1}
    assert counts(place(job(4, 4, 4), nodes_min=1, relative=2)) == {"n3": 1}


def test_a_step_that_exceeds_the_job_is_refused() -> None:
    for fields, words in (
        ({"tasks": 9}, "9 tasks of 1 CPUs"),
        ({"tasks": 2, "cpus_per_task": 5}, "of 5 CPUs"),
        ({"nodes_min": 3}, "the step requests 3 nodes"),
        ({"nodelist": ("n9",)}, "node n9 does not belong to the job"),
        ({"gpus": GpuRequest(total=1)}, "more GPUs"),
        ({"exclude": ("n1", "n2")}, "nodes"),
    ):
        with pytest.raises(UserError, match=words):
            place(job(4, 4), **fields)
    assert counts(place(job(1, 1), tasks=8, overcommit=True))["n2"] >= 1


def test_the_jobs_cpus_per_task_are_reduced_to_fit_the_step() -> None:
    found = place(job(8), resources=Resources(cpus_per_task=8), tasks=4)
    assert isinstance(found, StepLayout)
    assert found.cpus_per_task == 2


def test_a_step_holds_whole_nodes_by_default() -> None:
    both = job(4, 4)
    first = running(0, place(both, nodes_min=1))
    assert counts(place(both, first, nodes_min=1)) == {"n2": 1}
    assert place(both, first) == Busy(steps=(0,))
    assert counts(place(both, first, overlap=True)) == {"n1": 1, "n2": 1}
    assert counts(place(both, running(0, place(both), holds=False))) == {"n1": 1, "n2": 1}


def test_an_exact_step_holds_only_its_requested_resources() -> None:
    one = job(4, gpus=2)
    first = running(
        0, place(one, tasks=1, cpus_per_task=3, exact=True, gpus=GpuRequest(total=1)), whole=False
    )
    second = place(one, first, tasks=1, exact=True, gpus=GpuRequest(total=1))
    assert isinstance(second, StepLayout)
    assert (second.shares[0].cpus, second.shares[0].gpus) == (1, (1,))
    assert place(one, first, tasks=2, exact=True, gpus=GpuRequest(total=0)) == Busy(steps=(0,))
    assert place(one, first, tasks=1, exact=True) == Busy(steps=(0,))  # all GPUs, the default


def test_exact_steps_share_the_memory_of_the_job() -> None:
    one = job(4, mem_bytes=200)
    too_large: tuple[dict[str, Any], ...] = (
        {"mem_per_node_bytes": 201},
        {"mem_per_cpu_bytes": 51, "tasks": 4},
    )
    for fields in too_large:
        with pytest.raises(UserError, match="of memory") as refused:
            place(one, **fields)
        assert refused.value.code == "step_mem"
    first = running(0, place(one, tasks=1, exact=True, mem_per_node_bytes=150), whole=False)
    assert place(one, first, tasks=1, exact=True, mem_per_node_bytes=51) == Busy(steps=(0,))
    assert counts(place(one, first, tasks=1, exact=True, mem_per_node_bytes=0)) == {"n1": 1}
    assert counts(place(one, first, tasks=2, exact=True, mem_per_cpu_bytes=25)) == {"n1": 2}
    assert counts(place(one, first, tasks=1, exact=True)) == {"n1": 1}
    assert counts(place(one, first, overlap=True, mem_per_node_bytes=200)) == {"n1": 1}
    assert counts(place(job(4), mem_per_node_bytes=201)) == {"n1": 1}, "a job without an amount"


def test_a_busy_step_names_only_the_steps_on_its_nodes() -> None:
    two = job(4, 4)
    first = running(0, place(two, tasks=1, nodelist=("n1",)))
    second = running(1, place(two, tasks=1, nodelist=("n2",)))
    assert place(two, first, second, nodelist=("n2",)) == Busy(steps=(1,))
    assert place(two, first, second, tasks=1) == Busy(steps=(0, 1))


def memory(found: StepLayout | Busy) -> list[int]:
    assert isinstance(found, StepLayout)
    return [share.mem_bytes for share in found.shares]


def test_a_step_may_use_its_requested_memory() -> None:
    one = job(4, gpus=2, mem_bytes=200)
    assert memory(place(one, tasks=1)) == memory(place(one, tasks=1, mem_per_node_bytes=0)) == [0], "all"
    assert memory(place(one, tasks=1, mem_per_node_bytes=50)) == [50]
    assert memory(place(one, tasks=2, exact=True, mem_per_cpu_bytes=30)) == [60]
    assert memory(place(one, tasks=2, mem_per_cpu_bytes=30)) == [120], "it has the node's CPUs"
    assert memory(place(one, tasks=2, mem_per_cpu_bytes=90)) == [200], "and no more memory than there is"
    assert memory(place(one, tasks=2, mem_per_gpu_bytes=70, gpus=GpuRequest(per_task=1))) == [140]
    with pytest.raises(UserError, match="of memory per GPU") as refused:
        place(one, tasks=2, mem_per_gpu_bytes=101, gpus=GpuRequest(per_task=1))
    assert refused.value.code == "step_mem"
    assert memory(place(job(4), mem_per_node_bytes=50)) == [50], "of a job that is held to none"


def test_a_step_goes_to_a_node_with_enough_memory() -> None:
    two = job(4, 4, mem_bytes=200)
    first = running(0, place(two, tasks=1, nodes_min=1, exact=True, mem_per_node_bytes=150), whole=False)
    assert counts(place(two, first, tasks=1, nodes_min=1, exact=True, mem_per_node_bytes=100)) == {"n2": 1}


def test_each_task_may_get_its_own_gpus() -> None:
    found = place(job(4, 4, gpus=2), tasks=4, gpus=GpuRequest(per_task=1))
    assert isinstance(found, StepLayout)
    assert [share.task_gpus for share in found.shares] == [((0,), (1,)), ((0,), (1,))]
    shared = place(job(4, gpus=2), tasks=4)
    assert isinstance(shared, StepLayout)
    assert (shared.shares[0].gpus, shared.shares[0].task_gpus) == ((0, 1), ())


@pytest.mark.parametrize(
    ("bind", "seen"),
    [
        ("none", ()),
        ("per_task:2", ((0, 1), (0, 1))),
        ("single:1", ((0,), (1,))),
        ("map_gpu:1,0", ((1,), (0,))),
    ],
)
def test_gpus_are_bound_to_tasks_as_requested(bind: str, seen: tuple[tuple[int, ...], ...]) -> None:
    found = place(job(4, gpus=2), tasks=2, gpu_bind=bind)
    assert isinstance(found, StepLayout)
    assert found.shares[0].task_gpus == seen


def test_a_program_file_determines_the_number_of_tasks() -> None:
    programs = (Program(ranks=((0, 0), (1, 2)), argv=("a",)), Program(argv=("b",)))
    assert counts(place(job(4), programs=programs, argv=())) == {"n1": 3}


def test_a_step_above_the_task_limit_is_refused() -> None:
    crowd = Resources(nodes_min=1, nodes_max=1, tasks=1_000_000, overcommit=True)
    with pytest.raises(UserError, match=r"1,000,000 tasks exceed the limit of 100,000 per step"):
        place(job(1), resources=crowd, overcommit=True)
