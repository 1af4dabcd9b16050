"""A job on a real host that does not use its GPU is warned, paused, and completes when it runs again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
CONFIG = """\
[idle_gpus]
action = "pause"
after_s = 6
grace_s = 1
"""
SCRIPT = """\
#!/bin/sh
#SBATCH --gpus=1 --requeue --output=out --open-mode=append
[ ! -e saved ] || { echo "goes on"; exit 0; }
trap 'touch saved; exit 0' TERM
while :; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Iterator[Home]:
    lab.show_driver(2, "driver 550.54.15\ngpu 0 util=0 power=60000 temp=30\n")
    (shared_home.path / "config.toml").write_text(CONFIG)
    shared_home.ok("config", "reload")
    target = f"root@{lab.address(2)}"
    shared_home.ok("node", "add", target, "--name", "gpu2", "--accept-host-key", lab.fingerprint(2))
    yield shared_home
    shared_home.ok("node", "rm", "--force", "gpu2")
    lab.show_gpus(2)


def test_a_job_that_does_not_use_its_gpu_is_warned_and_paused(home: Home, short_tmp: Path) -> None:
    (short_tmp / "train.sh").write_text(SCRIPT)
    job = int(home.json("submit", "--no-snapshot", "train.sh", cwd=short_tmp)["job_id"])
    eventually(lambda: home.state(job) == "COMPLETED", what="the job is paused, runs again and ends")
    assert home.job(job)["restarts"] == 1
    output = (short_tmp / "out").read_text()
    assert "the GPU has been idle for" in output and "the job is paused in 00:00:01" in output
    assert output.rstrip().endswith("goes on")
    texts = " ".join(event["text"] for event in home.json("show", str(job))["events"])
    assert texts.count("the job is paused unless") + texts.count("; the job is paused in") == 1
    assert "pause (at most" in texts
