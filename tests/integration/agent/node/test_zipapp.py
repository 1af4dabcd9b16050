"""The shipped agent: one small file that runs on any Python from 3.9 on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

import warpdeck_agent
from warpdeck.fleet.build import MAX_BYTES, build_local_zipapp, build_zipapp, zipapp_bytes
from warpdeck_agent.wire import messages as wire

VERSIONS = tuple(f"3.{minor}" for minor in range(9, 15))
SOURCES = Path(warpdeck_agent.__file__).parent
VERMIN = (sys.executable, "-c", "import vermin; vermin.main()", "-t=3.9-", "--violations", "--no-tips")
"""Finds syntax and calls that Python 3.9 lacks, whatever Python runs the tests."""


def interpreters() -> dict[str, str]:
    """Return the Pythons of this machine by version: the current one, the system's, and pyenv's."""
    found = {f"3.{sys.version_info.minor}": sys.executable}
    for version in VERSIONS:
        places = [f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"]
        kept = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
        for place in [*places, *map(str, sorted(kept))]:
            if Path(place).exists():
                found.setdefault(version, place)
    return found


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_zipapp(str(tmp_path_factory.mktemp("agent")))[0]


@pytest.fixture(params=sorted(interpreters().items()), ids=lambda item: item[0])
def shipped(request: pytest.FixtureRequest, zipapp: str, short_tmp: Path) -> Iterator[AgentProcess]:
    """The zipapp, run by one of this machine's Pythons."""
    new_agent_process = AgentProcess(
        short_tmp / "agent", program=[request.param[1], "-I", "-W", "error", zipapp]
    )
    yield new_agent_process
    new_agent_process.close()


def test_the_zipapp_is_small_and_reproducible(zipapp: str) -> None:
    assert MAX_BYTES == 448 * 1024
    assert Path(zipapp).stat().st_size < MAX_BYTES
    assert Path(zipapp).read_bytes() == zipapp_bytes()


def test_every_supported_python_runs_ends_and_adopts_jobs(shipped: AgentProcess) -> None:
    welcome = shipped.start()
    assert re.fullmatch("[0-9a-f]{64}", welcome.build)
    assert shipped.run(1, "exit 3").exit_code == 3
    shipped.launch(2, "trap '' TERM\necho ready\nwhile :; do sleep 0.1; done")
    eventually(lambda: shipped.text(2) == "ready", what="the job ignores TERM")
    shipped.kill()
    shipped.start()
    shipped.link.send(wire.Kill(job_id=2, restarts=0, grace_s=0.2))
    report = shipped.link.report(2, "exited")
    assert (report.signal, report.cause) == (signal.SIGKILL, "cancelled")
    assert shipped.connect(sample_interval_s=0.1).inventory.cpus > 0
    assert shipped.link.expect(wire.Sample).mem_used_bytes > 0
    shipped.link.send(wire.Quit())
    assert shipped.process is not None and shipped.process.wait(30.0) == 0
    assert "Traceback" not in shipped.log() and "Warning" not in shipped.log()


def test_every_supported_python_hosts_terminals(shipped: AgentProcess) -> None:
    shipped.start()
    shipped.launch(1, role="tasks", argv=["sh", "-c", "read word; echo got-$word; exit 6"], pty=True)
    shipped.link.report(1, "running")
    shipped.link.send(wire.OpenPty(stream=1, job_id=1, restarts=0, rows=24, cols=80))
    shipped.link.expect(wire.StreamOpened)
    shipped.link.send_data(1, b"it\n")
    shipped.link.output(1, b"got-it")
    assert shipped.link.report(1, "exited").exit_code == 6


def newer_than_3_9(folder: Path) -> str:
    """Return vermin's complaints about the sources in a folder."""
    result = subprocess.run([*VERMIN, str(folder)], capture_output=True, text=True, check=False)
    assert result.stderr == "" and "Minimum required versions" in result.stdout, result.stderr
    return "" if result.returncode == 0 else result.stdout


def test_the_sources_of_the_agent_need_only_python_3_9() -> None:
    assert newer_than_3_9(SOURCES) == ""


@pytest.mark.parametrize(
    "line",
    [
        "import tomllib",
        "match 1:\n    case _: pass",
        "(1).bit_count()",
        "import asyncio\nasyncio.TaskGroup()",
    ],
)
def test_syntax_unknown_to_python_3_9_is_detected(tmp_path: Path, line: str) -> None:
    (tmp_path / "newer.py").write_text(line + "\n")
    assert "newer.py" in newer_than_3_9(tmp_path)


def test_the_zipapp_of_this_machine_compiles_nothing(short_tmp: Path) -> None:
    """Its modules come from the bytecode in the archive. The archive and its build are the same in a second build."""
    zipapp, build = build_local_zipapp(str(short_tmp))
    listed = (
        f"import sys; sys.path.insert(0, {zipapp!r}); import warpdeck_agent.daemon.server, pynvml; "
        "files = [getattr(module, '__file__', None) or '' for module in list(sys.modules.values())]; "
        "print({file[-4:] for file in files if file.startswith(sys.path[0])})"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", listed], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'.pyc'}\n"
    assert build_local_zipapp(str(short_tmp)) == (zipapp, build)
    made = AgentProcess(short_tmp / "agent", program=[sys.executable, "-I", zipapp])
    try:
        assert made.start().build == build
        assert made.run(1, "exit 3").exit_code == 3
    finally:
        made.close()
