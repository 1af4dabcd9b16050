"""ssh, scp and sftp into a job on another host, with the real OpenSSH client: environment, containment and
end of sessions.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
SSH_S = 60.0
EDITOR_SERVER = """
import os, socketserver, sys, threading
class Answers(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(os.environ["CUDA_VISIBLE_DEVICES"].encode())
near = socketserver.ThreadingUnixStreamServer(sys.argv[1], Answers)
threading.Thread(target=near.serve_forever, daemon=True).start()
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Ssh:
    """OpenSSH programs with warpdeck's configuration."""

    def __init__(self, home: Home, config: Path) -> None:
        self._home = home
        self.config = config

    def run(self, program: str, *argv: str, data: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-F", str(self.config), "-o", "BatchMode=yes", *argv],
            env=self._home.environ,
            input=data,
            capture_output=True,
            text=True,
            timeout=SSH_S,
            check=False,
        )

    def ok(self, program: str, *argv: str, data: str = "") -> str:
        result = self.run(program, *argv, data=data)
        assert result.returncode == 0, f"{program} {argv}: {result.stdout}{result.stderr}\n{self._home.log()}"
        return result.stdout


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Home:
    for host in (1, 2):
        target = f"root@{lab.address(host)}"
        shared_home.ok(
            "node", "add", target, "--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)
        )
    return shared_home


@pytest.fixture(scope="module")
def ssh(home: Home) -> Ssh:
    config = home.path.parent / "ssh_config"
    config.write_text(home.ok("proxy", "--config"))
    return Ssh(home, config)


@pytest.fixture(scope="module")
def job(home: Home) -> str:
    """A job with two GPUs on each of two nodes. A variable in its environment is hard to quote."""
    options = ("-N", "2", "--gpus-per-node", "2", "--export", "ALL,WORDS=a \"b\" 'c' \\d #e $f")
    submitted = home.json("submit", "--no-snapshot", *options, "--wrap", "sleep 1000", cwd=home.path.parent)
    eventually(lambda: home.state(submitted["job_id"]) == "RUNNING", what="the job runs")
    return str(submitted["job_id"])


@pytest.fixture
def own_job(home: Home) -> Iterator[str]:
    """A job for a test that ends it."""
    job_id = home.json("submit", "--no-snapshot", "--wrap", "sleep 1000", cwd=home.path.parent)["job_id"]
    eventually(lambda: home.state(job_id) == "RUNNING", what="the job runs")
    yield str(job_id)
    home.run("cancel", str(job_id))


def test_a_session_has_the_host_gpus_and_environment_of_the_job(
    lab: Lab, home: Home, ssh: Ssh, job: str
) -> None:
    script = (
        'hostname; echo "$SLURM_JOB_ID"; echo "$CUDA_VISIBLE_DEVICES"; echo "$WORDS"; echo "$WARPDECK_JOB"'
    )
    host, job_id, gpus, variable, tag = ssh.ok("ssh", f"wd-{job}", script).splitlines()
    assert ssh.ok("ssh", f"wd-{job}", "scontrol show hostnames").split() == [lab.address(1), lab.address(2)]
    indices = [str(gpu["index"]) for gpu in home.json("show", job)["gpus"] if gpu["node"] == "gpu1"]
    assert (host, job_id, gpus.split(",")) == ("host1", job, indices)
    assert variable == "a \"b\" 'c' \\d #e $f"
    assert tag.startswith(f"{job}.0@")


def test_steps_start_from_a_session(ssh: Ssh, job: str) -> None:
    output = ssh.ok("ssh", f"wd-{job}", "srun --overlap -N 2 -n 2 hostname")
    assert sorted(output.split()) == ["host1", "host2"]


def test_each_node_of_a_job_has_a_name(ssh: Ssh, job: str) -> None:
    script = "hostname; echo $SLURM_NODEID"
    assert ssh.ok("ssh", f"wd-{job}.gpu2", script).split() == ["host2", "1"]
    assert "does not run on gpu3" in ssh.run("ssh", f"wd-{job}.gpu3", script).stderr


def test_files_are_copied_both_ways(ssh: Ssh, job: str, short_tmp: Path) -> None:
    here, there, back = short_tmp / "here", short_tmp / "there", short_tmp / "back"
    here.write_bytes(bytes(range(256)) * 40_000)
    ssh.ok("scp", "-q", str(here), f"wd-{job}:{there}")
    ssh.ok("scp", "-q", f"wd-{job}:{there}", str(back))
    assert back.read_bytes() == here.read_bytes()
    assert f"{short_tmp}/there" in ssh.ok("sftp", f"wd-{job}", data=f"ls {short_tmp}\n")


def test_exit_codes_input_and_terminals_work_as_with_ssh(ssh: Ssh, job: str) -> None:
    assert ssh.run("ssh", f"wd-{job}", "exit 7").returncode == 7
    assert ssh.ok("ssh", f"wd-{job}", "cat", data="typed\n") == "typed\n"
    assert ssh.ok("ssh", "-tt", f"wd-{job}", "tty").startswith("/dev/pts/")


def test_ssh_can_forward_ports_of_the_node(ssh: Ssh, job: str, lab: Lab) -> None:
    assert ssh.ok("ssh", "-W", f"{lab.address(1)}:22", f"wd-{job}").startswith("SSH-2.0-OpenSSH")


def test_an_editor_reaches_its_server_through_socks_and_a_socket(
    home: Home, ssh: Ssh, job: str, short_tmp: Path
) -> None:
    """VS Code connects like this: `ssh -T -D PORT HOST bash` with commands on its standard input, and all
    connections through it.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (short_tmp / "server.py").write_text(EDITOR_SERVER)
    local_socket, remote_socket = short_tmp / "near", short_tmp / "far"
    options = [
        "-F",
        str(ssh.config),
        "-o",
        "ExitOnForwardFailure=yes",
        "-D",
        str(port),
        "-L",
        f"{local_socket}:{remote_socket}",
    ]
    with subprocess.Popen(
        ["ssh", "-T", *options, f"wd-{job}", "bash"],
        env=home.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"exec python3 {short_tmp}/server.py {remote_socket}\n")
            process.stdin.flush()
            remote_port = int(process.stdout.readline())
            indices = [str(gpu["index"]) for gpu in home.json("show", job)["gpus"] if gpu["node"] == "gpu1"]
            assert _read_through_socks(port, remote_port).split(",") == indices
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(str(local_socket))
                assert _read_all(link).split(",") == indices
        finally:
            process.kill()


def _read_through_socks(proxy: int, port: int) -> str:
    """Return the output of a port on the remote loopback, through a local SOCKS 5 proxy."""
    with socket.create_connection(("127.0.0.1", proxy), SSH_S) as link:
        link.sendall(b"\5\1\0")
        assert link.recv(2) == b"\5\0"
        link.sendall(b"\5\1\0\1\x7f\0\0\1" + port.to_bytes(2, "big"))
        assert link.recv(10)[:2] == b"\5\0"
        return _read_all(link)


def _read_all(link: socket.socket) -> str:
    """Return all data until the end."""
    pieces = iter(lambda: link.recv(4096), b"")
    return b"".join(pieces).decode()


def test_processes_of_a_session_end_with_the_job(home: Home, ssh: Ssh, lab: Lab, own_job: str) -> None:
    command = f"sleep 12{own_job}"
    ssh.ok("ssh", f"wd-{own_job}", f"setsid nohup {command} >/dev/null 2>&1 </dev/null & sleep 0.1")
    host = int(home.job(own_job)["node_list"].removeprefix("gpu"))
    assert len(lab.pids(host, command)) == 1
    home.ok("cancel", own_job)
    eventually(lambda: home.job(own_job)["end"], what="the job has ended")
    eventually(lambda: not lab.pids(host, command), what="its process has ended")
    result = ssh.run("ssh", f"wd-{own_job}", "true")
    assert result.returncode == 255 and f"job {own_job} has ended (CANCELLED)" in result.stderr


def test_a_session_reports_the_end_of_its_job(home: Home, ssh: Ssh, own_job: str) -> None:
    process = subprocess.Popen(
        ["ssh", "-F", str(home.path.parent / "ssh_config"), f"wd-{own_job}", "echo on; sleep 1000"],
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    home.ok("cancel", own_job)
    _, errors = process.communicate(timeout=SSH_S)
    assert process.returncode == 255
    assert "the job has ended" in errors


def test_other_keys_are_refused(home: Home, ssh: Ssh, job: str, short_tmp: Path) -> None:
    key = short_tmp / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = short_tmp / "config"
    lines = ssh.config.read_text().splitlines()
    config.write_text("\n".join(line for line in lines if "IdentityFile" not in line))
    result = Ssh(home, config).run("ssh", "-i", str(key), f"wd-{job}", "true")
    assert result.returncode == 255 and "Permission denied (publickey)" in result.stderr


def test_a_wrong_user_name_is_reported_before_ssh_fails(ssh: Ssh, job: str) -> None:
    result = ssh.run("ssh", f"nobody@wd-{job}", "true")
    assert f"job {job} runs as user root, not as nobody" in result.stderr
    assert f"ssh root@wd-{job}" in result.stderr


def test_a_node_without_an_ssh_server_is_reported(
    home: Home, ssh: Ssh, job: str, lab: Lab, short_tmp: Path
) -> None:
    nothing = short_tmp / "nothing"
    nothing.touch()
    with lab.covered(2, "/usr/sbin/sshd", nothing):
        result = ssh.run("ssh", f"wd-{job}.gpu2", "true")
    assert "there is no sshd on this node: install openssh-server" in result.stderr


def test_the_configuration_is_installed_once_and_first(home: Home, short_tmp: Path) -> None:
    folder = short_tmp / "user"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "config").write_text("Host other\n    User ann\n")
    user = Home(home.path, HOME=str(folder))
    for _ in range(2):
        user.ok("proxy", "--install")
    text = (folder / ".ssh" / "config").read_text()
    assert text == f'Include "{home.path}/ssh/config"\n\nHost other\n    User ann\n'
    assert "ProxyCommand" in (home.path / "ssh" / "config").read_text()
    assert (home.path / "ssh").stat().st_mode & 0o777 == 0o700


def test_the_configuration_for_another_machine_connects_through_this_one(home: Home) -> None:
    text = home.ok("proxy", "--config", "--via", "ann@login")
    assert "ProxyCommand ssh ann@login 'env WARPDECK_HOME=" in text and "--user %r %h'" in text
    assert "is not an SSH host" in home.run("proxy", "--config", "--via", "x\nHost *").stderr


@pytest.mark.parametrize("host", ["other", "wd-", "wd-1;x", "wd-1.-x", "--", "wd-1_2_3"])
def test_a_host_that_names_no_job_is_refused(home: Home, host: str) -> None:
    result = home.run("proxy", host)
    assert result.returncode in (1, 2) and "Traceback" not in result.stderr
    assert "is not a job" in result.stderr or "no job given" in result.stderr
