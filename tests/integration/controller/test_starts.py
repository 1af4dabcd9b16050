"""A start is on disk before the first agent is contacted, whenever the controller is killed."""

from __future__ import annotations

from pathlib import Path

from warpdeck.base.controller_starts import supersedes
from warpdeck.daemon.controller_process import begin_start
from warpdeck.ports.store import Changes
from warpdeck.store import SqliteStore
from warpdeck_agent.wire.epochs import ControllerStart


async def begun(path: Path) -> ControllerStart:
    """Return the start of a controller that is killed before it contacts an agent."""
    store = await SqliteStore.open(str(path / "state.db"))
    maker = await begin_start(store)
    found = (await store.starts()).start
    assert maker.identity.is_genuine(found)
    await store.close()
    return found


async def test_each_start_supersedes_the_one_before_although_it_was_killed_before_its_first_hello(
    tmp_path: Path,
) -> None:
    starts = [await begun(tmp_path) for _ in range(3)]
    assert [each.epoch for each in starts] == [1, 2, 3]
    assert len({each.instance for each in starts}) == 3
    assert supersedes(starts[2], starts[0]) and not supersedes(starts[0], starts[2])


async def test_a_fenced_controller_begins_no_start_however_often_it_is_started(tmp_path: Path) -> None:
    first = await begun(tmp_path)
    store = await SqliteStore.open(str(tmp_path / "state.db"))
    holder = ControllerStart(epoch=2, instance="other", host="login2")
    await store.commit(Changes(fenced_by=holder))
    await store.close()
    assert [await begun(tmp_path) for _ in range(3)] == [first] * 3
    store = await SqliteStore.open(str(tmp_path / "state.db"))
    loaded = await store.load(finished_since_unix=0.0)
    await store.close()
    assert loaded.fenced_by == holder
