"""The buffer of log lines behaves like a plain list, for any arrival of bytes and any removal of old lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck_tui.widgets.log.line_buffer import BLOCK_BYTES, MAX_LINE_BYTES, LogLines
from warpdeck_tui.widgets.log.search import TROUBLE, matching_lines, words
from warpdeck_tui.widgets.log.text import PAGE_BYTES, LogText

CHUNKS = st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b" "])).map(b"".join))


def expected(data: bytes) -> list[bytes]:
    """Return the expected lines. A line starts after its last carriage return that is followed by text."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip(b"\r").rsplit(b"\r", 1)[-1] for line in lines]


def all_of(lines: LogLines) -> list[bytes]:
    return [lines.line(number) for number in range(lines.first, lines.end)]


@given(CHUNKS, st.booleans())
def test_lines_do_not_depend_on_the_chunks_of_bytes(chunks: list[bytes], look: bool) -> None:
    lines = LogLines()
    for chunk in chunks:
        lines.append(chunk)
        if look:
            assert lines.end >= lines.first
    assert all_of(lines) == expected(b"".join(chunks))
    assert lines.end_bytes == sum(map(len, chunks))


@given(st.lists(st.sampled_from([b"a\n", b"bb\rcc\n", b"\n", b"longer line\r\n"])), st.integers(0, 100))
def test_prepended_bytes_come_first(parts: list[bytes], cut: int) -> None:
    cut = min(cut, len(parts))
    lines = LogLines()
    lines.clear(at_bytes=sum(map(len, parts[:cut])))
    lines.append(b"".join(parts[cut:]))
    for part in reversed(parts[:cut]):
        lines.prepend(part)
    assert all_of(lines) == expected(b"".join(parts))
    assert lines.start_bytes == 0


def test_memory_is_limited_for_any_input() -> None:
    bound = 4 * BLOCK_BYTES
    lines = LogLines(max_bytes=bound)
    for data in (b"x\n", b"no end ", b"progress\r", b"\x00\xff\n\n\n"):
        for _ in range(40):
            lines.append(data * (200_000 // len(data)))
        assert len(lines.text()) <= bound + 2 * MAX_LINE_BYTES
    assert lines.end_bytes == lines.start_bytes + (lines.end_bytes - lines.start_bytes)
    assert lines.first > 0


def test_the_newest_lines_are_removed_when_the_buffer_grows_at_the_front() -> None:
    lines = LogLines(max_bytes=4 * BLOCK_BYTES)
    page = b"y" * 1023 + b"\n"
    lines.clear(at_bytes=100 * BLOCK_BYTES)
    lines.append(b"live\nunfinished")
    for _ in range(8):
        lines.prepend(page * (BLOCK_BYTES // len(page)))
    assert lines.start_bytes == 92 * BLOCK_BYTES
    assert lines.end_bytes < 97 * BLOCK_BYTES
    assert set(all_of(lines)) == {page[:-1]}


def test_a_line_without_an_end_is_split() -> None:
    lines = LogLines()
    lines.append(b"z" * (3 * MAX_LINE_BYTES + 7))
    assert [len(line) for line in all_of(lines)] == [MAX_LINE_BYTES] * 3 + [7]
    assert lines.end_bytes == 3 * MAX_LINE_BYTES + 7


def test_a_buffer_that_starts_inside_a_line_skips_its_rest() -> None:
    lines = LogLines()
    lines.clear(at_bytes=1000, in_line=True)
    lines.append(b"rest of")
    assert all_of(lines) == []
    lines.append(b" a line\nwhole\n")
    assert all_of(lines) == [b"whole"]
    assert lines.start_bytes == 1000 + len(b"rest of a line\n")


@given(st.lists(st.sampled_from([b"a", b"\n", b"needle", b"\x1b[31m"])).map(b"".join))
def test_matching_lines_contain_the_text(data: bytes) -> None:
    found = matching_lines(data, re.compile(b"needle"))
    plain = data.replace(b"\x1b[31m", b"")
    assert found == [number for number, line in enumerate(plain.split(b"\n")) if b"needle" in line]


@pytest.mark.parametrize(
    "line",
    [
        b"Traceback (most recent call last):",
        b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        b"RuntimeError: CUDA error: an illegal memory access was encountered",
        b"node1:7:7 [0] NCCL WARN Call to ibv_modify_qp failed",
        b"epoch 3 loss=nan acc=0.1",
        b"epoch 3 loss: NaN",
        b"slurmstepd: error: Detected 1 oom-kill event(s) in step",
        b"Killed",
        b"Segmentation fault (core dumped)",
        b"[rank3]: Watchdog caught collective operation timeout",
    ],
)
def test_error_lines_are_recognized(line: bytes) -> None:
    assert TROUBLE.data.search(line) and TROUBLE.text.search(line.decode())


@pytest.mark.parametrize(
    "line", [b"epoch 3 loss=0.31", b"0 errors", b"finance banana nanoseconds", b"NCCL INFO ready"]
)
def test_harmless_lines_are_not_taken_for_errors(line: bytes) -> None:
    assert not TROUBLE.data.search(line)


def test_a_capital_letter_makes_the_search_case_sensitive() -> None:
    assert words("error").data.search(b"ERROR (x)")
    assert not words("Error").data.search(b"ERROR")
    assert words("a(b").data.search(b"A(B")


@given(
    st.lists(st.sampled_from([b"short\n", b"needle\n", b"x" * 700 + b"\n"]), min_size=1, max_size=40),
    st.integers(0, 40),
    st.booleans(),
)
async def test_reading_a_file_backwards_and_forwards_loses_nothing(
    parts: list[bytes], fed_parts: int, forward: bool
) -> None:
    whole = b"".join(parts) * (1 + 2 * PAGE_BYTES // 20_000)
    at_bytes = len(whole) - sum(map(len, parts[:fed_parts]))

    async def read(start: int, size: int, /) -> bytes:
        return whole[start : start + size]

    text = LogText()
    text.clear(at_bytes=at_bytes, read=read)
    text.feed(whole[at_bytes:])
    if forward:
        text.to_start()
        while await text.read_after():
            pass
    else:
        while await text.read_before():
            pass
    assert all_of(text.lines) == expected(whole)
    assert text.at_start and text.at_end


async def test_new_lines_at_the_end_are_read_from_the_file_later() -> None:
    file = bytearray(b"".join(b"old %d\n" % number for number in range(100_000)))

    async def read(start: int, size: int, /) -> bytes:
        return bytes(file[start : start + size])

    text = LogText()
    text.clear(at_bytes=len(file), read=read)
    text.to_start()
    assert await text.read_after()
    file += b"new\n"
    text.feed(b"new\n")
    assert text.lines.text() == bytes(file[:PAGE_BYTES])
    while await text.read_after():
        pass
    assert text.lines.text() == bytes(file)


@pytest.mark.parametrize("method", ["read_before", "read_after"])
async def test_a_page_read_for_an_old_position_is_ignored(method: str) -> None:
    whole = b"".join(b"line %d\n" % number for number in range(100_000))

    async def read(start: int, size: int, /) -> bytes:
        text.clear(at_bytes=1000, read=read)
        return whole[start : start + size]

    text = LogText()
    text.clear(at_bytes=len(whole), read=read)
    if method == "read_after":
        text.to_start()
    assert await getattr(text, method)()
    assert text.lines.text() == b""
