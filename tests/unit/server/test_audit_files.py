"""The files of the audit log: their order, their size, and writes that fail."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpdeck.protocol.site_rows import AuditEntry, AuditOutcome
from warpdeck.server.audit import log_file
from warpdeck.server.audit.log_file import AuditLog


def entry(user: str = "ann", **fields: Any) -> AuditEntry:
    plain: dict[str, Any] = {
        "number": 0,
        "at": 1.0,
        "uid": 1,
        "request": "hold",
        "outcome": AuditOutcome.DONE,
    }
    return AuditEntry(**{**plain, "user": user, **fields})


def numbers(audit: AuditLog) -> list[int]:
    return [each.number for each in audit.newest()]


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size`. The kernel then writes a part of the data, and fails later."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_entries_of_both_files_are_read_in_one_order_and_continue_after_a_restart(tmp_path: Path) -> None:
    first = AuditLog(str(tmp_path))
    for of_site in (True, False, False, True):
        first.append(entry(), of_site=of_site)
    first.close()
    second = AuditLog(str(tmp_path))
    second.append(entry(), of_site=False)
    assert numbers(second) == [5, 4, 3, 2, 1]
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("audit.jsonl", "audit-jobs.jsonl")] == [
        0o600
    ] * 2


def test_a_flood_of_entries_of_users_keeps_bounded_files_and_all_entries_of_administrators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_FILE_BYTES", 1000)
    monkeypatch.setattr(log_file, "MAX_OLD_FILES", 3)
    audit = AuditLog(str(tmp_path))
    audit.append(entry("root"), of_site=True)
    for _ in range(500):
        audit.append(entry("mallory"), of_site=False)
    assert numbers(audit)[-1] == 1
    found = numbers(audit)[:-1]
    assert found == list(range(501, 501 - len(found), -1)) and len(found) > 20
    assert len(list(tmp_path.glob("audit-jobs.jsonl*"))) == 4
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())


def test_lines_of_users_stay_one_line_each(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path))
    audit.append(entry("a\nb\0\x1b[31m", reason='"}\n{"number":9}'), of_site=False)
    text = (tmp_path / "audit-jobs.jsonl").read_text()
    assert text.count("\n") == 1 and "\x1b" not in text
    assert next(audit.newest()).user == "a\nb\0\x1b[31m"


def test_a_full_disk_loses_entries_says_so_and_leaves_readable_files(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path))
    audit.append(entry(), of_site=True)
    path = tmp_path / "audit.jsonl"
    with full_disk(path.stat().st_size + 30):
        audit.append(entry(), of_site=True)
        audit.append(entry(), of_site=True)
        assert audit.lost == 2 and "audit.jsonl" in audit.problem
    audit.append(entry(), of_site=True)
    assert (audit.lost, audit.problem) == (0, "")
    assert numbers(audit) == [4, 1]


def test_an_unfinished_line_of_a_killed_controller_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    first = AuditLog(str(tmp_path))
    first.append(entry(), of_site=True)
    first.close()
    path = tmp_path / "audit.jsonl"
    path.write_bytes(path.read_bytes() + b'{"number":2,"at":')
    second = AuditLog(str(tmp_path))
    second.append(entry(), of_site=True)
    assert numbers(second) == [2, 1]


def test_a_deleted_file_is_made_again(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path))
    audit.append(entry(), of_site=True)
    os.unlink(tmp_path / "audit.jsonl")
    audit.append(entry(), of_site=True)
    assert numbers(audit) == [2]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("")
    (tmp_path / "audit.jsonl").symlink_to(target)
    audit = AuditLog(str(tmp_path))
    audit.append(entry(), of_site=True)
    assert audit.lost == 1 and target.read_text() == ""
