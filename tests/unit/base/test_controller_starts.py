"""Starts of controllers: epochs rise, and only a controller of the same site can make one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from warpdeck.base.controller_starts import SiteIdentity, StartMaker, fenced_sentence, supersedes
from warpdeck.base.site_seal import SiteSeal
from warpdeck_agent.wire.epochs import ControllerStart

SITE = SiteIdentity("id", SiteSeal("secret"))


def maker(identity: SiteIdentity = SITE, instance: str = "i") -> StartMaker:
    return StartMaker(
        identity=identity, host="login", pid=7, clock=lambda: 5.0, new_instance=lambda: instance
    )


@pytest.mark.parametrize(("known", "fence", "made"), [(0, None, 1), (4, None, 5), (4, 9, 10), (9, 4, 10)])
def test_a_start_has_an_epoch_above_all_known_ones(known: int, fence: int | None, made: int) -> None:
    fenced_by = None if fence is None else ControllerStart(epoch=fence)
    assert maker().next(ControllerStart(epoch=known), fenced_by).epoch == made


def test_only_a_controller_of_the_site_can_make_a_genuine_start() -> None:
    start = maker().next(ControllerStart(), None)
    assert SITE.is_genuine(start)
    changes: dict[str, Any] = {
        "epoch": 9,
        "instance": "j",
        "host": "x",
        "pid": 8,
        "started_unix": 6.0,
        "seal": "",
    }
    for field, value in changes.items():
        assert not SITE.is_genuine(dataclasses.replace(start, **{field: value})), field
    assert not SiteIdentity("other", SiteSeal("secret")).is_genuine(start)
    assert not SiteIdentity("id", SiteSeal("other secret")).is_genuine(start)


def test_without_a_secret_nothing_is_genuine() -> None:
    unsealed = SiteIdentity("id")
    assert not unsealed.is_genuine(maker(unsealed).next(ControllerStart(), None))


@pytest.mark.parametrize(
    ("holder", "own", "right"),
    [
        ((6, "b"), (5, "a"), True),
        ((5, "b"), (5, "a"), True),
        ((5, "a"), (5, "a"), False),
        ((4, "b"), (5, "a"), False),
    ],
)
def test_a_refusal_is_right_only_for_a_later_start_or_one_at_the_same_time(
    holder: tuple[int, str], own: tuple[int, str], right: bool
) -> None:
    starts = [ControllerStart(epoch=epoch, instance=instance) for epoch, instance in (holder, own)]
    assert supersedes(*starts) is right


def test_the_sentence_names_host_pid_time_and_next_step() -> None:
    holder = ControllerStart(epoch=6, host="login2", pid=4711, started_unix=1_700_000_000.0)
    sentence = fenced_sentence(ControllerStart(epoch=5), holder)
    for part in ("login2", "pid 4711", "started 2023-11-1", "epoch 6", "epoch 5", "`warpdeck takeover`"):
        assert part in sentence
