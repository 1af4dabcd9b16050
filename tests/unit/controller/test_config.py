"""config.toml: every default stands without it; what is wrong in it is told with file, line and key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpdeck.controller.config import Config, load_config
from warpdeck.errors import UserError

README = Path(__file__).parents[3] / "README.md"


def test_without_a_file_the_defaults_stand(tmp_path: Path) -> None:
    assert load_config(str(tmp_path / "config.toml")) == Config()


def test_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# ours\ngrace_s = 5\nkeep_finished_s = 60.5\navoid_foreign_gpu_processes = false\n")
    assert load_config(str(path)) == Config(
        grace_s=5, keep_finished_s=60.5, avoid_foreign_gpu_processes=False
    )


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"# x\n\ngrace = 5\n", "line 3: there is no setting 'grace'", "did you mean grace_s?"),
        (b"zzz = 5\n", "line 1: there is no setting 'zzz'", "the keys are grace_s"),
        (b"grace_s = 5\n[nodes]\na = 1\n", "line 2: there is no setting 'nodes'", "the keys are"),
        (b"\ngrace_s = 'long'\n", "line 2: grace_s: expected `float`, got `str`", "README"),
        (b"grace_s = -1\n", "line 1: grace_s: expected `float` >= 0", "README"),
        (b"default_time_limit_s = 5\n", "line 1: default_time_limit_s: expected `int` >= 60", "README"),
        (b"grace_s = \n", "is no TOML: Invalid value (at line 1", "correct it"),
        (b"grace_s = 1\ngrace_s = 2\n", "is no TOML: Cannot overwrite a value (at line 2", "correct it"),
        (b"\xff\xfe", "is no TOML", "correct it"),
        (b"#" * (1024 * 1024 + 1), "is over 1 MiB", "settings file"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_key(
    tmp_path: Path, data: bytes, message: str, hint: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        load_config(str(path))
    assert str(path) in caught.value.message and message in caught.value.message
    assert hint in caught.value.hint


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(UserError, match="cannot read"):
        load_config(str(tmp_path / "config.toml"))


def test_the_readme_lists_every_setting_with_its_default() -> None:
    listed = dict(re.findall(r"^    (\w+) = (\S+)", README.read_text(), flags=re.MULTILINE))
    assert set(listed) == set(Config.__struct_fields__)
    for name in Config.__struct_fields__:
        default = getattr(Config(), name)
        shown = {None: "3600", True: "true", False: "false"}.get(default, f"{default:g}" if default else "")
        assert listed[name] == shown, name
