"""The table of reducers has exactly one entry for each kind of event."""

from __future__ import annotations

from typing import get_args

from warpdeck.controller.events.events import Event
from warpdeck.controller.reducers.reduce import REDUCERS


def test_reducers_cover_exactly_the_kinds_of_events() -> None:
    assert set(get_args(Event)) == set(REDUCERS)
