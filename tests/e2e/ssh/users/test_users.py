"""One controller of root's for several users: each job runs as its user, and nobody gets at another's."""

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
"""What lets a user run an interpreter that lies where only root can read."""


class User:
    """A user of this machine with a folder of their own."""

    def __init__(self, home: Home, name: str, uid: int, folder: Path) -> None:
        self.name, self.uid, self.folder = name, uid, folder
        folder.mkdir(mode=0o755)
        os.chown(folder, uid, uid)
        self.environ = {**home.environ, "HOME": str(folder), "USER": name}

    def argv(self, *argv: str, capability: str = "") -> list[str]:
        """A command with the user's ids and groups."""
        caps = [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}"] if capability else []
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--init-groups", *caps, "--", *argv]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """warpdeck ARGV. The interpreter may lie where only root can read (make test in /root), hence the capability."""
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
        done = self.run(*argv)
        assert done.returncode == 0, f"{self.name}: warpdeck {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, command: str, *options: str) -> int:
        return int(
            json.loads(self.ok("submit", "--json", "--no-snapshot", *options, "--wrap", command))["job_id"]
        )

    def refused(self, *argv: str) -> str:
        done = self.run(*argv)
        assert (done.returncode, done.stdout) == (1, ""), f"{argv}: {done.stdout}"
        return done.stderr


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
    made = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def site(lab: Lab, folder: Path) -> Iterator[Home]:
    """Root's controller for everybody, with this machine as a node."""
    made = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    closed = made.run("up", "--shared")
    assert closed.returncode == 1 and f"{folder} is not accessible to other users" in closed.stderr
    folder.chmod(0o711)
    made.ok("up", "--shared")
    eventually(lambda: made.json("node", "ls")[0]["state"] == "idle", what="the node is up")
    yield made
    made.close()


@pytest.fixture(scope="module")
def alice(site: Home, folder: Path) -> User:
    return User(site, "alice", ALICE, folder / "alice")


@pytest.fixture(scope="module")
def bob(site: Home, folder: Path) -> User:
    return User(site, "bob", BOB, folder / "bob")


def ended(site: Home, job: int) -> dict[str, Any]:
    eventually(lambda: site.job(job)["end"], what=f"job {job} has ended")
    return site.job(job)


def test_a_job_runs_as_its_user_with_all_groups(site: Home, alice: User) -> None:
    job = alice.submit("id -u; id -G; umask")
    row = ended(site, job)
    assert (row["state"], row["user"]) == ("COMPLETED", "alice")
    output = alice.folder / f"slurm-{job}.out"
    assert output.read_text().splitlines()[:2] == [str(ALICE), f"{ALICE} {RESEARCH}"]
    assert output.stat().st_uid == ALICE
    assert json.loads(alice.ok("status", "--json"))["user"] == "alice"


def test_slurms_commands_are_their_callers(site: Home, alice: User) -> None:
    def call(*argv: str) -> subprocess.CompletedProcess[str]:
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
    assert call("squeue", "--me", "-h", "-o", "%i %u").stdout == f"{job} alice\n"
    assert call("scontrol", "reconfigure").returncode == 1
    assert call("scontrol", "update", f"job={job}", "nice=-5").returncode == 1
    assert call("scancel", str(job)).returncode == 0
    assert site.job(job)["state"] == "CANCELLED"


def test_a_users_shells_have_a_submitter_of_their_own(site: Home, alice: User, bob: User) -> None:
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
    eventually(Path(folder, "ask").exists, what="alice's submitter can be asked")
    asking = alice.folder / "asking"  # begins nothing else
    asking.write_text(
        script(
            head="#", home=alice.environ["WARPDECK_HOME"], folder=folder, interpreter="/bin/false", folders=[]
        )
    )
    jobs.append(sbatch(alice, str(asking)))
    assert [(done.returncode, done.stderr) for done in jobs] == [(0, "")] * 2
    assert [site.job(done.stdout.strip())["user"] for done in jobs] == ["alice"] * 2
    found = os.stat(folder)
    assert (found.st_uid, found.st_mode & 0o777) == (ALICE, 0o700)
    assert sbatch(bob, str(asking)).returncode == 1  # it is not his, and he asks nobody
    alice.ok("cancel", *(done.stdout.strip() for done in jobs))


ASKED_IN_BOBS_JOB = """
try() {{ "$@" </dev/null >>said 2>&1; echo "$? $*" >>codes; }}
squeue -h -j {theirs} -o %u > seen
sacct -n -X -P -o user > history
sacct -B -j {theirs} > script
for order in hold release requeue suspend; do try scontrol $order {theirs}; done
try scancel {theirs}
try scancel -s USR1 {theirs}
try scontrol update jobid={theirs} timelimit=1
try scontrol notify {theirs} hello
try scontrol write batch_script {theirs} -
try scontrol update nodename={node} state=drain reason=mine
try scontrol update partitionname=main state=down
try scontrol reconfigure
try srun --jobid={theirs} --overlap id
own=$(sbatch --parsable --hold -o /dev/null --wrap true)
scontrol release $own && scontrol hold $own && scancel $own && echo $own > own
"""


def test_a_jobs_commands_are_its_users_and_change_nobody_elses(site: Home, alice: User, bob: User) -> None:
    theirs = alice.submit("sleep 600 # a secret")
    eventually(lambda: site.state(theirs) == "RUNNING", what="alice's job runs")
    node = site.json("node", "ls")[0]["name"]
    job = bob.submit(ASKED_IN_BOBS_JOB.format(theirs=theirs, node=node), "-t", "5", "-D", str(bob.folder))
    found = ended(site, job)

    def text(name: str) -> str:
        return (bob.folder / name).read_text()

    assert found["state"] == "COMPLETED", found
    assert text("seen") == "alice\n"
    assert set(text("history").split()) == {"bob"}
    assert "secret" not in text("script") + text("said")
    codes = [line.partition(" ") for line in text("codes").splitlines()]
    assert len(codes) == 13
    # Of a script that it does not show Slurm's scontrol says so, and ends with 0.
    assert [command for code, _, command in codes if code == "0"] == [
        f"scontrol write batch_script {theirs} -"
    ]
    assert "job script retrieval failed" in text("said")
    assert "Access/permission denied" in text("said")
    assert site.job(int(text("own")))["state"] == "CANCELLED" and site.job(int(text("own")))["user"] == "bob"
    assert site.state(theirs) == "RUNNING"
    assert site.json("node", "ls")[0]["state"] != "drained"
    alice.ok("cancel", str(theirs))


def test_a_terminal_is_its_users_whatever_python_the_controller_runs_on(alice: User, bob: User) -> None:
    assert alice.ok("run", "--pty", "id", "-u").split() == [str(ALICE)]
    assert bob.ok("run", "--pty", "sh", "-c", "tty && id -u").split()[-1] == str(BOB)


def test_a_terminal_is_watched_by_others_only_where_the_site_lets_them(
    site: Home, alice: User, bob: User
) -> None:
    session = AtTerminal(site, "run", "--pty", "env", "PS1=> ", "sh", prefix=alice.argv(capability=READER))
    try:
        session.until("> ")
        row = max(
            json.loads(alice.ok("queue", "--json")), key=lambda row: row["id"]
        )  # others may still be ending
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


def test_steps_are_their_users_and_nobody_elses(site: Home, alice: User, bob: User) -> None:
    script = "srun sh -c 'id -u; id -G'; touch begun; while [ ! -e over ]; do sleep 0.05; done"
    job = alice.submit(script)
    eventually((alice.folder / "begun").exists, what="its step has run")
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
    done = subprocess.run(
        bob.argv("env", *(f"{name}={value}" for name, value in stolen.items()), str(program), "id"),
        cwd=bob.folder,
        capture_output=True,
        text=True,
        timeout=VERB_S,
        check=False,
    )
    assert done.returncode == 1
    assert "no process of a job" in done.stderr
    (alice.folder / "over").touch()
    ended(site, job)


def environment_of(words: str) -> str:
    """The environment of a process that carries these words in it."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found = path.read_text(errors="replace")
        except OSError:
            continue
        if words in found:
            return found
    raise AssertionError(f"no process carries {words}")


def test_others_see_the_row_and_nothing_more(site: Home, alice: User, bob: User) -> None:
    job = str(alice.submit("echo secret; sleep 1000"))
    eventually(lambda: site.state(job) == "RUNNING", what="it runs")
    seen = {row["label"]: row["user"] for row in json.loads(bob.ok("queue", "--json"))}
    assert seen[job] == "alice"
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
    assert ended(site, int(job))["state"] == "CANCELLED"


def test_a_client_that_claims_to_be_another_is_taken_for_itself(site: Home, alice: User, bob: User) -> None:
    job = alice.submit("sleep 1000")
    eventually(lambda: site.state(job) == "RUNNING", what="it runs")
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
        own = reply(link, 2)["result"]["job_id"]
        assert ended(site, own)["user"] == "bob"
        assert (bob.folder / f"slurm-{own}.out").read_text() == f"{BOB}\n"
        link.sendall(json_frame({"t": "submit", "id": 3, "request": {**request, **claim}}))
        answer = reply(link, 3)
        if answer["t"] == "ok":
            assert ended(site, answer["result"]["job_id"])["user"] == "bob"
    assert site.state(job) == "RUNNING"
    alice.ok("cancel", str(job))


def connect_as(uid: int, path: Path) -> socket.socket:
    """A connection that a process of that user has made."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(path))
        socket.send_fds(theirs, [b"x"], [link.fileno()])
        os._exit(0)
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    os.waitpid(pid, 0)
    ours.close()
    theirs.close()
    return socket.socket(fileno=descriptors[0])


def reply(link: socket.socket, number: int) -> dict[str, Any]:
    decoder = FrameDecoder()
    link.settimeout(VERB_S)
    while True:
        for _, payload in decoder.feed(link.recv(65536)):
            message = parse_json(payload)
            if message.get("id") == number and message["t"] in ("ok", "error"):
                return message


def test_a_link_in_place_of_the_output_shows_nobody_elses_file(site: Home, alice: User) -> None:
    private = site.path.parent / "private"
    private.write_text("not for alice\n")
    private.chmod(0o600)
    job = alice.submit("echo mine")
    ended(site, job)
    output = alice.folder / f"slurm-{job}.out"
    output.unlink()
    output.symlink_to(private)
    done = alice.run("logs", str(job))
    assert done.returncode == 1 and "not for alice" not in done.stdout + done.stderr


def test_users_reach_the_socket_and_nothing_else_of_the_home(site: Home, alice: User) -> None:
    look = f"cd {site.path} && [ -w warpdeck.sock ] && ! ls . && ! cat state.db controller.log known_hosts"
    done = subprocess.run(alice.argv("sh", "-c", look), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert site.path.stat().st_mode & 0o777 == 0o711
    open_to_users = {"warpdeck.sock": 0o666, "agent": 0o711}
    for entry in site.path.iterdir():
        mode = entry.lstat().st_mode & 0o777
        assert mode == open_to_users.get(entry.name, mode & 0o700), f"{entry.name}: {mode:o}"


def test_only_root_shares_a_controller(alice: User) -> None:
    assert "only root can share a controller" in alice.refused("up", "--shared")


def test_the_sites_home_is_everybodys_default(lab: Lab, alice: User) -> None:
    made = Home(Path(SITE_HOME), HOME=alice.environ["HOME"])
    del made.environ["WARPDECK_HOME"]
    anybody = User(made, "alice", ALICE, alice.folder / "again")
    try:
        made.ok("up", "--shared", "--no-local-node", cwd=Path("/"))
        found = json.loads(anybody.ok("status", "--json"))
        assert (found["home"], found["user"]) == (SITE_HOME, "alice")
    finally:
        made.run("down", cwd=Path("/"))
        shutil.rmtree(SITE_HOME)


def test_output_of_a_node_without_the_folder_is_written_as_the_user(
    site: Home, lab: Lab, alice: User, folder: Path
) -> None:
    place = lab.base / "3" / "etc"
    for name in ("passwd", "group"):
        (place / name).write_text(Path("/etc", name).read_text())
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
            eventually(lambda job=job: "Permission denied" in history(alice, job), what="it is said")
            ended(site, job)
            assert not path.exists()
    site.ok("node", "rm", "far")


def history(user: User, job: int) -> str:
    detail = json.loads(user.ok("show", str(job), "--json"))
    return "\n".join(event["text"] for event in detail["events"])
