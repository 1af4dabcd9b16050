"""`warpdeck study` with real jobs and Optuna: drivers and controllers are killed, and no trial is lost or created twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

TRIALS = 16
STUDY = f"""\
metric = "loss"
trials = {TRIALS}
at_once = 4
seed = 7
script = "train.sh"
[parameters]
x = {{ low = -10.0, high = 10.0 }}
kind = ["plain", "square"]
"""
SCRIPT = """\
#!/bin/sh
awk "BEGIN { loss = $x * $x; if (\\"$kind\\" == \\"plain\\") loss += 50; print \\"loss=\\" loss }"
"""
PRUNED = """\
metric = "loss"
trials = 8
at_once = 2
seed = 7
pruner = "median"
script = "long.sh"
[parameters]
x = { low = 0.0, high = 10.0 }
"""
LONG = """\
#!/bin/sh
[ "$(printf '%.0f' "$x")" -lt 5 ] && seconds=0 || seconds=600
for step in 1 2 3; do echo "step=$step loss=$x"; done
sleep "$seconds"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    with temporary_home() as home:
        home.ok("up")
        yield home


def start(site: Home, path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "warpdeck.cli.main", "study", "run", str(path)]
    return subprocess.Popen(argv, env=site.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def numbers(site: Home, name: str) -> list[int]:
    return [int(run["comment"].split()[2]) for run in site.json("queue", "--all", "--name", name)]


def test_a_study_whose_drivers_are_killed_has_each_trial_once(site: Home, tmp_path: Path) -> None:
    path = tmp_path / "kills.toml"
    path.write_text(STUDY)
    (tmp_path / "train.sh").write_text(SCRIPT)
    rng, last = random.Random(1), -1
    while last < TRIALS - 1:
        driver = start(site, path)
        wanted = min(last + rng.randint(1, 6), TRIALS - 1)
        eventually(
            lambda wanted=wanted: max(numbers(site, "kills"), default=-1) >= wanted, what="another trial"
        )
        if rng.random() < 0.3:
            site.kill_controller()
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        last = max(numbers(site, "kills"))
    both = [start(site, path), start(site, path)]
    for driver in both:
        out, err = driver.communicate(timeout=120)
        assert driver.returncode == 0, err
        assert f"{TRIALS} of {TRIALS} trials ({TRIALS} complete)" in err
        assert len(out.splitlines()) == TRIALS + 1
    assert sorted(numbers(site, "kills")) == list(range(TRIALS)), "each trial is there once"
    shown = site.json("study", "show", str(path))
    losses = {
        trial["number"]: trial["params"]["x"] ** 2 + 50 * (trial["params"]["kind"] == "plain")
        for trial in shown["trials"]
    }
    assert {trial["number"]: trial["value"] for trial in shown["trials"]} == pytest.approx(losses, rel=1e-3)
    assert shown["best"]["number"] == min(losses, key=lambda number: losses[number])


def test_hopeless_trials_are_ended_early(site: Home, tmp_path: Path) -> None:
    """A trial with a large loss would sleep for ten minutes."""
    path = tmp_path / "early.toml"
    path.write_text(PRUNED)
    (tmp_path / "long.sh").write_text(LONG)
    for number in range(6):  # MedianPruner lets five trials run before it ends any.
        done = site.run(
            "submit",
            "-J",
            "early",
            "--wait",
            "--comment",
            f'study early {number} {{"x": {number / 4}}}',
            "--wrap",
            f"x={number / 4} sh {tmp_path}/long.sh",
        )
        assert done.returncode == 0, done.stderr
    _, err = start(site, path).communicate(timeout=120)
    shown = site.json("study", "show", str(path))
    assert len(shown["trials"]) == 8, err
    for trial in shown["trials"][6:]:
        assert trial["state"] == ("complete" if round(trial["params"]["x"]) < 5 else "pruned")


def test_a_study_whose_trials_all_fail_stops_and_names_a_job(site: Home, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(STUDY.replace("at_once = 4", "at_once = 4\nmax_failures = 4"))
    (tmp_path / "train.sh").write_text("#!/bin/sh\nexit 1\n")
    driver = start(site, path)
    _, err = driver.communicate(timeout=120)
    assert (
        driver.returncode == 1 and "of the first" in err and "have failed" in err and "warpdeck logs" in err
    )
    assert len(numbers(site, "broken")) < TRIALS
