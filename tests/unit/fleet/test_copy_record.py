"""The ledger of copied output: after a killed controller, the next one requests exactly the next byte."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from warpdeck.fleet.copy_record import CopyRecord

PIECES = st.lists(
    st.tuples(st.integers(1, 200), st.sampled_from(["announced", "half written", "written", "settled"])),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(pieces=PIECES, old=st.integers(0, 100))
def test_a_kill_at_any_point_neither_loses_nor_repeats_a_byte(
    pieces: list[tuple[int, str]], old: int
) -> None:
    source = bytes(index % 251 for index in range(4096))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "out")
        file.write_bytes(b"o" * old)
        for size, killed in pieces:
            ledger = CopyRecord(os.path.join(folder, "ledger"))
            ledger.advance(file.stat().st_size)
            piece = source[ledger.offset : ledger.offset + size]
            ledger.begin_piece(len(piece), length=file.stat().st_size)
            if killed != "announced":
                with file.open("ab") as out:
                    out.write(piece[: size // 2] if killed == "half written" else piece)
            if killed == "settled":
                ledger.advance(file.stat().st_size)
            ledger.close()
        last = CopyRecord(os.path.join(folder, "ledger"))
        last.advance(file.stat().st_size)
        last.close()
        assert file.read_bytes() == b"o" * old + source[: last.offset]


def test_a_finished_ledger_stays_finished(tmp_path: Path) -> None:
    ledger = CopyRecord(str(tmp_path / "ledger"))
    assert ledger.is_new and not ledger.is_done
    ledger.finish()
    ledger.close()
    again = CopyRecord(str(tmp_path / "ledger"))
    assert again.is_done and not again.is_new
    again.close()


def test_an_incomplete_ledger_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("12 3")
    ledger = CopyRecord(str(tmp_path / "ledger"))
    assert (ledger.offset, ledger.is_done) == (0, False)
    ledger.close()
