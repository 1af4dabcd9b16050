"""A controller of root for several users: each job runs as its user, and no user has access to another user's
jobs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import VERB_S, Home
from tests.support.terminal import AtTerminal
from tests.support.waiting import eventually

from warpdeck.base.paths import SITE_HOME
from warpdeck.slurm.shims.sbatch_script import script
from warpdeck_agent.wire.frames import FrameDecoder, json_frame, parse_json

pytestmark = pytest.mark.lab

ALICE, BOB, RESEARCH = 20901, 20902, 20903
READER = "dac_read_search"
"""The capability that lets a user run an interpreter in a folder that only root can read."""


class User:
    """A user of this machine with a folder."""

    def __init__(self, home: Home, name: str, uid: int, folder: Path) -> None:
        self.name, self.uid, self.folder = name, uid, folder
        folder.mkdir(mode=0o755)
        os.chown(folder, uid, uid)
        self.environ = {**home.environ, "HOME": str(folder), "USER": name}

    def argv(self, *argv: str, capability: str = "") -> list[str]:
        """Return a command line that runs with the user's ids and groups."""
        caps = [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}"] if capability else []
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--init-groups", *caps, "--", *argv]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run warpdeck ARGV. The capability is needed if only root can read the interpreter's folder (make
        test in /root).
        """
        command = self.argv(sys.executable, "-m", "warpdeck.cli.main", *argv, capability=READER)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=VERB_S,
            check=False,
        )

    def ok(self, *argv: str) -> str:
        result = self.run(*argv)
        assert result.returncode == 0, f"{self.name}: warpdeck {argv}: {result.stdout}{result.stderr}"
        return result.stdout

    def submit(self, command: str, *options: str) -> int:
        return int(
            json.loads(self.ok("submit", "--json", "--no-snapshot", *options, "--wrap", command))["job_id"]
        )

    def refused(self, *argv: str) -> str:
        result = self.run(*argv)
        assert (result.returncode, result.stdout) == (1, ""), f"{argv}: {result.stdout}"
        return result.stderr


@pytest.fixture(scope="module")
def accounts(lab: Lab) -> Iterator[None]:
    """Two users and a group that only this test run sees."""
    folder = Path(tempfile.mkdtemp(prefix="wdetc", dir="/var/tmp"))
    lines = {
        "passwd": f"alice:x:{ALICE}:{ALICE}::/nonexistent:/bin/sh\nbob:x:{BOB}:{BOB}::/nonexistent:/bin/sh\n",
        "group": f"alice:x:{ALICE}:\nbob:x:{BOB}:\nresearch:x:{RESEARCH}:alice\n",
    }
    for name, text in lines.items():
        copy = folder / name
        copy.write_text(Path("/etc", name).read_text() + text)
        subprocess.run(["mount", "--bind", str(copy), f"/etc/{name}"], check=True)
    yield
    for name in lines:
        subprocess.run(["umount", "--lazy", f"/etc/{name}"], check=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def folder(accounts: None) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def site(lab: Lab, folder: Path) -> Iterator[Home]:
    """Root's shared controller with this machine as a node."""
    path = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    closed = path.run("up", "--shared")
    assert closed.returncode == 1 and f"{folder} is not accessible to other users" in closed.stderr
    folder.chmod(0o711)
    path.ok("up", "--shared")
    eventually(lambda: path.json("node", "ls")[0]["state"] == "idle", what="the node is up")
    yield path
    path.close()


@pytest.fixture(scope="module")
def alice(site: Home, folder: Path) -> User:
    return User(site, "alice", ALICE, folder / "alice")


@pytest.fixture(scope="module")
def bob(site: Home, folder: Path) -> User:
    return User(site, "bob", BOB, folder / "bob")


def wait_for_end(site: Home, job: int) -> dict[str, Any]:
    eventually(lambda: site.job(job)["end"], what=f"job {job} has ended")
    return site.job(job)


def test_a_job_runs_as_its_user_with_all_groups(site: Home, alice: User) -> None:
    job = alice.submit("id -u; id -G; umask")
    row = wait_for_end(site, job)
    assert (row["state"], row["user"]) == ("COMPLETED", "alice")
    output = alice.folder / f"slurm-{job}.out"
    assert output.read_text().splitlines()[:2] == [str(ALICE), f"{ALICE} {RESEARCH}"]
    assert output.stat().st_uid == ALICE
    assert json.loads(alice.ok("status", "--json"))["user"] == "alice"


def test_slurm_commands_run_with_the_rights_of_their_caller(site: Home, alice: User) -> None:
    def run_slurm(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            alice.argv(sys.executable, "-m", "warpdeck.slurm.runtime.entry", *argv, capability=READER),
            cwd=alice.folder,
            env=alice.environ,
            capture_output=True,
            text=True,
            timeout=VERB_S,
            check=False,
        )

    job = alice.submit("true", "--hold")
    assert run_slurm("squeue", "--me", "-h", "-o", "%i %u").stdout == f"{job} alice\n"
    assert run_slurm("scontrol", "reconfigure").returncode == 1
    assert run_slurm("scontrol", "update", f"job={job}", "nice=-5").returncode == 1
    assert run_slurm("scancel", str(job)).returncode == 0
    assert site.job(job)["state"] == "CANCELLED"


def test_each_user_has_a_separate_submitter(site: Home, alice: User, bob: User) -> None:
    def sbatch(user: User, program: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            user.argv("/bin/sh", program, "-H", "--parsable", "--wrap", "true", capability=READER),
            cwd=user.folder,
            env=user.environ,
            capture_output=True,
            text=True,
            timeout=VERB_S,
            check=False,
        )

    program = Path(alice.ok("shims", "--folder").strip()) / "sbatch"
    (folder,) = re.findall(r"^for folder in (/dev/shm/\S+); do", program.read_text(), flags=re.M)
    jobs = [sbatch(alice, str(program))]
    eventually(Path(folder, "ask").exists, what="alice's submitter listens")
    sbatch_copy = alice.folder / "asking"  # This script starts no submitter.
    sbatch_copy.write_text(
        script(
            head="#", home=alice.environ["WARPDECK_HOME"], folder=folder, interpreter="/bin/false", folders=[]
        )
    )
    jobs.append(sbatch(alice, str(sbatch_copy)))
    assert [(result.returncode, result.stderr) for result in jobs] == [(0, "")] * 2
    assert [site.job(result.stdout.strip())["user"] for result in jobs] == ["alice"] * 2
    folder_stat = os.stat(folder)
    assert (folder_stat.st_uid, folder_stat.st_mode & 0o777) == (ALICE, 0o700)
    # The folder is not bob's, so his sbatch contacts no submitter.
    assert sbatch(bob, str(sbatch_copy)).returncode == 1
    alice.ok("cancel", *(result.stdout.strip() for result in jobs))


COMMANDS_ON_ANOTHER_JOB = """
try() {{ "$@" </dev/null >>output 2>&1; echo "$? $*" >>codes; }}
squeue -h -j {alices_job} -o %u > seen
sacct -n -X -P -o user > history
sacct -B -j {alices_job} > script
for order in hold release requeue suspend; do try scontrol $order {alices_job}; done
try scancel {alices_job}
try scancel -s USR1 {alices_job}
try scontrol update jobid={alices_job} timelimit=1
try scontrol notify {alices_job} hello
try scontrol write batch_script {alices_job} -
try scontrol update nodename={node} state=drain reason=mine
try scontrol update partitionname=main state=down
try scontrol reconfigure
try srun --jobid={alices_job} --overlap id
own=$(sbatch --parsable --hold -o /dev/null --wrap true)
scontrol release $own && scontrol hold $own && scancel $own && echo $own > own
"""


def test_commands_in_a_job_cannot_change_jobs_of_other_users(site: Home, alice: User, bob: User) -> None:
    alices_job = alice.submit("sleep 600 # a secret")
    eventually(lambda: site.state(alices_job) == "RUNNING", what="alice's job runs")
    node = site.json("node", "ls")[0]["name"]
    job = bob.submit(
        COMMANDS_ON_ANOTHER_JOB.format(alices_job=alices_job, node=node), "-t", "5", "-D", str(bob.folder)
    )
    row = wait_for_end(site, job)

    def text(name: str) -> str:
        return (bob.folder / name).read_text()

    assert row["state"] == "COMPLETED", row
    assert text("seen") == "alice\n"
    assert set(text("history").split()) == {"bob"}
    assert "secret" not in text("script") + text("output")
    codes = [line.partition(" ") for line in text("codes").splitlines()]
    assert len(codes) == 13
    # If scontrol refuses to show a script, it prints that and exits with code 0, as in Slurm.
    assert [command for code, _, command in codes if code == "0"] == [
        f"scontrol write batch_script {alices_job} -"
    ]
    assert "job script retrieval failed" in text("output")
    assert "Access/permission denied" in text("output")
    assert site.job(int(text("own")))["state"] == "CANCELLED" and site.job(int(text("own")))["user"] == "bob"
    assert site.state(alices_job) == "RUNNING"
    assert site.json("node", "ls")[0]["state"] != "drained"
    alice.ok("cancel", str(alices_job))


def test_a_terminal_runs_as_its_user(alice: User, bob: User) -> None:
    assert alice.ok("run", "--pty", "id", "-u").split() == [str(ALICE)]
    assert bob.ok("run", "--pty", "sh", "-c", "tty && id -u").split()[-1] == str(BOB)


def test_others_may_watch_a_terminal_only_if_the_site_allows_it(site: Home, alice: User, bob: User) -> None:
    session = AtTerminal(site, "run", "--pty", "env", "PS1=> ", "sh", prefix=alice.argv(capability=READER))
    try:
        session.until("> ")
        row = max(
            json.loads(alice.ok("queue", "--json")), key=lambda row: row["id"]
        )  # Jobs of earlier tests may still be ending.
        assert "belongs to alice" in bob.refused("attach", "--watch", row["label"])
        config = site.path / "config.toml"
        config.write_text('[interactive]\nwatch = "all"\n')
        site.ok("config", "reload")
        watcher = AtTerminal(site, "attach", "--watch", row["label"], prefix=bob.argv(capability=READER))
        try:
            session.until("[warpdeck: bob watches]")
            session.type("echo shown-$((1+1))\n")
            watcher.until("shown-2")
        finally:
            watcher.close()
            config.unlink()
            site.ok("config", "reload")
        assert "belongs to alice" in bob.refused("attach", row["label"])
        session.type("exit\n")
        assert session.ended() == 0
    finally:
        session.close()


def test_steps_run_as_their_user_and_are_closed_to_others(site: Home, alice: User, bob: User) -> None:
    script = "srun sh -c 'id -u; id -G'; touch begun; while [ ! -e over ]; do sleep 0.05; done"
    job = alice.submit(script)
    eventually((alice.folder / "begun").exists, what="the step has run")
    output = alice.folder / f"slurm-{job}.out"
    assert output.read_text().splitlines() == [str(ALICE), f"{ALICE} {RESEARCH}"]
    assert "belongs to alice" in bob.refused("srun", "--overlap", "--jobid", str(job), "id")
    assert "belongs to alice" in bob.refused("cancel", f"{job}.0")
    assert alice.ok("srun", "--overlap", "--jobid", str(job), "id", "-u") == f"{ALICE}\n"
    identity = (site.path / "agent/identity").read_text()
    stolen = {
        name: value
        for name, _, value in (
            entry.partition("=") for entry in environment_of(f"WARPDECK_JOB={job}.0@{identity}").split("\0")
        )
        if name.startswith("WARPDECK_")
    }
    program = Path(stolen["WARPDECK_ACCESS"]).parent / "bin/srun"
    result = subprocess.run(
        bob.argv("env", *(f"{name}={value}" for name, value in stolen.items()), str(program), "id"),
        cwd=bob.folder,
        capture_output=True,
        text=True,
        timeout=VERB_S,
        check=False,
    )
    assert result.returncode == 1
    assert "does not belong to a job" in result.stderr
    (alice.folder / "over").touch()
    wait_for_end(site, job)


def environment_of(text: str) -> str:
    """Return the environment of a process whose environment contains the text."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environ = path.read_text(errors="replace")
        except OSError:
            continue
        if text in environ:
            return environ
    raise AssertionError(f"no process carries {text}")


def test_other_users_see_only_the_row_of_a_job(site: Home, alice: User, bob: User) -> None:
    job = str(alice.submit("echo secret; sleep 1000"))
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    users = {row["label"]: row["user"] for row in json.loads(bob.ok("queue", "--json"))}
    assert users[job] == "alice"
    for argv in (
        ["cancel", job],
        ["requeue", job],
        ["hold", job],
        ["logs", job],
        ["show", job],
        ["attach", job],
        ["attach", "--watch", job],
        ["forward", job, "8080:0"],
        ["proxy", f"wd-{job}"],
        ["jupyter", "--job", job],
        ["snapshot", "show", job],
        ["snapshot", "diff", job],
    ):
        assert "belongs to alice" in bob.refused(*argv), argv
    for argv in (["node", "rm", "--force", "x"], ["node", "drain", "x"], ["node", "add", "localhost"]):
        assert "only root and the controller's user" in bob.refused(*argv)
    assert "belongs to another user" in bob.refused("down")
    assert site.state(job) == "RUNNING"
    assert "secret" in alice.ok("logs", job)
    alice.ok("cancel", job)
    assert wait_for_end(site, int(job))["state"] == "CANCELLED"


def test_a_client_that_claims_to_be_another_user_acts_as_itself(site: Home, alice: User, bob: User) -> None:
    job = alice.submit("sleep 1000")
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    link = connect_as(bob.uid, site.path / "warpdeck.sock")
    claim = {"user": "root", "uid": 0, "who": {"user": "root", "uid": 0, "admin": True}}
    with link:
        link.sendall(json_frame({"t": "hello", "version": 1, **claim}))
        link.sendall(json_frame({"t": "cancel", "id": 1, "jobs": [str(job)], **claim}))
        assert "belongs to alice" in reply(link, 1)["message"]
        request = {
            "script": "#!/bin/sh\nid -u\n",
            "submit_dir": str(bob.folder),
            "env": {"USER": "root", "LOGNAME": "root"},
        }
        link.sendall(json_frame({"t": "submit", "id": 2, "request": request, **claim}))
        bobs_job = reply(link, 2)["result"]["job_id"]
        assert wait_for_end(site, bobs_job)["user"] == "bob"
        assert (bob.folder / f"slurm-{bobs_job}.out").read_text() == f"{BOB}\n"
        link.sendall(json_frame({"t": "submit", "id": 3, "request": {**request, **claim}}))
        answer = reply(link, 3)
        if answer["t"] == "ok":
            assert wait_for_end(site, answer["result"]["job_id"])["user"] == "bob"
    assert site.state(job) == "RUNNING"
    alice.ok("cancel", str(job))


def connect_as(uid: int, path: Path) -> socket.socket:
    """Return a connection that a process of that user has opened."""
    receiver, sender = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(path))
        socket.send_fds(sender, [b"x"], [link.fileno()])
        os._exit(0)
    _, descriptors, _, _ = socket.recv_fds(receiver, 1, 1)
    os.waitpid(pid, 0)
    receiver.close()
    sender.close()
    return socket.socket(fileno=descriptors[0])


def reply(link: socket.socket, number: int) -> dict[str, Any]:
    decoder = FrameDecoder()
    link.settimeout(VERB_S)
    while True:
        for _, payload in decoder.feed(link.recv(65536)):
            message = parse_json(payload)
            if message.get("id") == number and message["t"] in ("ok", "error"):
                return message


def test_a_link_in_place_of_the_output_shows_no_file_of_others(site: Home, alice: User) -> None:
    private = site.path.parent / "private"
    private.write_text("not for alice\n")
    private.chmod(0o600)
    job = alice.submit("echo mine")
    wait_for_end(site, job)
    output = alice.folder / f"slurm-{job}.out"
    output.unlink()
    output.symlink_to(private)
    result = alice.run("logs", str(job))
    assert result.returncode == 1 and "not for alice" not in result.stdout + result.stderr


def test_users_can_access_only_the_socket_in_the_home(site: Home, alice: User) -> None:
    script_of_checks = (
        f"cd {site.path} && [ -w warpdeck.sock ] && ! ls . && ! cat state.db controller.log known_hosts"
    )
    result = subprocess.run(
        alice.argv("sh", "-c", script_of_checks), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert site.path.stat().st_mode & 0o777 == 0o711
    open_to_users = {"warpdeck.sock": 0o666, "agent": 0o711}
    for entry in site.path.iterdir():
        mode = entry.lstat().st_mode & 0o777
        assert mode == open_to_users.get(entry.name, mode & 0o700), f"{entry.name}: {mode:o}"


def test_only_root_can_share_a_controller(alice: User) -> None:
    assert "only root can share a controller" in alice.refused("up", "--shared")


def test_the_home_of_the_site_is_the_default_for_all_users(lab: Lab, alice: User) -> None:
    default_home = Home(Path(SITE_HOME), HOME=alice.environ["HOME"])
    del default_home.environ["WARPDECK_HOME"]
    user_of_home = User(default_home, "alice", ALICE, alice.folder / "again")
    try:
        default_home.ok("up", "--shared", "--no-local-node", cwd=Path("/"))
        status = json.loads(user_of_home.ok("status", "--json"))
        assert (status["home"], status["user"]) == (SITE_HOME, "alice")
    finally:
        default_home.run("down", cwd=Path("/"))
        shutil.rmtree(SITE_HOME)


def test_output_from_a_node_without_the_folder_is_written_as_the_user(
    site: Home, lab: Lab, alice: User, folder: Path
) -> None:
    etc = lab.base / "3" / "etc"
    for name in ("passwd", "group"):
        (etc / name).write_text(Path("/etc", name).read_text())
    target = f"root@{lab.address(3)}"
    site.ok("node", "add", target, "--name", "far", "--accept-host-key", lab.fingerprint(3))
    with lab.small_disk(3, "/tmp"):
        job = alice.submit("id -u", "-w", "far", "-o", "deep/er/out.txt")
        output = alice.folder / "deep" / "er" / "out.txt"
        eventually(lambda: output.exists() and output.read_text() == f"{ALICE}\n", what="the output")
        assert [output.stat().st_uid, output.parent.stat().st_uid, output.stat().st_gid] == [
            ALICE,
            ALICE,
            ALICE,
        ]
        for path in (folder / "root" / "x.out", folder / "alice-is-not-here.out"):
            job = alice.submit("id -u", "-w", "far", "-o", str(path))
            eventually(
                lambda job=job: "Permission denied" in history(alice, job), what="the error is in the history"
            )
            wait_for_end(site, job)
            assert not path.exists()
    site.ok("node", "rm", "far")


def history(user: User, job: int) -> str:
    detail = json.loads(user.ok("show", str(job), "--json"))
    return "\n".join(event["text"] for event in detail["events"])
