"""warpdeck lint with and without a controller, and the plug-in options of a site."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.home import Home

Run = Callable[..., tuple[int, str, str]]
SITE = """
[submission.plugin_options]
image = "required"
perf = "none"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="wdl", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home = Home(Path(folder) / "home")
        home.path.mkdir(mode=0o700)
        (home.path / "config.toml").write_text(SITE)
        home.ok("up")
        home.wait_for_idle_node()
        try:
            yield home
        finally:
            home.close()


@pytest.fixture
def alone(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run commands without a controller."""
    monkeypatch.setenv("WARPDECK_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return run


def script(*lines: str, name: str = "job.sh") -> str:
    Path(name).write_text("\n".join(("#!/bin/bash", *lines, "")))
    return name


def verdict(run: Run, *words: str) -> dict[str, Any]:
    code, out, err = run("lint", "--json", *words)
    assert not err
    found: dict[str, Any] = json.loads(out)
    assert list(found) == ["accepted", "components", "errors", "warnings"]
    assert code == (0 if found["accepted"] else 1)
    return found


def test_the_values_are_those_of_sbatch(alone: Run) -> None:
    name = script("#SBATCH -t 90 --mem=65536 -o a.out", "#SBATCH hetjob", "#SBATCH -n2")
    found = verdict(alone, name)
    assert found["components"] == [
        {"mem": "64G", "output": f"{Path.cwd()}/a.out", "time": "01:30:00"},
        {"mem": "64G", "ntasks": "2", "output": f"{Path.cwd()}/a.out", "time": "01:30:00"},
    ]
    assert found["errors"] == []


def test_a_refusal_has_sbatchs_words_and_a_suggestion(alone: Run) -> None:
    found = verdict(alone, script("#SBATCH --ntsks=2"))
    assert not found["accepted"] and found["components"] == []
    assert found["errors"] == ["unrecognized option '--ntsks=2'", 'Try "sbatch --help" for more information']
    assert found["warnings"][0] == "line 2: did you mean --ntasks?"


def test_variables_count_as_they_do_for_sbatch(alone: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "5")
    assert verdict(alone, script("#SBATCH -t 90"))["components"] == [{"time": "00:05:00"}]


def test_a_script_from_standard_input(alone: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\n#SBATCH -n 3 -J gr\xf6\xdfe\n"))
    )
    found = verdict(alone, "-")
    assert found["components"] == [{"job-name": "gr\ufffd\ufffde", "ntasks": "3"}]
    assert any("not UTF-8" in warning for warning in found["warnings"])


def test_the_text_says_what_is_meant_and_what_bites(alone: Run) -> None:
    code, out, _ = alone("lint", script("#SBATCH -N 2 -t 24:00"))
    assert code == 0
    assert out.splitlines()[0] == "2 node(s), for at most 00:24:00"
    assert "line 2: --time=24:00 is 24 minutes" in out
    code, out, _ = alone("lint", script("#SBATCH -t soon"))
    assert code == 1 and "refused: line 2: error: Invalid --time specification" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [(["missing.sh"], "cannot read missing.sh: No such file"), (["."], "cannot read .: Is a directory")],
)
def test_what_is_no_file_is_said(alone: Run, words: list[str], message: str) -> None:
    code, out, err = alone("lint", *words)
    assert (code, out) == (1, "") and message in err


def test_values_that_many_components_repeat_have_a_limit(alone: Run) -> None:
    name = script(f"#SBATCH --comment={'x' * 100_000}", *["#SBATCH hetjob"] * 200)
    code, out, err = alone("lint", name)
    assert (code, out) == (1, "")
    assert "the options of job.sh (201 components) are larger than 16 MiB" in err


def test_more_than_any_node_has_is_told_where_a_controller_runs(run: Run) -> None:
    found = verdict(run, script("#SBATCH --mem=900T"))
    assert found["accepted"]
    assert any(warning.startswith("the job can never start here: ") for warning in found["warnings"]), found


def test_options_of_a_sites_plugins_are_accepted_and_told_to_do_nothing(run: Run, site: Home) -> None:
    name = script("#SBATCH --image=nersc/pytorch:24.08.01 --perf")
    found = verdict(run, name)
    assert found["components"] == [{"image": "nersc/pytorch:24.08.01", "perf": "set"}]
    assert "line 2: --image has no effect here" in found["warnings"]
    code, out, err = run("submit", "--no-snapshot", "--hold", "--image=b", name)
    assert code == 0 and out.startswith("Submitted batch job")
    assert "--image has no effect here" in err
    assert run("submit", "--imagine=b", name)[0] == 1
    done = site.slurm("sbatch", "--hold", "--perf", name, cwd=Path.cwd())
    assert done.returncode == 0 and "--perf has no effect here" in done.stderr, done.stderr
    done = site.slurm("sbatch", "--imagine=b", name, cwd=Path.cwd())
    words = ["sbatch: unrecognized option '--imagine=b'", 'Try "sbatch --help" for more information']
    assert (done.returncode, done.stderr.splitlines()) == (255, words)


@pytest.mark.parametrize(
    ("line", "words", "hint"),
    [
        ("--workdir=/tmp", "unrecognized option '--workdir=/tmp'", ""),
        ("--ntsks=2", "unrecognized option '--ntsks=2'", "did you mean --ntasks?"),
        ("-@", "invalid option -- '@'", "see sbatch --help"),
        ("-n", "option requires an argument -- 'n'", "give it a value"),
        ("--hold=3", "option '--hold' doesn't allow an argument", "write --hold"),
    ],
)
def test_what_getopt_does_not_take_in_a_script_sbatch_tells_as_of_its_own_words(
    site: Home, short_tmp: Path, line: str, words: str, hint: str
) -> None:
    (short_tmp / "job.sh").write_text(f"#!/bin/sh\n#SBATCH {line}\ntrue\n")
    done = site.slurm("sbatch", "job.sh", cwd=short_tmp)
    theirs = [f"sbatch: {words}", 'Try "sbatch --help" for more information']
    assert (done.returncode, done.stderr.splitlines()[:2]) == (255, theirs)
    assert all(hint in told and told.startswith("  line 2: ") for told in done.stderr.splitlines()[2:])


@pytest.mark.root
@pytest.mark.parametrize("option", ["uid", "gid"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("+0", "0"),
        ("root", "0"),
        ("00", "0"),
        ("987654", None),
        ("4294967295", None),
        ("9" * 20, None),
        ("0x0", None),
    ],
)
def test_only_users_and_groups_that_there_are_are_taken(
    alone: Run, option: str, value: str, shown: str | None
) -> None:
    """Measured with Slurm 22.05."""
    code, out, _ = alone("lint", "--json", script(f"#SBATCH --{option}={value}"))
    assert (code, json.loads(out)["components"]) == ((0, [{option: shown}]) if shown else (1, []))
