"""Every command line that README.md and docs/ show works as it is shown. See documented.py for the conventions.

A page runs on this machine unless one of its blocks needs `ssh` or `root`: then all of it runs on the lab's hosts, as root. Blocks
that need a real Slurm, a program that is not installed or a second user are not run. Their command lines are parsed, which proves only
that the command, its options and their values' places exist.
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
FARTHER = frozenset({"ssh", "root"})
LAB_PAGES = [page for page in PAGES if page.needs & FARTHER]
HERE = [page for page in PAGES if not page.needs & FARTHER]
GPUS = 4
KINDS = ("slurm", "gpu", "ssh", "root", "users")
"""Words after `needs` that are no programs."""


def run_page(page: Page, session: Session, *, has: frozenset[str], log: Path) -> None:
    """Run all commands of a page that this place can run, and parse the others."""
    for command in page.commands:
        if lacks(command, has):
            assert not parses(command), f"{page.name}:{command.line}: {command.text}: {parses(command)}"
            continue
        code = session.run(command)
        assert code == command.exit, (
            f"{page.name}:{command.line}: {command.text}\nexit {code}, not {command.exit}:\n{session.text}\n{told(log)}"
        )


def lacks(command: Command, has: frozenset[str]) -> frozenset[str]:
    """What the command needs and this place does not have."""
    return frozenset(
        need
        for need in command.needs - has
        if need in ("slurm", "gpu", "ssh", "root", "users") or not shutil.which(need)
    )


def told(log: Path) -> str:
    return log.read_text()[-2000:] if log.exists() else ""


def with_gpus(folder: Path) -> dict[str, str]:
    """Return variables with which the agent of this machine sees the stand-in GPUs."""
    library = build_fake_nvml(folder / "nvml")
    state = folder / "nvml.state"
    write_state(state, gpus=GPUS, util=35)
    return {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML_STATE": str(state)}


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[None]]]:
    """Runs of the selected pages, as many at once as there are CPUs."""
    selected = {item.name for item in request.session.items}
    pages = [page for page in HERE if f"test_commands_of_a_page_run[{page.name}]" in selected]
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    gpus = with_gpus(folder) if shutil.which("gcc") else {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {page.name: pool.submit(run_here, page, gpus) for page in pages}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("page", HERE, ids=[page.name for page in HERE])
def test_commands_of_a_page_run(page: Page, runs: dict[str, Future[None]]) -> None:
    runs[page.name].result()


def run_here(page: Page, gpus: dict[str, str]) -> None:
    """Run a page in an empty home, with a site of its own whose node is this machine."""
    has = frozenset({"gpu"}) if gpus else frozenset()
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    environ = {**os.environ, **gpus}
    project = prepare(folder, environ)
    home = Home(folder / "home", **environ)
    environ["WARPDECK_HOME"] = str(home.path)
    write_files(page, project)
    session = Session(project, environ)
    try:
        if any(not lacks(command, has) and command.text != "warpdeck demo" for command in page.commands):
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
    """Kill the agents that the page's commands have left on that host, which other tests use after this one."""

    def none_is_left() -> bool:
        pids = lab.pids(host, "agent-")
        if pids:
            lab.on(host, "sh", "-c", 'kill -9 "$@" 2>/dev/null; true', "-", *map(str, pids))
        return not pids

    eventually(none_is_left, what=f"no agent on host {host}")


def name_hosts(lab: Lab, folder: Path, user: Path) -> None:
    """Give the lab's hosts the names gpu01, gpu02 and gpu03 in this process's own mounts, and have the user know their keys."""
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


def test_every_page_is_read() -> None:
    names = {page.name for page in read_pages()}
    assert {"README.md", "docs/index.md", "docs/tutorial.md"} <= names
    assert not any(name.startswith("docs/reference/") for name in names)


def test_a_wrong_option_of_a_command_that_is_only_parsed_is_found() -> None:
    assert parses(Command(1, "warpdeck queue --no-such-option"))
    assert parses(Command(1, "warpdeck nosuchverb"))
    assert parses(Command(1, "sudo warpdeck node drain --gpu x gpu01"))
    assert not parses(Command(1, "warpdeck queue --me"))
    assert not parses(Command(1, "warpdeck submit --gpus 2 --sweep 'lr=1,2' train.sh"))
    assert not parses(Command(1, "sudo warpdeck node drain --gpu 3 gpu01 'bad cable'"))


def test_documents_have_the_fields_that_the_reference_names(home: Home) -> None:
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


def test_interactive_commands_are_told_from_others() -> None:
    assert Command(1, "warpdeck run --gpus 1 --pty bash").typed == "exit\r"
    assert Command(1, "warpdeck").typed == "q"
    assert Command(1, "warpdeck demo").typed == "q"
    assert Command(1, "warpdeck screen gpus").typed == "q"
    assert Command(1, "warpdeck screen queue --plain").typed is None
    assert Command(1, "warpdeck --help").typed is None
    assert Command(1, "warpdeck queue").typed is None


@pytest.fixture(autouse=True)
def hosts_file() -> Iterator[None]:
    """The names of hosts that a test has made go with it."""
    yield
    while "wd" in os.path.dirname(mounted_over("/etc/hosts")):
        subprocess.run(["umount", "/etc/hosts"], check=True)


def mounted_over(path: str) -> str:
    """What is mounted over that file, as the kernel names it; "" for nothing."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return next((line[3] for line in reversed(lines) if line[4] == path), "")


def test_pages_are_made_of_files_commands_and_needs(tmp_path: Path) -> None:
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
