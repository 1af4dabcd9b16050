"""Long lists in pieces: all of it in order, and others are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from warpdeck.api.slices import in_slices


async def test_all_are_shown_in_order_and_others_have_their_turns() -> None:
    pieces: list[int] = []
    served: list[int] = []

    def show(some: Sequence[int]) -> list[str]:
        pieces.append(len(some))
        asyncio.get_running_loop().call_soon(served.append, len(pieces))
        return [str(each) for each in some if each % 2]

    found = await in_slices(range(25), show, rows=10)
    assert found == [str(each) for each in range(25) if each % 2]
    assert (pieces, served) == ([10, 10, 5], [1, 2])
    assert await in_slices([], show) == []
