"""What-if simulations replay the history with more GPUs and other weights."""

from __future__ import annotations

import pytest
from tests.support.builders import node, view

from warpdeck.base.errors import UserError
from warpdeck.model import NodeName
from warpdeck.policy import PlannerSettings, Weights
from warpdeck.policy.input.site import PartitionView
from warpdeck.sim.history import with_more_gpus
from warpdeck.sim.policies import weighted


def test_additional_gpus_are_placed_on_copies_of_the_largest_node() -> None:
    import msgspec

    both = frozenset({NodeName("big")})
    site = msgspec.structs.replace(
        view([node("small", gpus=2), node("big", gpus=8)], []),
        partitions=(PartitionView(name="gpu", nodes=both), PartitionView(name="all")),
    )
    more = with_more_gpus(site, 12)
    assert [(each.name, len(each.gpus)) for each in more.nodes] == [
        ("small", 2),
        ("big", 8),
        ("more1", 8),
        ("more2", 4),
    ]
    assert len({gpu.uuid for each in more.nodes for gpu in each.gpus}) == 22
    assert (
        more.partitions[0].nodes == frozenset(map(NodeName, ("big", "more1", "more2")))
        and more.partitions[1].nodes is None
    )
    with pytest.raises(UserError, match="no node has GPUs"):
        with_more_gpus(view([node("cpu", gpus=0)], []), 8)


def test_weights_are_set_by_name_and_invalid_ones_are_refused() -> None:
    own = PlannerSettings(weights=Weights(age=5, qos=7))
    assert weighted(own, ["age=100", "fairshare=3"]).weights == Weights(age=100, fairshare=3, qos=7)
    for words in ("age", "age=-1", "beauty=3", "age=x", "age=99999999999999"):
        with pytest.raises(UserError, match="is not a weight"):
            weighted(own, [words])
