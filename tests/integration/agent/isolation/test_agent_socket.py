"""The agent's own socket: nobody else can connect, and no bytes that arrive there stop the agent or its jobs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import socket
import stat
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bench.rig import rss_mb
from tests.integration.agent.conftest import BOB, agent_of_root
from tests.support.agent import AgentProcess, Link
from tests.support.served import as_uid

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire
from warpdeck_agent.wire.frames import MAX_FRAME_BYTES, data_frame, json_frame

pytestmark = pytest.mark.lab
SEEDS = (11, 21)
CONNECTIONS, MESSAGES = 400, 5
"""A message that cannot be decoded closes its connection, so many connections find more than long ones."""
MAX_GROWTH_MB = 100
"""More than one frame of the largest size, and much less than all that is sent."""
JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, -(2**70), 1e308, 0.5),
    *("", "x", "../../etc/passwd", "/", "a\0b", "-x", "\ud800", "9" * 5000, "GPU-1"),
    *([], {}, [[]], [None] * 100, ["a", 1], {"t": "launch"}, {"a": {"b": [1]}}, [[1, 0]], {"": None}),
)
TYPED: dict[Any, tuple[Any, ...]] = {
    int: (-1, 0, 1, 9, 600, 2**31, 2**63 - 1),
    float: (-1.0, 0.0, 1e-9, 3600.0, 1e308),
    str: ("", "x", "../../etc/passwd", "/", "a\0b", "-x", "root", "9" * 5000, "batch", "tasks", "hold"),
    bool: (True, False),
}
"""Values of the right type, which pass the decoder."""
MESSAGE_TYPES: list[Any] = [
    each
    for module in (wire, stepwire)
    for each in vars(module).values()
    if dataclasses.is_dataclass(each) and isinstance(getattr(each, "t", None), str)
]
TAGS: dict[str, dict[str, Any]] = {each.t: typing.get_type_hints(each) for each in MESSAGE_TYPES}
ENDS_THE_AGENT = {wire.Quit.t}
"""A message that is meant to end the agent."""


@pytest.fixture
def agent(short_tmp: Path) -> Iterator[AgentProcess]:
    with agent_of_root(short_tmp) as agent_process:
        yield agent_process


def junk_message(rng: random.Random) -> bytes:
    """Return a message of a known type whose fields have values of any kind, or bytes that are no message."""
    kind = rng.randrange(8)
    if kind == 0:
        return data_frame(rng.choice((0, 1, 9, 2**31)), rng.randbytes(rng.randrange(2000)))
    if kind == 1:
        return json_frame(rng.choice(({}, {"t": "nothing"}, {"t": 7}, {"t": ["launch"]})))
    tag = rng.choice([tag for tag in sorted(TAGS) if tag not in ENDS_THE_AGENT])
    well_typed = kind > 3
    fields = {
        name: rng.choice(TYPED[hint] if well_typed else JUNK)
        for name, hint in TAGS[tag].items()
        if name != "t" and (hint in TYPED or not well_typed) and rng.random() < 0.95
    }
    return json_frame({"t": tag, **fields})


def raw_bytes(rng: random.Random) -> bytes:
    """Return bytes that break the framing."""
    return rng.choice(
        (
            rng.randbytes(rng.randrange(1, 5000)),
            (MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"J",
            (100).to_bytes(4, "big") + b"Z" + b"x" * 100,
            (3).to_bytes(4, "big") + b"J" + b"{]}",
            (2**20).to_bytes(4, "big") + b"J" + b"[" * 2**20,
            b"",
        )
    )


def send_and_drain(link: socket.socket, data: bytes) -> None:
    """Send as much as the agent takes, and read its answers, so that neither side waits."""
    link.settimeout(2.0)
    with contextlib.suppress(OSError):
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        while link.recv(1 << 16):
            continue


def test_no_other_user_can_connect(agent: AgentProcess) -> None:
    path = agent.folder / "agent.sock"
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    with as_uid(BOB), socket.socket(socket.AF_UNIX) as link, pytest.raises(PermissionError):
        link.connect(str(path))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_bytes_on_the_socket_stop_the_agent_or_a_job(agent: AgentProcess, seed: int) -> None:
    rng = random.Random(seed)
    agent.launch(500, "while :; do sleep 0.2; done")
    running = agent.link.report(500, "running")
    assert agent.process is not None
    before_mb = rss_mb(agent.process.pid)
    for number in range(CONNECTIONS):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(agent.folder / "agent.sock"))
            if number % 3 == 0:
                send_and_drain(link, raw_bytes(rng))
                continue
            hello = json_frame({"t": "hello", "controller_id": "test"}) if number % 3 == 1 else b""
            send_and_drain(link, hello + b"".join(junk_message(rng) for _ in range(MESSAGES)))
    assert rss_mb(agent.process.pid) - before_mb < MAX_GROWTH_MB
    assert os.path.exists(f"/proc/{agent.process.pid}"), "the agent still runs"
    log = (agent.folder / "agent.log").read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    agent.connect()
    assert agent.run(501, "echo served").exit_code == 0
    assert agent.text(501) == "served"
    with contextlib.closing(Link(agent.folder)) as link:
        found = {report.job_id: report.phase for report in link.greet().jobs}
    assert found[500] == running.phase
