"""The table of reducers has exactly one entry for each kind of event."""

from __future__ import annotations

from typing import get_args

from warpdeck.controller.events.events import Event
from warpdeck.controller.reducers.reduce import REDUCERS


def test_each_kind_of_event_has_its_reducer_and_no_other_has_one() -> None:
    assert set(get_args(Event)) == set(REDUCERS)
