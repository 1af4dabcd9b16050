"""The app draws only ASCII if the locale or the terminal requires it, unless an option or a setting decides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpdeck.cli.parser import parse
from warpdeck.cli.verbs.app import APP, app_options
from warpdeck_tui.entry import Options, plain_signs
from warpdeck_tui.terminal.ascii_fallback import as_started, lacks_signs
from warpdeck_tui.user_files.settings import Settings


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, ""),
        ({"LANG": "de_DE.UTF-8"}, ""),
        ({"LANG": "C.utf8", "TERM": "screen-256color"}, ""),
        ({"LC_CTYPE": "UTF-8", "LANG": "C"}, ""),
        ({"LANG": "C"}, "LANG=C"),
        ({"LANG": "POSIX"}, "LANG=POSIX"),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "LC_ALL=C"),
        ({"LC_ALL": "", "LANG": "de_DE.UTF-8"}, ""),
        ({"LANG": "de_DE.ISO-8859-1"}, "LANG=de_DE.ISO-8859-1"),
        ({"LANG": "C.UTF-8", "TERM": "vt100"}, "TERM=vt100"),
    ],
)
def test_the_first_variable_that_is_set_decides(environ: dict[str, str], why: str) -> None:
    assert lacks_signs(environ) == why


@pytest.mark.parametrize(
    ("given", "why"),
    [({"LANG": "C"}, "LANG=C"), ({"LC_CTYPE": "C.UTF-8"}, ""), ({"LC_ALL": "C"}, "LC_ALL=C"), ({}, "")],
)
def test_pythons_coercion_of_the_c_locale_is_ignored(given: dict[str, str], why: str) -> None:
    code = "import os; from warpdeck_tui.terminal.ascii_fallback import *; print(lacks_signs(as_started(os.environ)))"
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run([sys.executable, "-c", code], env=kept | given, capture_output=True, check=True)
    assert done.stdout.decode().strip() == why


def test_the_environment_is_used_unchanged_without_proc(tmp_path: Path) -> None:
    assert as_started({"LC_CTYPE": "C.UTF-8"}, block=tmp_path / "none") == {"LC_CTYPE": "C.UTF-8"}


@pytest.mark.parametrize(
    ("options", "wanted", "plain"),
    [
        ([], None, (True, "LC_ALL=C")),
        (["--no-ascii"], True, (False, "")),
        (["--ascii"], False, (True, "")),
        ([], False, (False, "")),
        ([], True, (True, "")),
    ],
)
def test_the_option_overrides_the_file_and_the_file_the_locale(
    monkeypatch: pytest.MonkeyPatch, options: list[str], wanted: bool | None, plain: tuple[bool, str]
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert plain_signs(app_options(parse(APP, options)), Settings(ascii=wanted)) == plain


def test_a_browser_shows_all_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert plain_signs(Options(), Settings()) == (False, "")
