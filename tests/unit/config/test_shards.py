"""GPU shards as the site configures them."""

from __future__ import annotations

import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import Site
from warpdeck.model import GpuRequest, Request, Resources


def completed(shards: int, *, each: int) -> GpuRequest:
    request = Request(resources=Resources(gpus=GpuRequest(shards=shards, type="h100")))
    return Site(shards_per_gpu=each).complete(request, "ann").resources.gpus


def test_shards_become_a_share_of_a_gpu() -> None:
    assert completed(1, each=4) == GpuRequest(share_pct=25, type="h100")
    assert completed(4, each=4) == GpuRequest(per_node=1, type="h100")


@pytest.mark.parametrize(("shards", "each", "words"), [(1, 0, "no GPU shards"), (5, 4, "a GPU has 4")])
def test_requests_for_unavailable_shards_are_refused(shards: int, each: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        completed(shards, each=each)
