"""Frames can be read in arbitrary pieces, and invalid frames are rejected before they are buffered."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import (
    BINARY,
    JSON,
    MAX_FRAME_BYTES,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    pack,
    parse_json,
    read_frame,
    split_data,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=4), st.integers(1, 7))
def test_messages_are_decoded_from_pieces_of_any_size(messages: list[dict[str, Any]], size: int) -> None:
    sent = [{**message, "t": "x"} for message in messages]
    data = b"".join(json_frame(message) for message in sent)
    decoder = FrameDecoder()
    got = [frame for start in range(0, len(data), size) for frame in decoder.feed(data[start : start + size])]
    assert [parse_json(payload) for kind, payload in got if kind == JSON] == sent


@given(st.integers(0, 2**32 - 1), st.binary())
def test_data_frames_are_decoded_unchanged(stream: int, data: bytes) -> None:
    [(kind, payload)] = FrameDecoder().feed(data_frame(stream, data))
    assert kind == BINARY and split_data(payload) == (stream, data)


@given(st.binary(min_size=5))
def test_random_bytes_never_crash_the_decoder(noise: bytes) -> None:
    try:
        for kind, payload in FrameDecoder(max_bytes=1024).feed(noise):
            if kind == JSON:
                parse_json(payload)
            else:
                split_data(payload)
    except WireError:
        return


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GET / HTTP/1.1\r\n", "not a warpdeck frame"),
        (struct.pack(">IB", 2**30, JSON), "over the limit"),
        (struct.pack(">IB", MAX_FRAME_BYTES + 1, BINARY), "over the limit"),
        (struct.pack(">IB", 0, 0), "kind byte 0x00"),
    ],
)
def test_an_invalid_header_is_refused_at_once(data: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        list(FrameDecoder().feed(data))


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"1", b'{"t":1}', b"{}", b"\xff", b'{"t":"x"', b"[" * 100_000]
)
def test_an_invalid_message_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        parse_json(payload)


def test_a_frame_above_the_size_limit_is_not_sent() -> None:
    with pytest.raises(WireError, match="over the limit"):
        pack(BINARY, b"x" * (MAX_FRAME_BYTES + 1))
    with pytest.raises(WireError, match="without a stream id"):
        split_data(b"abc")


async def test_an_incomplete_frame_is_an_error() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(json_frame({"t": "x"})[:-1])
    reader.feed_eof()
    with pytest.raises(asyncio.IncompleteReadError):
        await read_frame(reader)


@pytest.mark.parametrize(
    "message",
    [
        wire.Hello(controller_id="c"),
        wire.Launch(
            job_id=1, restarts=0, user="a", uid=1, role="batch", env={"A": "ü"}, cwd="/", cwd_visible=True
        ),
        wire.Kill(job_id=1, restarts=2, signal=10),
        wire.JobReport(job_id=1, restarts=0, phase="exited", exit_code=3, peak_mem_bytes=5, cpu_seconds=0.5),
        wire.Welcome(build="b", inventory=wire.Inventory(hostname="h", boot_id="b", cpus=1, mem_bytes=2)),
        wire.Sample(
            at_unix=1.0,
            cpu_pct=2.0,
            mem_used_bytes=3,
            gpus=[wire.GpuSample(index=0, util_pct=None, temp_c=40)],
        ),
    ],
)
def test_messages_of_the_agent_are_decoded_unchanged(message: Any) -> None:
    assert wire.decode(parse_json(json_frame(wire.encode(message))[5:])) == message


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"t": "nonsense"}, "unknown message 'nonsense'"),
        ({"t": "kill", "job_id": "1", "restarts": 0}, "kill.job_id: expected int"),
        ({"t": "kill", "job_id": True, "restarts": 0}, "expected int"),
        ({"t": "kill", "job_id": 1}, "restarts"),
        ({"t": "launch", "env": {"A": 1}}, "expected values of str"),
        ({"t": "welcome", "inventory": []}, "expected an object"),
    ],
)
def test_an_invalid_field_is_named(message: dict[str, Any], words: str) -> None:
    with pytest.raises(WireError, match=words):
        wire.decode(message)


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert wire.decode({"t": "forget", "job_id": 1, "restarts": 0, "new": 5}) == wire.Forget(
        job_id=1, restarts=0
    )
