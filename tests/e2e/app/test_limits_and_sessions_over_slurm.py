"""The app over a real Slurm shows the user's quota, and offers to come back to a session that lost its terminal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.app.test_tour_over_slurm import COLORS, ESCAPE, SIZE
from tests.e2e.app.test_tui_tmux import Tmux
from tests.integration.engines.slurm_rig import GRES, NODE, SITE
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slurm, pytest.mark.tmux]
LIMITED = f"AccountingStorageEnforce=associations,limits,qos\n{SITE.strip()}\n"
ACCOUNTS = (
    "add account lab",
    "add qos fast",
    "add user root account=lab defaultaccount=lab qos=fast defaultqos=fast",
)


@pytest.fixture(params=["22.05", "26.05"])
def slurm(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    """A site where each user may have three GPUs."""
    with RealSlurm(
        LIMITED, nodes=(NODE,), gres=GRES, accounting=True, accounts=ACCOUNTS, version=request.param
    ) as made:
        # slurmctld has told slurmdbd by now that there are GPUs.
        made.ok("sacctmgr", "--immediate", "modify", "qos", "fast", "set", "maxtresperuser=gres/gpu=3")
        yield made


@pytest.fixture
def home(slurm: RealSlurm) -> Iterator[Home]:
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    made = Home(folder / "home", WARPDECK_ENGINE="slurm", **slurm.wrappers(folder / "bin"))
    made.environ |= {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("STATE", "CONFIG", "CACHE")}
    made.path.mkdir()
    often = "requests_per_minute = 6000\nidle_requests_per_minute = 6000"
    (made.path / "config.toml").write_text(f'[slurm]\nfolder = "{folder}/shared"\n{often}\n')
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_quota_is_shown_and_a_session_without_terminal_is_offered(slurm: RealSlurm, home: Home) -> None:
    slurm.ok("sbatch", "-o", "/dev/null", "--gres=gpu:2", "--wrap=sleep 600")
    eventually(lambda: slurm.ok("squeue", "--noheader", "--states=RUNNING"), what="the job runs")
    first = Tmux(home.path.parent / "first", home, size=SIZE, environ=COLORS)
    try:
        first.shows("quota 2/3")
        first.keys("i")
        first.shows("warpdeck run --pty ")
        first.keys("Enter")
        first.shows("to detach: press Enter")
        first.type("echo sum-$((40+2))")
        first.keys("Enter")
        first.shows("sum-42")
    finally:
        first.close()  # The window is gone, as if the connection was lost.
    [job] = [row["label"] for row in home.request("jobs")["jobs"] if row["interactive"]]
    eventually(lambda: home.state(job) == "RUNNING", what="the session goes on")
    second = Tmux(home.path.parent / "second", home, size=SIZE, environ=COLORS)
    try:
        second.shows(f"Session {job} is waiting for you: a attaches")
        second.keys("a")
        second.shows("sum-42")
        second.type("exit")
        second.keys("Enter")
        second.shows("has ended")
        second.type(ESCAPE)
    finally:
        second.close()
    assert "Traceback" not in (home.path / "gateway.log").read_text()
