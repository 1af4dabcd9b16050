"""Every command line in README.md and docs/ works as shown. See documented.py for the conventions.

A page runs on this machine unless one of its blocks needs `ssh` or `root`; then the whole page runs on the
lab's hosts, as root. Blocks that need a real Slurm, a program that is not installed, or a second user are not
run. Their command lines are only parsed, which proves that the command and its options exist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from docs.generate.json_answers import JSON_OF
from tests.lab.hosts import Lab
from tests.lab.nvml import build_fake_nvml, write_state
from tests.support.documented import Command, Page, Session, parses, prepare, read_pages, write_files
from tests.support.home import Home
from tests.support.waiting import eventually

PAGES = [page for page in read_pages() if page.commands]
NEEDS_LAB = frozenset({"ssh", "root"})
LAB_PAGES = [page for page in PAGES if page.needs & NEEDS_LAB]
LOCAL_PAGES = [page for page in PAGES if not page.needs & NEEDS_LAB]
GPUS = 4
KINDS = ("slurm", "gpu", "ssh", "root", "users")
"""Words after `needs` that do not name programs."""


def run_page(page: Page, session: Session, *, has: frozenset[str], log: Path) -> None:
    """Run all commands of a page that can run here, and parse the others."""
    for command in page.commands:
        if missing_needs(command, has):
            assert not parses(command), f"{page.name}:{command.line}: {command.text}: {parses(command)}"
            continue
        code = session.run(command)
        assert code == command.exit, (
            f"{page.name}:{command.line}: {command.text}\nexit {code}, not {command.exit}:\n{session.text}\n{log_end(log)}"
        )


def missing_needs(command: Command, has: frozenset[str]) -> frozenset[str]:
    """Return the requirements of the command that are missing here."""
    return frozenset(
        need
        for need in command.needs - has
        if need in ("slurm", "gpu", "ssh", "root", "users") or not shutil.which(need)
    )


def log_end(log: Path) -> str:
    return log.read_text()[-2000:] if log.exists() else ""


def with_gpus(folder: Path) -> dict[str, str]:
    """Return variables with which the agent of this machine sees the stand-in GPUs."""
    library = build_fake_nvml(folder / "nvml")
    state = folder / "nvml.state"
    write_state(state, gpus=GPUS, util=35)
    return {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML_STATE": str(state)}


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[None]]]:
    """Runs of the selected pages, in parallel on all CPUs."""
    selected = {item.name for item in request.session.items}
    pages = [page for page in LOCAL_PAGES if f"test_commands_of_a_page_run[{page.name}]" in selected]
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    gpus = with_gpus(folder) if shutil.which("gcc") else {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {page.name: pool.submit(run_here, page, gpus) for page in pages}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("page", LOCAL_PAGES, ids=[page.name for page in LOCAL_PAGES])
def test_commands_of_a_page_run(page: Page, runs: dict[str, Future[None]]) -> None:
    runs[page.name].result()


def run_here(page: Page, gpus: dict[str, str]) -> None:
    """Run a page in an empty home, on a site with this machine as its node."""
    has = frozenset({"gpu"}) if gpus else frozenset()
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    environ = {**os.environ, **gpus}
    project = prepare(folder, environ)
    home = Home(folder / "home", **environ)
    environ["WARPDECK_HOME"] = str(home.path)
    write_files(page, project)
    session = Session(project, environ)
    try:
        if any(
            not missing_needs(command, has) and command.text != "warpdeck demo" for command in page.commands
        ):
            home.ok("up")
            home.wait_for_idle_node()
        run_page(page, session, has=has, log=home.path / "controller.log")
    finally:
        session.close()
        if home.path.exists():
            home.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.lab
@pytest.mark.parametrize("page", LAB_PAGES, ids=[page.name for page in LAB_PAGES])
def test_commands_of_a_page_run_on_hosts(page: Page, lab: Lab, short_tmp: Path) -> None:
    environ = dict(os.environ)
    user = lab.user_home(short_tmp / "user")
    project = prepare(short_tmp, environ)
    name_hosts(lab, short_tmp, user)
    environ |= {"SSH_AUTH_SOCK": ""}
    shared = any("--shared" in command.text for command in page.commands)
    home = Home(Path("/var/lib/warpdeck/site") if shared else short_tmp / "home", **environ)
    environ.pop("WARPDECK_HOME", None)
    if not shared:
        environ["WARPDECK_HOME"] = str(home.path)
    write_files(page, project)
    session = Session(project, environ)
    try:
        if not shared:
            home.ok("up", "--no-local-node")
        run_page(page, session, has=frozenset({"ssh", "root", "gpu"}), log=home.path / "controller.log")
    finally:
        session.close()
        for node in home.request("nodes")["nodes"]:
            home.run("node", "rm", "--force", str(node["name"]))
        home.close()
        if shared:
            shutil.rmtree(home.path, ignore_errors=True)
        for host in range(1, lab.count + 1):
            end_agents(lab, host)


def end_agents(lab: Lab, host: int) -> None:
    """Kill the agents of the page's commands on that host, which other tests use later."""

    def all_have_ended() -> bool:
        pids = lab.pids(host, "agent-")
        if pids:
            lab.on(host, "sh", "-c", 'kill -9 "$@" 2>/dev/null; true', "-", *map(str, pids))
        return not pids

    eventually(all_have_ended, what=f"no agent on host {host}")


def name_hosts(lab: Lab, folder: Path, user: Path) -> None:
    """Give the lab's hosts the names gpu01, gpu02 and gpu03 in this process's mounts, and add their keys to
    the user's known_hosts.
    """
    names = {f"gpu0{host}": host for host in range(1, lab.count + 1)}
    hosts = folder / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost\n" + "".join(f"{lab.address(host)} {name}\n" for name, host in names.items())
    )
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    known = "".join(f"{name},{lab.address(host)} {lab.public_key(host)}\n" for name, host in names.items())
    (user / ".ssh" / "known_hosts").write_text(known)
    for host in names.values():
        try:
            lab.on(host, "id", "alice")
        except AssertionError:
            lab.add_user(host, "alice")


def test_every_page_of_the_documentation_is_read() -> None:
    names = {page.name for page in read_pages()}
    assert {"README.md", "docs/index.md", "docs/tutorial.md"} <= names
    assert not any(name.startswith("docs/reference/") for name in names)


def test_a_wrong_option_is_found_in_a_command_that_is_only_parsed() -> None:
    assert parses(Command(1, "warpdeck queue --no-such-option"))
    assert parses(Command(1, "warpdeck nosuchverb"))
    assert parses(Command(1, "sudo warpdeck node drain --gpu x gpu01"))
    assert not parses(Command(1, "warpdeck queue --me"))
    assert not parses(Command(1, "warpdeck submit --gpus 2 --sweep 'lr=1,2' train.sh"))
    assert not parses(Command(1, "sudo warpdeck node drain --gpu 3 gpu01 'bad cable'"))


def test_json_output_has_the_fields_of_the_reference(home: Home) -> None:
    home.ok("up")
    home.wait_for_idle_node()
    home.ok("submit", "--wait", "--no-snapshot", "--wrap", "true")
    structs = {command: struct for command, _, struct in JSON_OF}
    node = home.json("node", "ls")[0]
    for command, document in (
        ("warpdeck queue", home.json("queue", "--all")[0]),
        ("warpdeck show JOB", home.json("show", "1")),
        ("warpdeck why JOB", home.json("why", "1")),
        ("warpdeck metrics", home.json("metrics", "1")),
        ("warpdeck node ls", node),
        ("warpdeck node show NODE", home.json("node", "show", node["name"])),
        ("warpdeck node check", home.json("node", "check")[0]),
        ("warpdeck status", home.json("status")),
        ("warpdeck prio", home.json("prio")),
        ("warpdeck share", home.json("share")),
        ("warpdeck partitions", home.json("partitions")["partitions"][0]),
    ):
        struct = structs[command]
        assert struct is not None
        assert {field.name for field in msgspec.structs.fields(struct)} <= document.keys(), command


def test_interactive_commands_are_recognized() -> None:
    assert Command(1, "warpdeck run --gpus 1 --pty bash").typed == "exit\r"
    assert Command(1, "warpdeck").typed == "q"
    assert Command(1, "warpdeck demo").typed == "q"
    assert Command(1, "warpdeck screen gpus").typed == "q"
    assert Command(1, "warpdeck screen queue --plain").typed is None
    assert Command(1, "warpdeck --help").typed is None
    assert Command(1, "warpdeck queue").typed is None


@pytest.fixture(autouse=True)
def hosts_file() -> Iterator[None]:
    """Remove the host names that a test has added."""
    yield
    while "wd" in os.path.dirname(mounted_over("/etc/hosts")):
        subprocess.run(["umount", "/etc/hosts"], check=True)


def mounted_over(path: str) -> str:
    """Return the source of the mount over that file, as the kernel names it, and "" if there is none."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return next((line[3] for line in reversed(lines) if line[4] == path), "")


def test_a_page_is_parsed_into_files_commands_and_needs(tmp_path: Path) -> None:
    from tests.support.documented import read_page

    path = tmp_path / "page.md"
    path.write_text(
        '```bash title="a.sh"\necho\n```\n\n<!-- needs: ssh, root -->\n<!-- exit: 3 -->\n```console\n'
        "$ one \\\n>   two\noutput\n$ three\n```\n\n```console\n$ cat <<EOF\nx\nEOF\n```\n"
    )
    page = read_page(path)
    assert page.files == [("a.sh", "echo\n")]
    assert [command.text for command in page.commands] == ["one \\\n  two", "three", "cat <<EOF\nx\nEOF"]
    assert [command.exit for command in page.commands] == [0, 3, 0]
    assert page.commands[0].needs == {"ssh", "root"} and not page.commands[2].needs
