"""The controller's decoder and the agent's own agree on every message that an agent sends."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from warpdeck.fleet.field_limits import MAX_GPUS, MAX_KEYS, MAX_MEM_BYTES, MAX_NAME_CHARS
from warpdeck.fleet.inbound import decode
from warpdeck_agent.wire import WireError, json_frame
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.fields import limit_sizes
from warpdeck_agent.wire.steps import StepReport, TaskEnded

HEADER_BYTES = 5
REPORT = wire.JobReport(job_id=7, restarts=1, phase="running", pid=42, started_at=3, stdout_path="/tmp/é.out")
GPU = wire.GpuSample(index=0, util_pct=90, power_w=312.5, processes=[wire.GpuProcess(pid=9, mem_bytes=1)])
INVENTORY = wire.Inventory(
    hostname="n1", boot_id="b", cpus=2, mem_bytes=4, gpus=[wire.GpuInfo(0, "u", "H100", 80)]
)
MESSAGES = [
    REPORT,
    wire.Welcome(build="x", inventory=INVENTORY, jobs=[REPORT], pid=1, user="ann"),
    wire.Sample(at_unix=1.5, cpu_pct=3, mem_used_bytes=5, gpus=[GPU, wire.GpuSample(index=1, error="lost")]),
    wire.Moment(
        ask=3,
        begin_unix=60.0,
        step_s=60.0,
        since_unix=1.0,
        cpu_pct=2.5,
        mem_used_bytes=9,
        gpus=[GPU],
        strangers=[wire.Strangers(0, {"bob": 5, "": 6}, 7), wire.Strangers(1)],
    ),
    wire.LaunchFailed(job_id=1, restarts=0, message="no user"),
    wire.NeedTree(job_id=1, restarts=0, tree="abc"),
    wire.StreamOpened(stream=1, offset=2, size_bytes=3, path="/x"),
    wire.StreamEnd(stream=1, error="gone"),
    wire.StreamAck(stream=1, size=10),
    wire.PathProbed(probe=1, found=True),
]


def payload(message: Any) -> bytes:
    """Return the content of the frame."""
    return json_frame(wire.encode(message))[HEADER_BYTES:]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message.t))
def test_every_message_of_an_agent_is_decoded_unchanged(message: Any) -> None:
    assert decode(payload(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        wire.StreamOpened(stream=1, offset=0, size_bytes=0, path="/tmp/\udcff.out"),
        wire.Remark(job_id=1, restarts=0, text="removed /dev/shm/\udcff"),
        StepReport(job_id=1, restarts=0, step=0, phase="exited", message="MPI_Abort: \ud800"),
    ],
    ids=lambda message: str(message.t),
)
def test_text_that_is_not_utf8_becomes_storable_text(message: Any) -> None:
    """File names and program output may contain bytes that are not UTF-8; the store accepts only text."""
    data = payload(message)
    found = decode(data)
    assert msgspec.msgpack.encode(found) and "?" in str(found)
    assert found == decode(data.decode("utf-8", "surrogatepass").encode("utf-8", "replace"))
    assert decode(json.dumps(wire.encode(message)).encode()) == found, "as escapes, too"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"t": "nonsense"}', b'{"t": "stream_ack"}', b'{"t": "stream_ack", "stream": "x"}'],
)
def test_invalid_messages_raise_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


@pytest.mark.parametrize(
    "strangers",
    [
        [wire.Strangers(0, {"bob": MAX_MEM_BYTES + 1})],
        [wire.Strangers(0, {"bob": -1})],
        [wire.Strangers(0, {"b" * (MAX_NAME_CHARS + 1): 1})],
        [wire.Strangers(0, {str(number): 1 for number in range(MAX_KEYS + 1)})],
        [wire.Strangers(0)] * (MAX_GPUS + 1),
    ],
)
def test_more_foreign_gpu_users_than_possible_are_refused(strangers: list[wire.Strangers]) -> None:
    with pytest.raises(WireError):
        decode(payload(wire.Moment(ask=1, strangers=strangers)))


@pytest.mark.parametrize(
    "message",
    [
        wire.LaunchFailed(job_id=1, restarts=0, message="cannot run " + "x" * 1_000_000),
        StepReport(1, 0, 0, phase="exited", ends=[TaskEnded(rank=0, code=10**30)]),
        wire.StreamOpened(stream=1, offset=2**70, size_bytes=2**70),
        wire.JobReport(1, 0, phase="exited", system_s=float("nan"), ended_at=float("inf")),
    ],
    ids=lambda message: str(message.t),
)
def test_an_agent_can_make_any_message_acceptable(message: Any) -> None:
    encoded = wire.encode(message)
    with pytest.raises(WireError):
        decode(json_frame(encoded)[HEADER_BYTES:])
    assert type(message).__name__ in str(decode(json_frame(limit_sizes(encoded))[HEADER_BYTES:]))
    assert limit_sizes(wire.encode(REPORT)) == wire.encode(REPORT)
