"""Changes of config.toml on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import Config, ConfigError, load, rewrite
from warpdeck.model.config_edit import Amendment

HIGH = Amendment(path=("qos", "high"), values={"priority": 10})


def test_a_rewrite_keeps_comments_and_mode_and_saves_the_previous_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("grace_s = 5.0 # short\n")
    file.chmod(0o640)
    rewrite(str(file), [HIGH], in_force=load(str(file)).config)
    assert file.read_text() == "grace_s = 5.0 # short\n\n[qos.high]\npriority = 10\n"
    assert (tmp_path / "config.toml.before").read_text() == "grace_s = 5.0 # short\n"
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "config.toml.before"]


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    rewrite(str(file), [HIGH], in_force=Config())
    assert file.stat().st_mode & 0o777 == 0o600
    assert load(str(file)).config.qos["high"].priority == 10


def test_a_symbolic_link_stays_and_its_target_is_rewritten(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file, link = tmp_path / "etc" / "site.toml", tmp_path / "config.toml"
    file.touch()
    link.symlink_to(file)
    rewrite(str(link), [HIGH], in_force=Config())
    assert link.is_symlink() and "[qos.high]" in file.read_text()


def test_a_change_that_could_not_be_loaded_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("grace_s = 5.0\n")
    config = load(str(file)).config
    with pytest.raises(ConfigError, match="there is no QoS 'none'"):
        rewrite(str(file), [Amendment(path=("qos", "a"), values={"preempts": ["none"]})], in_force=config)
    with pytest.raises(UserError, match="changes that are not loaded yet"):
        rewrite(str(file), [HIGH], in_force=Config())
    assert os.listdir(tmp_path) == ["config.toml"] and file.read_text() == "grace_s = 5.0\n"


def test_a_failed_write_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "config.toml.new"
    folder.mkdir()
    with pytest.raises(UserError, match="cannot write"):
        rewrite(str(tmp_path / "config.toml"), [HIGH], in_force=Config())
