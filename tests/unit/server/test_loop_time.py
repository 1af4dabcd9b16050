"""The share of the event loop's time that each user gets."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from warpdeck.server.loop_time import BURST_S, MAX_PAUSE_S, SHARE, LoopTime, pause_s
from warpdeck.sim.virtualtime import run_virtual

ANN, BOB = 1, 2
STEP_S = 0.01


class Work:
    """A clock that steps of requests advance. It also follows the loop's virtual time."""

    def __init__(self) -> None:
        self.worked_s = 0.0

    def __call__(self) -> float:
        return self.worked_s + asyncio.get_running_loop().time()

    async def steps(self, count: int) -> None:
        for _ in range(count):
            self.worked_s += STEP_S
            await asyncio.sleep(0)


def test_the_pause_grows_with_the_account_up_to_a_limit_and_only_beside_others() -> None:
    assert pause_s(BURST_S, is_alone=False) == 0
    assert pause_s(BURST_S + STEP_S, is_alone=False) == pytest.approx(STEP_S / SHARE)
    assert pause_s(BURST_S + 100, is_alone=False) == MAX_PAUSE_S
    assert pause_s(BURST_S + 100, is_alone=True) == 0


@pytest.mark.parametrize("has_company", [True, False])
def test_a_user_beside_others_gets_the_share_and_a_user_alone_all(has_company: bool) -> None:
    async def run() -> float:
        work = Work()
        times = LoopTime(work)
        count = int(4 * BURST_S / STEP_S)

        async def be_active() -> None:
            while has_company:
                await times.metered(BOB, asyncio.sleep(0.5))

        other = asyncio.ensure_future(be_active())
        await asyncio.sleep(0.1)
        begun_s = work()
        await asyncio.gather(*(times.metered(ANN, work.steps(count // 4)) for _ in range(4)))
        other.cancel()
        return work.worked_s / (work() - begun_s)

    part = run_virtual(run())
    if has_company:
        assert SHARE < part < 2 * SHARE  # The burst comes first.
    else:
        assert part == 1


def test_a_user_over_the_share_makes_one_step_at_a_time_and_delays_no_other() -> None:
    async def run() -> list[int]:
        work = Work()
        times = LoopTime(work)
        order: list[int] = []

        async def note(uid: int) -> None:
            for _ in range(5):
                order.append(uid)
                work.worked_s += STEP_S
                await asyncio.sleep(0)

        await times.metered(BOB, asyncio.sleep(0))
        await times.metered(ANN, work.steps(int(2 * BURST_S / STEP_S)))
        many = [asyncio.ensure_future(times.metered(ANN, note(ANN))) for _ in range(50)]
        await asyncio.sleep(0)
        await times.metered(BOB, note(BOB))
        for each in many:
            each.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        return order

    order = run_virtual(run())
    assert order.count(BOB) == 5 and order[order.index(BOB) :].count(ANN) <= 6


def test_a_request_that_is_canceled_while_it_waits_ends_and_the_next_gets_its_turn() -> None:
    async def run() -> tuple[list[str], bool]:
        work = Work()
        times = LoopTime(work)
        said: list[str] = []

        async def request(name: str) -> None:
            try:
                await work.steps(3)
                said.append(f"{name} ended")
            except asyncio.CancelledError:
                said.append(f"{name} canceled")
                raise

        await times.metered(BOB, asyncio.sleep(0))
        await times.metered(ANN, work.steps(int(2 * BURST_S / STEP_S)))
        first = asyncio.ensure_future(times.metered(ANN, request("first")))
        second = asyncio.ensure_future(times.metered(ANN, request("second")))
        while not times.must_wait(ANN):
            await times.metered(BOB, asyncio.sleep(0))
        await asyncio.sleep(STEP_S)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        await second
        return said, first.cancelled()

    said, canceled = run_virtual(run())
    assert said[-1] == "second ended" and "first ended" not in said and canceled


def test_an_error_of_a_request_reaches_its_caller() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("told")

    async def run() -> None:
        with pytest.raises(ValueError, match="told"):
            await LoopTime().metered(ANN, fail())

    asyncio.run(run())
