"""Long lists are sent in chunks: complete and in order, with other requests served in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.core import ANN, make_request
from tests.support.served import Raw, served

from warpdeck.base.chunking import ROWS_A_TURN, in_slices
from warpdeck.controller.events.events import Submitted


async def test_rows_are_sent_in_order_with_other_work_in_between() -> None:
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


async def test_a_subscription_sends_all_rows_in_chunks(short_tmp: Path) -> None:
    async with served(short_tmp / "home") as site:
        for number in range(8 * ROWS_A_TURN):
            await site.controller.apply(
                Submitted(principal=ANN, request=make_request(f"j{number}", hold=True))
            )
        turn, over, looked = 0, False, Counter[int]()

        class Jobs(dict[Any, Any]):
            def get(self, key: Any, default: Any = None) -> Any:
                looked[turn] += 1
                return super().get(key, default)

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            if not over:
                asyncio.get_running_loop().call_soon(next_turn)

        site.controller.state.jobs = Jobs(site.controller.state.jobs)
        next_turn()
        raw = await Raw.connect(site.paths)
        raw.send("subscribe", id=1, topics=["jobs"])
        rows, ready = 0, False
        while not ready:
            message = await raw.next()
            rows, ready = rows + len(message.get("jobs", ())), message.get("ready", False)
        over = True
        assert rows == 8 * ROWS_A_TURN
        assert max(looked.values()) < 2 * ROWS_A_TURN
        await raw.close()
