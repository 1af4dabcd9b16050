"""Fixtures for all tests: homes with short paths, and the choice of tests that this machine can run."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.lab.homes import end_home, start_home
from tests.lab.hosts import Lab, enter_namespaces
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home

# There is no deadline because a shared machine has no steady speed. Under CI every run uses the same
# examples; elsewhere each run draws new ones.
settings.register_profile("warpdeck", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("warpdeck")

# readline sets the size of the terminal in the environment. Child processes without a terminal must not
# inherit it.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)

# If the account's login files start pyenv, a login shell that a test kills leaves pyenv's lock. Each later one would wait for it
# for a minute. The test hosts set the same variable.
os.environ.setdefault("PYENV_REHASH_TIMEOUT", "1")

# A shell starts its background commands with these signals ignored, and every process of a test would inherit that.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

CONTAINED: list[str] = []
"""Bugs that the controller caught and survived since the test began (see controller/state/bug_reports)."""
logging.getLogger("warpdeck.bugs").addFilter(lambda record: not CONTAINED.append(record.getMessage()))

NEEDS = {
    "lab": ("/usr/sbin/sshd", "/usr/sbin/ip", "/usr/sbin/nft", "/usr/bin/gcc", "/usr/bin/unshare"),
    "podman": ("/usr/bin/podman", "/usr/bin/crun", "/usr/bin/newuidmap", "/usr/bin/unshare"),
    "apptainer": (
        "/var/cache/warpdeck-tests/apptainer/done",
        "/usr/bin/mksquashfs",
        "/usr/bin/squashfuse",
        "/usr/bin/newuidmap",
    ),
    "slurm": ("/var/cache/warpdeck-tests/slurm/root/usr/sbin/slurmctld", "/usr/bin/nsenter", "/usr/sbin/ip"),
    "slurmrestd": ("/var/cache/warpdeck-tests/slurm/root/usr/sbin/slurmrestd",),
    "systemd": ("/usr/bin/systemd-analyze",),
    "shells": ("/usr/bin/bash", "/usr/bin/zsh", "/usr/bin/fish", "/usr/bin/busybox"),
    "tmux": ("/usr/bin/tmux",),
    "chromium": ("/usr/bin/chromium",),
    "codeserver": ("/var/cache/warpdeck-tests/code-server/done", "/usr/bin/node"),
    "frameworks": (str(Path(sys.prefix) / "frameworks"),),
    "root": (),
    "two_cpus": (),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        choices=("all", "local", "system"),
        default="all",
        help="local: fast tests that need neither root nor system packages; system: all others",
    )


def _needs_system(item: pytest.Item) -> bool:
    """Return whether the test needs root, Debian programs or a real Slurm, or is slow."""
    markers = {"slow", *NEEDS} - {"two_cpus"}
    return any(marker.name in markers for marker in item.iter_markers())


def pytest_sessionstart() -> None:
    gc.disable()  # Collection creates many objects and hardly any garbage.


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection, because each full collection would visit all of them."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the requested tests, and leave out tests that this machine cannot run.

    The summary names the tests that were left out. Under CI no selected test may be left out.
    """
    part = config.getoption("part")
    if part != "all":
        chosen: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            (chosen if _needs_system(item) == (part == "system") else others).append(item)
        if part == "local":
            config.stash[NOT_LOCAL] = len(others)
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
    left: list[pytest.Item] = []
    for item in items:
        marked = {marker.name for marker in item.iter_markers()}
        for marker, programs in NEEDS.items():
            if marker not in marked:
                continue
            missing = [program for program in programs if not Path(program).exists()]
            if marker in ("lab", "podman", "slurm", "root") and os.geteuid() != 0:
                missing.append("root")
            if marker == "two_cpus" and len(os.sched_getaffinity(0)) < 2:
                missing.append("a second CPU")
            if missing and (not left or left[-1] is not item):
                left.append(item)
                config.stash.setdefault(LEFT_OUT, {})[marker] = ", ".join(missing)
    if hasattr(config, "workeroutput"):
        # Every worker process of pytest-xdist finds the same tests; only the first one reports them.
        config.workeroutput["left_out"] = config.stash.get(LEFT_OUT, {})
        config.workeroutput["not_local"] = config.stash.get(NOT_LOCAL, 0)
    elif left and os.environ.get("CI"):
        raise pytest.UsageError(f"tests would be left out: {config.stash[LEFT_OUT]}")
    config.hook.pytest_deselected(items=left)
    left_out = set(left)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test if a controller in the test's process caught a bug, even if it continued."""
    CONTAINED.clear()
    yield
    assert not CONTAINED or item.get_closest_marker("bugs"), f"the controller met a bug: {CONTAINED}"


LEFT_OUT: pytest.StashKey[dict[str, str]] = pytest.StashKey()
NOT_LOCAL: pytest.StashKey[int] = pytest.StashKey()


@pytest.hookimpl(optionalhook=True)  # The hook exists only if pytest-xdist is installed.
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect the names of the tests that a worker process left out."""
    left: dict[str, str] = getattr(node, "workeroutput", {}).get("left_out", {})
    node.config.stash.setdefault(LEFT_OUT, {}).update(left)
    node.config.stash[NOT_LOCAL] = getattr(node, "workeroutput", {}).get("not_local", 0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") and session.config.stash.get(LEFT_OUT, {}):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for marker, missing in config.stash.get(LEFT_OUT, {}).items():
        terminalreporter.write_line(f"left out: the {marker} tests, because this machine lacks {missing}")
    if more := config.stash.get(NOT_LOCAL, 0):
        terminalreporter.write_line(
            f"{more} more tests take long, or need root, Debian's packages or a real Slurm: `make test-all` runs them too"
        )


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """Return a temporary folder with a short path. Unix sockets and ssh limit the length of paths."""
    path = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def home(short_tmp: Path) -> Iterator[Home]:
    """A home without a running controller."""
    made = Home(short_tmp / "home")
    yield made
    made.close()


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    """A real Slurm for tests marked `slurm`. It starts in a second and has four nodes with four GPUs each."""
    with RealSlurm() as running:
        yield running


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Three hosts with four stand-in GPUs each, reachable over SSH."""
    enter_namespaces()
    made = Lab(3)
    yield made
    made.close()


@pytest.fixture
def lab_home(lab: Lab, short_tmp: Path) -> Iterator[Home]:
    """A new home for one test, on a host of the lab."""
    made = start_home(lab, short_tmp)
    yield made
    end_home(made)


@pytest.fixture(scope="module")
def shared_home(lab: Lab) -> Iterator[Home]:
    """A home shared by all tests of a module. The tests use different node names."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    made = start_home(lab, folder)
    yield made
    end_home(made)
    shutil.rmtree(folder, ignore_errors=True)
