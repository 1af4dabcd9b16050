"""An invalid message ends only its own connection, and the agent obeys the newest controller."""

from __future__ import annotations

import json
import struct

import pytest
from tests.support.agent import AgentProcess

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import json_frame
from warpdeck_agent.wire.opening import NOT_KEPT

HELLO = json_frame({"t": "hello", "controller_id": "c", "version": 1})


def frame(payload: bytes, kind: str = "J") -> bytes:
    return struct.pack(">IB", len(payload), ord(kind)) + payload


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not a warpdeck frame"),
        (struct.pack(">IB", 1 << 31, ord("J")), "over the limit"),
        (HELLO + struct.pack(">IB", 0xFFFFFFFF, ord("B")), "over the limit"),
        (frame(b"nope"), "not JSON"),
        (frame(b"[1]"), 'without a field "t"'),
        (frame(b"[" * 100_000), "not JSON"),
        (frame(json.dumps({"t": "launch_rockets"}).encode()), "unknown message"),
        (HELLO + frame(b'{"t":"kill","job_id":"x","restarts":0}'), "kill.job_id: expected int"),
        (HELLO + frame(b'{"t":"launch","job_id":1}'), "launch"),
        (HELLO + frame(b'{"t":"forget","job_id":true,"restarts":0}'), "expected int"),
        (HELLO + frame(b"ab", "B"), "without a stream id"),
    ],
)
def test_a_malformed_request_gets_an_error_and_closes_only_its_connection(
    shared: AgentProcess, data: bytes, text: str
) -> None:
    bad = shared.raw()
    bad.socket.sendall(data)
    assert text in bad.expect(wire.StreamEnd).error
    assert bad.closed()
    shared.connect()
    assert shared.run(shared.new_id(), "exit 3").exit_code == 3


def test_an_incomplete_frame_delays_no_others(agent: AgentProcess) -> None:
    half = agent.raw()
    half.socket.sendall(struct.pack(">IB", 1000, ord("J")) + b'{"t":')
    assert agent.run(1, "exit 3").exit_code == 3
    half.close()
    assert agent.run(2, "exit 4").exit_code == 4


def test_data_and_ends_of_unknown_streams_are_ignored(agent: AgentProcess) -> None:
    agent.link.send_data(77, b"for nobody")
    agent.link.send(
        wire.StreamEnd(stream=77),
        wire.StreamAck(stream=77, size=1),
        wire.ResizePty(stream=77, rows=1, cols=1),
        wire.Kill(job_id=77, restarts=0),
        wire.Forget(job_id=77, restarts=0),
    )
    assert agent.run(1, "exit 3").exit_code == 3


def test_a_new_connection_replaces_the_previous_controller(agent: AgentProcess) -> None:
    before = agent.link
    agent.connect()
    assert before.closed()
    assert agent.run(1, "exit 3").exit_code == 3


def test_a_log_is_streamed_from_an_offset_to_the_jobs_end(agent: AgentProcess) -> None:
    gate = agent.folder.parent / "gate"
    agent.launch(1, f"echo first; while [ ! -e {gate} ]; do sleep 0.05; done; echo last")
    agent.link.report(1, "running")
    agent.link.send(wire.OpenLog(stream=4, job_id=1, restarts=0, follow=True))
    agent.link.output(4, b"first\n")
    gate.touch()
    assert agent.link.expect(wire.StreamEnd).error == ""
    assert agent.link.data[4] == b"first\nlast\n"
    agent.link.send(wire.OpenLog(stream=5, job_id=1, restarts=0, offset=-5))
    agent.link.expect(wire.StreamEnd)
    assert agent.link.data[5] == b"last\n"


def test_the_log_of_an_unknown_job_is_refused(agent: AgentProcess) -> None:
    agent.link.send(wire.OpenLog(stream=4, job_id=9, restarts=0))
    assert agent.link.expect(wire.StreamEnd).code == NOT_KEPT
