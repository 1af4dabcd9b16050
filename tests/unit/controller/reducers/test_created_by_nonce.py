"""A repeated request with the same nonce creates nothing more, even after a restart of the controller."""

from __future__ import annotations

import pytest
from tests.support.core import ANN, BOB, Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.model import ArraySpec
from warpdeck.model.created_by_nonce import (
    KEPT_S,
    MAX_PER_USER,
    CreatedObject,
    CreatedTable,
    RequestId,
    find_created,
    upsert_created,
)

MARK = RequestId("ab" * 16, "content")


def test_a_repeated_request_gets_the_same_answer() -> None:
    core = Core("a")
    request = make_request(array=ArraySpec(ranges=((0, 9, 1),)))
    first = core.apply(Submitted(principal=ANN, request=request, request_id=MARK))
    again = core.apply(Submitted(principal=ANN, request=request, request_id=MARK))
    assert first.created == again.created and first.created is not None and first.created.tasks == 10
    assert len(core.state.jobs) == 1


def test_another_request_with_the_same_nonce_is_refused() -> None:
    core = Core("a")
    core.apply(Submitted(principal=ANN, request=make_request(), request_id=MARK))
    with pytest.raises(UserError, match="was used by another request"):
        core.apply(
            Submitted(principal=ANN, request=make_request(), request_id=RequestId(MARK.nonce, "other"))
        )
    assert len(core.state.jobs) == 1


def test_nonces_are_separate_for_each_user() -> None:
    core = Core("a")
    core.apply(Submitted(principal=ANN, request=make_request(), request_id=MARK))
    core.apply(Submitted(principal=BOB, request=make_request(), request_id=MARK))
    assert len(core.state.jobs) == 2


def made(number: int, at_unix: float) -> CreatedObject:
    return CreatedObject(
        uid=1, request_id=RequestId(f"{number:032x}", ""), at_unix=at_unix, job_id=number, label=str(number)
    )


def test_entries_are_limited_in_age_and_number() -> None:
    table: CreatedTable = {}
    assert upsert_created(table, made(0, 0.0)) == []
    assert upsert_created(table, made(1, KEPT_S + 1)) == [made(0, 0.0)]
    gone = [each for n in range(2, MAX_PER_USER + 3) for each in upsert_created(table, made(n, KEPT_S + n))]
    assert [each.job_id for each in gone] == [1, 2] and len(table[1]) == MAX_PER_USER
    assert find_created(table, 1, RequestId(f"{1:032x}", "")) is None
