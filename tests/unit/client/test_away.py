"""Clients while no controller answers: when they try again, what they say, and when they give up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client import away
from warpdeck.client.away import Starter, wait_until_back
from warpdeck.client.wire_connection import GONE, gone

LOST = "connection to the controller lost; waiting for it"
BACK = "the controller is back"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "AGAIN_EVERY_S", 0.0)


def attempts(*errors: UserError) -> Callable[[], str]:
    """Return a function that connects after these errors."""
    left = list(errors)

    def connect() -> str:
        if left:
            raise left.pop(0)
        return "connected"

    return connect


def is_away() -> UserError:
    return UserError("no controller is running", code=GONE)


def test_a_controller_that_is_back_at_once_is_not_talked_about() -> None:
    said: list[str] = []
    assert wait_until_back(attempts(is_away(), is_away()), said.append) == "connected"
    assert said == []


def test_a_user_who_waits_is_told_once_and_told_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "TOLD_AFTER_S", -1.0)
    said: list[str] = []
    assert wait_until_back(attempts(is_away(), is_away(), is_away()), said.append) == "connected"
    assert said == [LOST, BACK]


def test_a_controller_that_refuses_is_not_waited_for() -> None:
    with pytest.raises(UserError, match="belongs to another user"):
        wait_until_back(attempts(UserError("it belongs to another user")), lambda line: None)


def test_the_wait_ends_with_the_last_error() -> None:
    with pytest.raises(UserError, match="no controller is running") as ended:
        wait_until_back(attempts(is_away()), lambda line: None, patience_s=-1.0)
    assert ended.value.code == GONE


@pytest.mark.parametrize("error", [UserError("it belongs to another user"), UserError("gone", code=GONE)])
def test_no_controller_is_started_after_a_refusal_or_unasked(error: UserError, tmp_path: Path) -> None:
    starter = Starter(Paths(str(tmp_path / "home")), start=error.code != GONE)
    with pytest.raises(UserError) as raised:
        starter.after(error)
    assert raised.value is error
    assert not (tmp_path / "home").exists()


def test_over_slurm_the_messages_name_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "TOLD_AFTER_S", -1.0)
    said: list[str] = []
    wait_until_back(attempts(is_away()), said.append, daemon="gateway")
    assert said == ["connection to the gateway lost; waiting for it", "the gateway is back"]
    assert gone("gateway").message == "connection to the gateway lost"
