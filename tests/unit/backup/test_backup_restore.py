"""Backups, their archives, and restores, without a controller."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import os
import sqlite3
import stat
import tarfile
from pathlib import Path

import msgspec
import pytest
from tests.support.home_state import SCHEMAS, change, job_ids, make_home, next_job_id

from warpdeck.backup.create import Backup, make_backup
from warpdeck.backup.manifest import generation_name
from warpdeck.backup.pending import finish_moves
from warpdeck.backup.restore import Restored, restore
from warpdeck.backup.staging import PREFIX
from warpdeck.backup.verify import verify
from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.model.recovery import Recovery
from warpdeck.store.migration import SCHEMA


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "backups"
    made.mkdir()
    return made


def back_up(home: Path, target: Path, *, keep: int = 0, keys: bool = False, trees: bool = False) -> Backup:
    return make_backup(
        Paths(str(home)), str(target), keep=keep, with_keys=keys, with_trees=trees, show=lambda text: None
    )


def put_back(home: Path, source: Path, *, force: bool = False) -> Restored:
    return restore(Paths(str(home)), str(source), force=force, show=lambda text: None)


def check(home: Path, source: Path) -> int:
    return len(verify(Paths(str(home)), str(source), show=lambda text: None).problems)


def members(archive: str | Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def test_a_backup_contains_what_was_asked_for_and_only_its_owner_reads_it(home: Path, folder: Path) -> None:
    plain, full = folder / "plain", folder / "full"
    made = back_up(home, plain)
    assert members(plain) == ["state.db", "config.toml", "known_hosts", "manifest.json"]
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600
    assert made.manifest.counters.highest_job_id == 10
    back_up(home, full, keys=True, trees=True)
    assert set(members(full)) - set(members(plain)) == {"ssh/id_ed25519", "trees/1000/abc.tar.gz"}
    assert sorted(os.listdir(folder)) == ["full", "plain"]


def test_an_existing_file_is_not_replaced(home: Path, folder: Path) -> None:
    (folder / "thesis.tex").write_text("text")
    with pytest.raises(UserError, match=r"thesis\.tex exists"):
        back_up(home, folder / "thesis.tex")
    assert (folder / "thesis.tex").read_text() == "text"


def test_a_folder_keeps_the_last_backups_of_this_site(home: Path, folder: Path) -> None:
    site = back_up(home, folder / "x").manifest.counters.controller_id
    old = [generation_name(at, site) for at in (1e9, 2e8, 3e8)]
    kept = [generation_name(1e8, "0" * 32), "warpdeck-notes.txt", "x"]
    for name in old + kept:
        (folder / name).touch()
    made = back_up(home, folder, keep=2)
    assert sorted(made.deleted) == sorted(str(folder / name) for name in old[1:])
    assert set(os.listdir(folder)) == {*kept, old[0], os.path.basename(made.file)}


@pytest.mark.root
def test_files_of_other_users_and_links_are_no_backups(home: Path, folder: Path) -> None:
    made = back_up(home, folder)
    foreign, link = (generation_name(at, made.manifest.counters.controller_id) for at in (4e9, 4.1e9))
    (folder / foreign).touch()
    os.chown(folder / foreign, 65534, 65534)
    (folder / link).symlink_to("/etc/passwd")
    assert put_back(home, folder).source == made.file
    assert back_up(home, folder, keep=2).deleted == ()


def test_the_home_of_a_gateway_is_refused(home: Path, folder: Path) -> None:
    (home / "engine").write_text("slurm\n")
    for work in (back_up, put_back):
        with pytest.raises(UserError, match="belongs to a gateway to Slurm"):
            work(home, folder)


def test_folders_of_killed_backups_are_deleted_and_those_in_use_stay(home: Path, folder: Path) -> None:
    for name in ("killed", "used"):
        (folder / f"{PREFIX}{name}").mkdir()
        (folder / f"{PREFIX}{name}" / "state.db").touch()
    (folder / f"{PREFIX}link").symlink_to(home)
    lock = os.open(folder / f"{PREFIX}used", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    back_up(home, folder / "x")
    os.close(lock)
    assert set(os.listdir(folder)) == {"x", f"{PREFIX}used", f"{PREFIX}link"}
    assert (home / "state.db").exists()


def test_commits_during_a_backup_are_neither_delayed_nor_in_it(home: Path, folder: Path) -> None:
    commits = 0
    with contextlib.closing(sqlite3.connect(home / "state.db", timeout=0.0, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executemany("INSERT INTO journal (at, job_id, text) VALUES (0, 1, ?)", [("x" * 4000,)] * 500)

        def commit(text: str) -> None:
            nonlocal commits
            if text.startswith("database "):
                db.execute("UPDATE meta SET value = ? WHERE key = 'next_job_id'", (str(100 + commits),))
                commits += 1

        made = make_backup(Paths(str(home)), str(folder / "x"), show=commit)
    assert commits >= 4  # each one between two steps, with no time to wait for a lock
    assert made.manifest.counters.next_job_id == 11
    assert check(home, folder / "x") == 0


def test_a_restore_brings_back_the_state_and_keeps_the_replaced_one(home: Path, folder: Path) -> None:
    back_up(home, folder / "x", keys=True, trees=True)
    change(home, "DELETE FROM jobs WHERE id = 10", "UPDATE meta SET value = '50' WHERE key = 'next_job_id'")
    (home / "config.toml").write_text("grace_s = 20\n")
    (home / "ssh" / "id_ed25519").write_text("newer\n")
    (home / "trees" / "1000" / "abc.tar.gz").unlink()
    (home / "trees" / "1000" / "def.tar.gz").write_text("newer\n")
    done = put_back(home, folder / "x")
    assert (job_ids(home), (home / "config.toml").read_text()) == (list(range(1, 11)), "grace_s = 10\n")
    assert (home / "ssh" / "id_ed25519").read_text() == "private\n"
    assert sorted(os.listdir(home / "trees" / "1000")) == ["abc.tar.gz", "def.tar.gz"]
    assert next_job_id(home) == 50, "ids that were given out are not given out again"
    assert done.before is not None
    assert (done.before.jobs, done.backup.next_job_id, done.after.next_job_id) == (9, 11, 50)
    replaced = Path(done.replaced)
    assert (job_ids(replaced), (replaced / "config.toml").read_text()) == (
        list(range(1, 10)),
        "grace_s = 20\n",
    )
    put_back(home, replaced)
    assert (job_ids(home), (home / "config.toml").read_text()) == (list(range(1, 10)), "grace_s = 20\n")


def test_the_log_of_the_replaced_database_does_not_spoil_the_new_one(home: Path, folder: Path) -> None:
    back_up(home, folder / "x")
    with contextlib.closing(
        sqlite3.connect(home / "state.db")
    ) as db:  # a controller that is killed leaves its log
        db.execute("DELETE FROM jobs WHERE id > 5")
        db.commit()
        saved = {suffix: (home / f"state.db{suffix}").read_bytes() for suffix in ("", "-wal")}
    for suffix, data in saved.items():
        (home / f"state.db{suffix}").write_bytes(data)
    done = put_back(home, folder / "x")
    assert job_ids(home) == list(range(1, 11))
    assert job_ids(Path(done.replaced)) == list(range(1, 6))


def test_a_backup_without_configuration_removes_the_present_one(home: Path, folder: Path) -> None:
    (home / "config.toml").unlink()
    back_up(home, folder / "x")
    (home / "config.toml").write_text("grace_s = 20\n")
    done = put_back(home, folder / "x")
    assert not (home / "config.toml").exists()
    assert (Path(done.replaced) / "config.toml").exists()


def test_a_new_home_gets_the_state_of_the_newest_backup(home: Path, folder: Path, tmp_path: Path) -> None:
    site = back_up(home, folder).manifest.counters.controller_id
    (folder / generation_name(1e9, site)).write_text("older, and not readable")
    done = put_back(tmp_path / "new", folder)
    assert (done.before, job_ids(tmp_path / "new")) == (None, list(range(1, 11)))


def test_the_counter_of_another_site_is_not_taken_over(home: Path, folder: Path) -> None:
    back_up(home, folder / "x")
    change(home, "UPDATE meta SET value = 'other' WHERE key = 'controller_id'")
    change(home, "UPDATE meta SET value = '500' WHERE key = 'next_job_id'")
    assert put_back(home, folder / "x").after.next_job_id == 11


def test_a_restored_database_can_shrink_and_a_standby_begins_anew(home: Path, folder: Path) -> None:
    change(
        home,
        "INSERT INTO meta VALUES ('batch', '7 abc')",
        "UPDATE requests SET data = data || zeroblob(9000)",
    )
    back_up(home, folder / "x")
    put_back(home, folder / "x", force=True)
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
        assert db.execute("PRAGMA freelist_count").fetchone()[0] == 0
        assert db.execute("SELECT COUNT(*) FROM meta WHERE key = 'batch'").fetchone()[0] == 0


def test_the_secret_of_the_site_is_kept_if_the_backup_has_none(home: Path, folder: Path) -> None:
    change(home, "DELETE FROM meta WHERE key = 'site_secret'")
    back_up(home, folder / "x")
    change(home, "INSERT INTO meta VALUES ('site_secret', 'abc')")
    put_back(home, folder / "x")
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'site_secret'").fetchone() == ("abc",)


def test_ids_after_the_backup_are_recorded_as_lost(home: Path, folder: Path) -> None:
    change(
        home, """INSERT OR REPLACE INTO meta VALUES ('recovery', '{"lost_ids": [[3, 4]], "since_unix": 5}')"""
    )
    back_up(home, folder / "x")
    change(home, "UPDATE meta SET value = '50' WHERE key = 'next_job_id'")
    put_back(home, folder / "x")
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        [record] = db.execute("SELECT value FROM meta WHERE key = 'recovery'").fetchone()
    recovery = msgspec.json.decode(record, type=Recovery)
    assert (recovery.lost_ids, recovery.since_unix) == (((3, 4), (11, 49)), 5)


def test_the_higher_epoch_is_kept(home: Path, folder: Path) -> None:
    change(home, """INSERT OR REPLACE INTO meta VALUES ('start', '{"epoch": 3}')""")
    back_up(home, folder / "x")
    change(home, """UPDATE meta SET value = '{"epoch": 8}' WHERE key = 'start'""")
    done = put_back(home, folder / "x")
    assert (done.backup.epoch, done.after.epoch) == (3, 8)


def test_a_restore_is_refused_while_a_controller_has_the_lock(home: Path, folder: Path) -> None:
    back_up(home, folder / "x")
    lock = take_lock(Paths(str(home)))
    with pytest.raises(UserError, match="a controller runs") as refused:
        put_back(home, folder / "x")
    os.close(lock)
    assert "warpdeck down" in refused.value.hint


def test_a_backup_with_problems_is_restored_only_by_force(home: Path, folder: Path) -> None:
    change(home, "DELETE FROM past WHERE id = 1")
    back_up(home, folder / "x")
    change(home, "DELETE FROM past WHERE id = 2")
    with pytest.raises(UserError, match=r"has 1 problem; the first: jobs 1: "):
        put_back(home, folder / "x")
    assert not list(home.glob("re*")), "nothing is left"
    assert put_back(home, folder / "x", force=True).problems == 1


def test_a_database_that_cannot_be_read_is_replaced(home: Path, folder: Path) -> None:
    back_up(home, folder / "x")
    (home / "state.db").write_bytes(b"noise" * 1000)
    (home / "state.db-wal").unlink(missing_ok=True)
    done = put_back(home, folder / "x")
    assert (done.before, job_ids(home)) == (None, list(range(1, 11)))
    assert (Path(done.replaced) / "state.db").read_bytes().startswith(b"noise")


def test_a_backup_of_an_earlier_schema_is_restored_as_it_is(home: Path, folder: Path, tmp_path: Path) -> None:
    back_up(make_home(tmp_path / "old", schema=SCHEMAS[4]), folder / "x")
    assert put_back(home, folder / "x").after.schema == 5


def test_a_backup_of_a_newer_schema_is_refused(home: Path, folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    back_up(home, folder / "x")
    for work in (put_back, check):
        with pytest.raises(UserError, match="is of a newer warpdeck"):
            work(home, folder / "x")


@pytest.mark.parametrize("lost", [1, 20, 600, 5000])
def test_an_archive_that_was_cut_off_is_refused(lost: int, home: Path, folder: Path) -> None:
    back_up(home, folder / "x")
    os.truncate(folder / "x", os.path.getsize(folder / "x") - lost)
    with pytest.raises(UserError, match=r"incomplete|not a complete backup"):
        put_back(home, folder / "x")
    assert job_ids(home) == list(range(1, 11))


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_damaged_archive_is_refused(place: float, home: Path, folder: Path) -> None:
    back_up(home, folder / "x")
    raw = bytearray(gzip.decompress((folder / "x").read_bytes()))
    index = raw.find(b"CREATE TABLE") if place < 0.5 else int(len(raw) * place * 0.9)
    raw[index] ^= 1
    (folder / "x").write_bytes(gzip.compress(bytes(raw)))
    with pytest.raises(UserError):
        check(home, folder / "x")


@pytest.mark.parametrize(
    "name",
    [
        "../state.db",
        "/etc/passwd",
        "ssh/../../x",
        "agent/identity",
        "state.db-wal",
        "trees/1000/../x",
        "ssh/..",
    ],
)
def test_an_archive_with_a_foreign_member_is_refused(name: str, home: Path, folder: Path) -> None:
    info = tarfile.TarInfo(name)
    info.size = 4
    with tarfile.open(folder / "x", "w:gz") as tar:
        tar.addfile(info, io.BytesIO(b"evil"))
    before = sorted(path.name for path in home.parent.rglob("*"))
    with pytest.raises(UserError, match="unexpected member"):
        put_back(home, folder / "x")
    assert sorted(path.name for path in home.parent.rglob("*") if path.name != "controller.lock") == before


def test_an_archive_with_a_link_is_refused(home: Path, folder: Path) -> None:
    info = tarfile.TarInfo("config.toml")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/shadow"
    with tarfile.open(folder / "x", "w:gz") as tar:
        tar.addfile(info)
    with pytest.raises(UserError, match="unexpected member"):
        put_back(home, folder / "x")


def test_backups_of_two_sites_in_one_folder_must_be_named(home: Path, folder: Path) -> None:
    for site in ("a" * 32, "b" * 32):
        (folder / generation_name(1e9, site)).touch()
    with pytest.raises(UserError, match="several sites"):
        put_back(home, folder)


def test_without_a_decided_restore_nothing_is_moved(home: Path) -> None:
    (home / "restore.new").mkdir()
    (home / "restore.new" / "state.db").write_text("half")
    assert not finish_moves(str(home))
    assert job_ids(home) == list(range(1, 11))


def test_a_manifest_of_a_newer_format_is_refused(home: Path, folder: Path) -> None:
    manifest = back_up(home, folder / "y").manifest
    newer = msgspec.structs.replace(manifest, format=2)
    text = msgspec.json.encode(newer)
    info = tarfile.TarInfo("manifest.json")
    info.size = len(text)
    with tarfile.open(folder / "x", "w:gz") as tar:
        tar.addfile(info, io.BytesIO(text))
    with pytest.raises(UserError, match="its format 2 is of a newer warpdeck"):
        check(home, folder / "x")
