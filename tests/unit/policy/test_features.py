"""Constraints: features in Slurm's grammar, and the memory of a node's GPUs."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.builders import node, pending, view

from warpdeck.base.errors import UserError
from warpdeck.model import GpuRequest, JobId, Resources
from warpdeck.policy import PlannerSettings, parse_constraint, plan
from warpdeck.policy.input.view import NodeView
from warpdeck.policy.resources.features import Traits

A100_40, H100_80 = 42_949_672_960, 85_520_809_984
"""Bytes that NVML reports for cards sold as 40 and 80 GB."""


def sized(name: str, *mem_bytes: int) -> NodeView:
    made = node(name, gpus=len(mem_bytes))
    gpus = [
        msgspec.structs.replace(gpu, mem_bytes=size) for gpu, size in zip(made.gpus, mem_bytes, strict=True)
    ]
    return msgspec.structs.replace(made, gpus=tuple(gpus))


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ("a100&ib", True),
        ("a100,gold", False),
        ("(h100|a100)&ib", True),
        ("gpumem>=40G", True),
        ("gpumem>=40GB&ib", True),
        ("gpumem>=80g", False),
        ("h100|gpumem>=24G", True),
        ("gpumem>=0G", True),
    ],
)
def test_constraints_match_features_and_gpu_memory(constraint: str, fits: bool) -> None:
    (test,) = parse_constraint(constraint)
    assert test(Traits(frozenset({"a100", "ib"}), A100_40)) is fits


@pytest.mark.parametrize("constraint", ["gpumem>40G", "gpumem>=lots", "mem>=40G", "gpumem=40G"])
def test_an_invalid_comparison_is_refused_with_a_hint(constraint: str) -> None:
    with pytest.raises(UserError, match="only comparison is gpumem>=40G"):
        parse_constraint(constraint)


@pytest.mark.parametrize("constraint", ["(" * 1024, "(a|" * 300, f"{'(' * 17}a{')' * 17}"])
def test_deeply_nested_parentheses_are_refused(constraint: str) -> None:
    """The controller parses constraints itself, and must not overflow its stack."""
    with pytest.raises(UserError, match="more than 16 nested parentheses"):
        parse_constraint(constraint)


def test_any_number_of_parentheses_may_follow_each_other() -> None:
    (test,) = parse_constraint("&".join(["((a))|b"] * 100))
    assert test(Traits(frozenset({"a"}))) and not test(Traits(frozenset()))


def test_a_node_without_gpus_has_no_gpu_memory() -> None:
    (test,) = parse_constraint("gpumem>=0G")
    assert not test(Traits(frozenset()))


def test_a_job_goes_to_a_node_where_every_gpu_has_the_memory() -> None:
    nodes = [sized("small", A100_40, A100_40), sized("mixed", H100_80, A100_40), sized("large", H100_80)]
    requested = Resources(gpus=GpuRequest(per_node=1), constraint="gpumem>=80G")
    made = plan(
        view(nodes, [pending(1, resources=requested), pending(2, resources=requested)]),
        10_000.0,
        PlannerSettings(),
    )
    assert [start.allocation.node_names() for start in made.starts] == [("large",)]
    assert made.pending_reasons[JobId(2)].code == "Resources"
