"""A mount that hangs is told apart from a machine that is slow."""

from __future__ import annotations

import threading
import time

import pytest

from warpdeck_agent.linux import probes
from warpdeck_agent.linux.probes import Probes, start_child

ANSWER_S = 0.05


async def test_a_path_that_is_late_on_a_slow_machine_is_not_called_hanging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each process takes longer than the time for an answer, as at a load of 40."""
    monkeypatch.setattr(probes, "CONTROL_S", ANSWER_S)
    slow = threading.Event()
    controls = []

    def control() -> None:
        controls.append(1)
        if len(controls) == 3:
            slow.set()
        threading.Event().wait(2 * ANSWER_S)

    def probe(path: str) -> str:
        slow.wait(60)
        return f"{path} answers"

    found = await Probes(probe, answer_s=ANSWER_S, control=control).ask(["/tmp"])
    assert found == {"/tmp": "/tmp answers"} and len(controls) >= 3


async def test_a_hanging_path_is_found_at_once_on_a_fast_machine() -> None:
    never = threading.Event()
    checked = Probes(lambda path: never.wait(60), answer_s=ANSWER_S, control=lambda: None)
    assert await checked.ask(["/nfs"]) == {"/nfs": None}
    never.set()


async def test_a_path_that_never_answers_is_found_on_a_slow_machine_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "CONTROL_S", ANSWER_S)
    monkeypatch.setattr(probes, "LONGEST_S", 4 * ANSWER_S)
    never = threading.Event()
    checked = Probes(lambda path: never.wait(60), answer_s=ANSWER_S, control=lambda: never.wait(60))
    began = time.monotonic()
    assert await checked.ask(["/nfs"]) == {"/nfs": None}
    assert time.monotonic() - began >= 4 * ANSWER_S
    never.set()


def test_the_control_needs_no_file_system_of_a_user() -> None:
    start_child()
