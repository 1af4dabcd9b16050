"""The cycle collector: survivors are skipped in the next run, and no dead object stays forever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from warpdeck.daemon import collector
from warpdeck.daemon.collector import Collector


class Ring:
    """An object that references itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(collector, "MIN_GROWTH", 1000)
    monkeypatch.setattr(collector, "GROWTH", 1.0)
    found = Collector()
    with found.loading():
        assert not gc.isenabled()
    yield found
    found.close()


def ring() -> tuple[list[Ring], weakref.ref[Ring]]:
    one = Ring()
    return [one], weakref.ref(one)


def test_what_survived_a_look_is_not_looked_at_again_and_new_garbage_is_collected(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    assert all(each is not kept[0] for each in gc.get_objects())
    kept.clear()
    young, new = ring()
    young.clear()
    gc.collect()
    assert new() is None, "it never survived a look"
    assert old() is not None, "left out"


def test_everything_is_looked_at_when_much_has_come(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    kept.clear()
    more = [[number] for number in range(1500)]
    gc.collect()
    assert old() is not None and len(more) == 1500, "only now there is more than may be left out"
    gc.collect()
    assert old() is None
    again, later = ring()
    gc.collect()
    again.clear()
    gc.collect()
    assert later() is not None, "and so many more may be left out again"


def test_what_was_there_for_a_moment_alone_is_no_reason_to_look_at_everything(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    kept.clear()
    for _ in range(5):
        passing = [[number] for number in range(400)]
        gc.collect()
        passing.clear()
    assert old() is not None


def test_everything_is_looked_at_when_somebody_knows_of_much_that_has_died(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    kept.clear()
    made.collect()
    assert old() is None
    made.close()
    assert not gc.get_freeze_count()
