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


def verdict(run: Run, *argv: str) -> dict[str, Any]:
    code, out, err = run("lint", "--json", *argv)
    assert not err
    found: dict[str, Any] = json.loads(out)
    assert list(found) == ["accepted", "components", "errors", "warnings"]
    assert code == (0 if found["accepted"] else 1)
    return found


def test_lint_has_the_values_of_sbatch(alone: Run) -> None:
    name = script("#SBATCH -t 90 --mem=65536 -o a.out", "#SBATCH hetjob", "#SBATCH -n2")
    found = verdict(alone, name)
    assert found["components"] == [
        {"mem": "64G", "output": f"{Path.cwd()}/a.out", "time": "01:30:00"},
        {"mem": "64G", "ntasks": "2", "output": f"{Path.cwd()}/a.out", "time": "01:30:00"},
    ]
    assert found["errors"] == []


def test_a_refusal_has_the_message_of_sbatch_and_a_suggestion(alone: Run) -> None:
    found = verdict(alone, script("#SBATCH --ntsks=2"))
    assert not found["accepted"] and found["components"] == []
    assert found["errors"] == ["unrecognized option '--ntsks=2'", 'Try "sbatch --help" for more information']
    assert found["warnings"][0] == "line 2: did you mean --ntasks?"


def test_variables_apply_as_in_sbatch(alone: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "5")
    assert verdict(alone, script("#SBATCH -t 90"))["components"] == [{"time": "00:05:00"}]


def test_a_script_can_be_read_from_standard_input(alone: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\n#SBATCH -n 3 -J gr\xf6\xdfe\n"))
    )
    found = verdict(alone, "-")
    assert found["components"] == [{"job-name": "gr\ufffd\ufffde", "ntasks": "3"}]
    assert any("not UTF-8" in warning for warning in found["warnings"])


def test_the_text_explains_the_request_and_its_pitfalls(alone: Run) -> None:
    code, out, _ = alone("lint", script("#SBATCH -N 2 -t 24:00"))
    assert code == 0
    assert out.splitlines()[0] == "2 node(s), for at most 00:24:00"
    assert "line 2: --time=24:00 is 24 minutes" in out
    code, out, _ = alone("lint", script("#SBATCH -t soon"))
    assert code == 1 and "refused: line 2: error: Invalid --time specification" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["missing.sh"], "cannot read missing.sh: No such file"), (["."], "cannot read .: Is a directory")],
)
def test_a_missing_file_is_reported(alone: Run, argv: list[str], message: str) -> None:
    code, out, err = alone("lint", *argv)
    assert (code, out) == (1, "") and message in err


def test_the_size_of_repeated_component_values_is_limited(alone: Run) -> None:
    name = script(f"#SBATCH --comment={'x' * 100_000}", *["#SBATCH hetjob"] * 200)
    code, out, err = alone("lint", name)
    assert (code, out) == (1, "")
    assert "the options of job.sh (201 components) are larger than 16 MiB" in err


def test_a_request_larger_than_any_node_is_reported_with_a_running_controller(run: Run) -> None:
    found = verdict(run, script("#SBATCH --mem=900T"))
    assert found["accepted"]
    assert any(warning.startswith("the job can never start here: ") for warning in found["warnings"]), found


def test_plugin_options_of_a_site_are_accepted_without_effect(run: Run, site: Home) -> None:
    name = script("#SBATCH --image=nersc/pytorch:24.08.01 --perf")
    found = verdict(run, name)
    assert found["components"] == [{"image": "nersc/pytorch:24.08.01", "perf": "set"}]
    assert "line 2: --image has no effect here" in found["warnings"]
    code, out, err = run("submit", "--no-snapshot", "--hold", "--image=b", name)
    assert code == 0 and out.startswith("Submitted batch job")
    assert "--image has no effect here" in err
    assert run("submit", "--imagine=b", name)[0] == 1
    result = site.slurm("sbatch", "--hold", "--perf", name, cwd=Path.cwd())
    assert result.returncode == 0 and "--perf has no effect here" in result.stderr, result.stderr
    result = site.slurm("sbatch", "--imagine=b", name, cwd=Path.cwd())
    text = ["sbatch: unrecognized option '--imagine=b'", 'Try "sbatch --help" for more information']
    assert (result.returncode, result.stderr.splitlines()) == (255, text)


@pytest.mark.parametrize(
    ("line", "text", "hint"),
    [
        ("--workdir=/tmp", "unrecognized option '--workdir=/tmp'", ""),
        ("--ntsks=2", "unrecognized option '--ntsks=2'", "did you mean --ntasks?"),
        ("-@", "invalid option -- '@'", "see sbatch --help"),
        ("-n", "option requires an argument -- 'n'", "give it a value"),
        ("--hold=3", "option '--hold' doesn't allow an argument", "write --hold"),
    ],
)
def test_invalid_directives_are_reported_as_by_getopt(
    site: Home, short_tmp: Path, line: str, text: str, hint: str
) -> None:
    (short_tmp / "job.sh").write_text(f"#!/bin/sh\n#SBATCH {line}\ntrue\n")
    result = site.slurm("sbatch", "job.sh", cwd=short_tmp)
    other_user_file = [f"sbatch: {text}", 'Try "sbatch --help" for more information']
    assert (result.returncode, result.stderr.splitlines()[:2]) == (255, other_user_file)
    assert all(
        hint in output and output.startswith("  line 2: ") for output in result.stderr.splitlines()[2:]
    )


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
def test_unknown_users_and_groups_are_refused(alone: Run, option: str, value: str, shown: str | None) -> None:
    """Measured with Slurm 22.05."""
    code, out, _ = alone("lint", "--json", script(f"#SBATCH --{option}={value}"))
    assert (code, json.loads(out)["components"]) == ((0, [{option: shown}]) if shown else (1, []))
