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


def test_survivors_of_a_collection_are_skipped_and_new_garbage_is_freed(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    assert all(each is not kept[0] for each in gc.get_objects())
    kept.clear()
    young, new = ring()
    young.clear()
    gc.collect()
    assert new() is None, "it never survived a collection"
    assert old() is not None, "it is skipped"


def test_a_full_collection_runs_after_enough_growth(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    kept.clear()
    more = [[number] for number in range(1500)]
    gc.collect()
    assert old() is not None and len(more) == 1500, "only now there are more objects than may be skipped"
    gc.collect()
    assert old() is None
    again, later = ring()
    gc.collect()
    again.clear()
    gc.collect()
    assert later() is not None, "as many further objects may be skipped again"


def test_short_lived_objects_cause_no_full_collection(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    kept.clear()
    for _ in range(5):
        temporary = [[number] for number in range(400)]
        gc.collect()
        temporary.clear()
    assert old() is not None


def test_an_explicit_collection_examines_all_objects(made: Collector) -> None:
    kept, old = ring()
    gc.collect()
    kept.clear()
    made.collect()
    assert old() is None
    made.close()
    assert not gc.get_freeze_count()
