"""Records of launches: a reused record inherits nothing, and an incomplete exit status counts as none."""

from __future__ import annotations

from pathlib import Path

from warpdeck_agent.storage.launch_table import MESSAGE, PROCESS, STATUS, LaunchTable


def test_a_reused_record_inherits_nothing(tmp_path: Path) -> None:
    table = LaunchTable(str(tmp_path / "table"))
    before = table.take()
    before.begin((1, 0), "{}")
    for field, text in ((PROCESS, "17 1"), (STATUS, "1 0 end"), (MESSAGE, "no such folder")):
        before.put(field, text)
    assert (before.process(), before.end()) == ((17, True), ((1, 0), "no such folder"))
    table.release(before)
    after = table.take()
    assert after.number == before.number and after.key() is None
    after.begin((2, 0), "{}")
    assert (after.key(), after.process(), after.end()) == ((2, 0), (0, False), (None, ""))


def test_an_incomplete_status_counts_as_none(tmp_path: Path) -> None:
    record = LaunchTable(str(tmp_path / "table")).take()
    record.begin((1, 0), "{}")
    for text in ("0 0", "0 0 en", "1000 0 end", "0 0 end end"):
        record.put(STATUS, text)
        assert record.end() == (None, "")
    record.put(STATUS, "0 9 end")
    assert record.status() == (0, 9)
