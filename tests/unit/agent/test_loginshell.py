"""What is taken of a user's start files."""

from __future__ import annotations

import os
from pathlib import Path

from warpdeck_agent.loginshell import login_environment


def asked(home: Path, text: str) -> dict[str, str]:
    for name in (".bash_profile", ".profile", ".zprofile"):
        (home / name).write_text(text)
    return login_environment(os.getuid(), home=str(home), mark={"WARPDECK_JOB": "m"}, drop={})


def test_what_start_files_print_and_how_variables_look_does_no_harm(tmp_path: Path) -> None:
    found = asked(tmp_path, "echo hello\necho NOT=this\nexport LINES_OF='a\nb=c' OWN=1\n")
    assert (found["LINES_OF"], found["OWN"]) == ("a\nb=c", "1")
    assert "hello" not in found and "WARPDECK_JOB" not in found and "PWD" not in found


def test_start_files_that_fail_give_nothing(tmp_path: Path) -> None:
    assert asked(tmp_path, "exit 3\n") == {}
