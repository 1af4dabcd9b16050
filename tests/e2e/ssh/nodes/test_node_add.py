"""`node add` over SSH: every failure has one clear message, and the usual SSH configurations work."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab


@pytest.fixture
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """The module's home without nodes, known hosts and ssh configuration."""
    yield shared_home
    for row in shared_home.json("node", "ls"):
        shared_home.ok("node", "rm", "--force", row["name"])
    (shared_home.path / "known_hosts").unlink(missing_ok=True)
    for name in ("config", "known_hosts", "id_ed25519", "id_ed25519.pub"):
        (ssh_folder(shared_home) / name).unlink(missing_ok=True)
    lab.give_key(ssh_folder(shared_home))


def ssh_folder(home: Home) -> Path:
    return Path(home.environ["HOME"]) / ".ssh"


def configure(home: Home, text: str) -> None:
    (ssh_folder(home) / "config").write_text(text)


def add(home: Home, lab: Lab, host: int, *, user: str = "root", name: str = "") -> None:
    """Add the host with its true key."""
    options = ["--name", name] if name else []
    home.ok(
        "node", "add", f"{user}@{lab.address(host)}", *options, "--accept-host-key", lab.fingerprint(host)
    )


def refusal(home: Home, *argv: str) -> str:
    """Return the message of a refused `node add`: one sentence with a next step. Assert that no node was
    added.
    """
    before = home.json("node", "ls")
    result = home.run("node", "add", *argv)
    assert (result.returncode, result.stdout) == (1, ""), result.stdout + result.stderr
    messages = [
        line
        for line in result.stderr.splitlines()
        if not line.startswith(("connecting", "python 3", "agent copied"))
    ]
    assert messages[0].startswith("warpdeck: ") and len(messages) <= 2, result.stderr
    assert [row["name"] for row in home.json("node", "ls")] == [row["name"] for row in before]
    return "\n".join(messages)


def assert_job_runs(home: Home, name: str) -> None:
    """Assert that a job on that node completes and its output arrives."""
    folder = home.path.parent
    job = home.json("submit", "--no-snapshot", "--wrap", "hostname", cwd=folder)["job_id"]
    eventually(lambda: home.state(job) == "COMPLETED", what=f"a job on {name}: {home.job(job)}")
    host = home.node(name)["hostname"]
    output = folder / f"slurm-{job}.out"
    eventually(lambda: output.exists() and output.read_text() == f"{host}\n", what="its output")


def test_an_unreachable_host_is_reported(home: Home, lab: Lab) -> None:
    configure(home, "Host *\n  ConnectTimeout 2\n")
    assert "refused the connection" in refusal(home, f"{lab.address(1)}:1")
    assert "unknown host nowhere.invalid" in refusal(home, "nowhere.invalid")
    lab.sh("drop", "3")
    try:
        assert "did not answer within 2 s" in refusal(home, lab.address(3))
    finally:
        lab.sh("undrop", "3")


def test_an_unreachable_network_is_reported(home: Home, lab: Lab) -> None:
    assert "cannot reach 192.0.2.1: Network is unreachable" in refusal(home, "192.0.2.1")


def test_a_key_rejected_by_the_host_is_reported(home: Home, lab: Lab) -> None:
    key = ssh_folder(home) / "id_ed25519"
    key.unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    message = refusal(home, f"root@{lab.address(1)}", "--accept-host-key", lab.fingerprint(1))
    assert f"root@{lab.address(1)} rejected all SSH keys" in message


def test_an_unknown_host_key_is_shown_and_needs_confirmation(home: Home, lab: Lab) -> None:
    target = f"root@{lab.address(1)}"
    message = refusal(home, target)
    assert lab.fingerprint(1) in message and "--accept-host-key" in message
    assert lab.fingerprint(1) in refusal(home, target, "--accept-host-key", lab.fingerprint(2))
    assert not (home.path / "known_hosts").exists()
    add(home, lab, 1, name="gpu1")
    home.ok("node", "rm", "gpu1")
    home.ok("node", "add", target, "--name", "gpu1")


def run_with_answer(home: Home, word: str, *argv: str) -> int:
    """Run `node add` on a terminal, answer its question with the word, and return the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        argv = ("warpdeck.cli.main", "node", "add", *argv)
        os.execve(sys.executable, [sys.executable, "-m", *argv], home.environ)
    seen = b""
    while b"Type yes" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, word.encode() + b"\n")
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_an_unknown_host_key_can_be_confirmed_on_a_terminal(home: Home, lab: Lab) -> None:
    target = f"root@{lab.address(1)}"
    assert run_with_answer(home, "no", target, "--name", "gpu1") == 1
    assert home.json("node", "ls") == []
    assert run_with_answer(home, "yes", target, "--name", "gpu1") == 0
    assert [row["name"] for row in home.json("node", "ls")] == ["gpu1"]


def test_a_changed_host_key_is_refused_even_if_confirmed(home: Home, lab: Lab) -> None:
    address = lab.address(1)
    (ssh_folder(home) / "known_hosts").write_text(f"{address} {lab.public_key(2)}\n")
    for options in ([], ["--accept-host-key", lab.fingerprint(1)]):
        message = refusal(home, f"root@{address}", *options)
        assert "CHANGED" in message and lab.fingerprint(1) in message and lab.fingerprint(2) in message
        assert f"ssh-keygen -R '{address}'" in message


def test_a_node_with_a_changed_host_key_is_down_with_a_reason(home: Home, lab: Lab) -> None:
    add(home, lab, 2, name="gpu2")
    (home.path / "known_hosts").write_text(f"{lab.address(2)} {lab.public_key(1)}\n")
    lab.sh("sshd", "2", "stop")
    lab.sh("sshd", "2", "start")
    eventually(lambda: "CHANGED" in home.node("gpu2")["reason"], what="the reason is shown")


@pytest.mark.parametrize(
    ("user", "python", "expected"),
    [
        ("snake", "", "has no Python; the agent needs Python 3.9"),
        ("snake36", "#!/bin/sh\necho 3.6\nexit 1\n", "has only Python 3.6; the agent needs Python 3.9"),
    ],
)
def test_a_host_without_a_usable_python_is_reported(
    home: Home, lab: Lab, short_tmp: Path, user: str, python: str, expected: str
) -> None:
    lab.add_user(1, user)
    stub = short_tmp / "python"
    stub.write_text(python)
    stub.chmod(0o755 if python else 0o644)
    with ExitStack() as stack:
        for folder in ("/usr/bin", "/usr/local/bin"):
            for path in sorted(Path(folder).glob("python3*")):
                if not path.is_symlink():
                    stack.enter_context(lab.covered(1, str(path), stub))
        message = refusal(home, f"{user}@{lab.address(1)}", "--accept-host-key", lab.fingerprint(1))
    assert expected in message and "install python3" in message


def test_output_of_the_login_shell_is_ignored(home: Home, lab: Lab) -> None:
    folder = lab.add_user(1, "chatty")
    noise = (
        "echo hello from .bashrc\nprintf '\\033[1;32mcolour\\033[0m$ '\necho to stderr >&2\nprintf prompt\n"
    )
    for name in (".bashrc", ".profile", ".bash_profile"):
        (folder / name).write_text(noise)
    add(home, lab, 1, user="chatty", name="chatty")
    assert_job_runs(home, "chatty")


def test_a_login_shell_that_exits_at_once_is_reported(home: Home, lab: Lab) -> None:
    folder = lab.add_user(1, "leaver")
    (folder / ".bashrc").write_text("echo maintenance until noon\nexit 1\n")
    message = refusal(home, f"leaver@{lab.address(1)}", "--accept-host-key", lab.fingerprint(1))
    assert "login shell" in message and "exit code 1" in message and "maintenance until noon" in message
    lab.add_user(1, "nologin", shell="/usr/sbin/nologin")
    message = refusal(home, f"nologin@{lab.address(1)}", "--accept-host-key", lab.fingerprint(1))
    assert "not available" in message


def test_a_full_home_on_the_host_is_reported(home: Home, lab: Lab) -> None:
    folder = lab.add_user(1, "full")
    with lab.small_disk(1, str(folder), size="16k"):
        message = refusal(home, f"full@{lab.address(1)}", "--accept-host-key", lab.fingerprint(1))
    assert "cannot copy the agent" in message and "No space left on device" in message


def test_an_ssh_config_alias_with_user_port_and_key_works(home: Home, lab: Lab) -> None:
    lab.add_user(1, "ann")
    key = ssh_folder(home) / "id_ed25519"
    key.rename(ssh_folder(home) / "special")
    configure(
        home,
        f"Host box\n  HostName {lab.address(1)}\n  User ann\n  Port 2222\n  IdentityFile ~/.ssh/special\n",
    )
    assert lab.fingerprint(1) in refusal(home, "box")
    home.ok("node", "add", "box", "--accept-host-key", lab.fingerprint(1))
    row = home.node("box")
    assert (row["target"], row["hostname"]) == ("box", "host1")
    known = (home.path / "known_hosts").read_text()
    assert known.startswith(f"[{lab.address(1)}]:2222 ssh-ed25519 ")
    assert_job_runs(home, "box")


def test_an_invalid_ssh_config_is_reported(home: Home, lab: Lab) -> None:
    configure(home, "Host *\n  Port none\n")
    assert "the SSH configuration for box is invalid" in refusal(home, "box")


def test_the_key_of_a_jump_host_needs_confirmation_too(home: Home, lab: Lab) -> None:
    configure(
        home,
        f"Host bastion\n  HostName {lab.address(1)}\n  User root\n"
        f"Host inner\n  HostName {lab.address(2)}\n  User root\n  ProxyJump bastion\n",
    )
    lab.sh("shun", "2")
    try:
        assert lab.fingerprint(1) in refusal(home, "inner")
        message = refusal(home, "inner", "--accept-host-key", lab.fingerprint(1))
        assert "unknown host key of inner" in message and lab.fingerprint(2) in message
        home.ok("node", "add", "inner", "--accept-host-key", lab.fingerprint(2))
        assert home.node("inner")["hostname"] == "host2"
        assert_job_runs(home, "inner")
    finally:
        lab.sh("undrop", "2")


def test_a_machine_can_be_added_only_once(home: Home, lab: Lab) -> None:
    add(home, lab, 1, name="gpu1")
    target = f"root@{lab.address(1)}"
    assert "node gpu1 already exists" in refusal(home, target, "--name", "gpu1")
    assert "is already node gpu1" in refusal(home, target, "--name", "again")
    lab.add_user(1, "bob")
    assert "is already node gpu1" in refusal(home, f"bob@{lab.address(1)}")
    assert home.node("gpu1")["state"] == "idle"


@pytest.mark.parametrize("name", ["a b", "gpu[1-3]", "-x", "a/b", "x" * 64, "ü"])
def test_an_invalid_node_name_is_refused(home: Home, lab: Lab, name: str) -> None:
    assert "is not a valid node name" in refusal(home, f"root@{lab.address(1)}", f"--name={name}")


def test_a_node_with_jobs_can_be_removed_only_with_force(home: Home, lab: Lab) -> None:
    add(home, lab, 1, name="gpu1")
    add(home, lab, 2, name="gpu2")
    gate = home.path.parent / "gate"
    jobs = {}
    for _ in range(2):
        options = ["--exclusive", "--wrap", f"while [ ! -e {gate} ]; do sleep 0.1; done # waits"]
        job = home.json("submit", "--no-snapshot", *options, cwd=home.path.parent)["job_id"]
        eventually(lambda job=job: home.state(job) == "RUNNING", what="the job runs")
        jobs[home.job(job)["node_list"]] = job
    refused = home.run("node", "rm", "gpu1")
    assert refused.returncode == 1 and f"jobs are running on gpu1: {jobs['gpu1']}" in refused.stderr
    home.ok("node", "rm", "--force", "gpu1")
    assert (home.state(jobs["gpu1"]), home.job(jobs["gpu1"])["restarts"]) == ("PENDING", 1)
    eventually(lambda: lab.pids(1, str(gate)) == [], what="the processes of its job have ended")
    eventually(lambda: lab.pids(1, "agent-") == [], what="its agent has ended")
    assert home.state(jobs["gpu2"]) == "RUNNING"
    gate.touch()
    for job in jobs.values():
        eventually(
            lambda job=job: home.state(job) == "COMPLETED", what="the other job, then the requeued one"
        )
    assert home.job(jobs["gpu1"])["node_list"] == "gpu2"
    gate.unlink()
