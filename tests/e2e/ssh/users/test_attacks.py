"""Three users of a shared site attack each other and root. The attacks fail, and the controller reports them
with clear messages.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import socket
import struct
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.ssh.users.test_recreated_accounts import HELLO, Client
from tests.e2e.ssh.users.test_users import User, connect_as
from tests.lab.hosts import Lab
from tests.support.home import VERB_S, Home
from tests.support.processes import running
from tests.support.waiting import eventually

from warpdeck_agent.wire.frames import JSON, FrameDecoder, data_frame, json_frame, pack, parse_json

pytestmark = pytest.mark.lab

UIDS = {"ada": 21_801, "bob": 21_802, "carol": 21_803}


@pytest.fixture(scope="module")
def accounts(lab: Lab) -> Iterator[None]:
    folder = Path(tempfile.mkdtemp(prefix="wdetc", dir="/var/tmp"))
    lines = {
        "passwd": "".join(f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n" for name, uid in UIDS.items()),
        "group": "".join(f"{name}:x:{uid}:\n" for name, uid in UIDS.items()),
    }
    for name, text in lines.items():
        (folder / name).write_text(Path("/etc", name).read_text() + text)
        subprocess.run(["mount", "--bind", str(folder / name), f"/etc/{name}"], check=True)
    yield
    for name in lines:
        subprocess.run(["umount", "--lazy", f"/etc/{name}"], check=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def site(lab: Lab, accounts: None) -> Iterator[Home]:
    """A shared site. At its end, the controller's log must contain no traceback."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o711)
    site_home = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    site_home.ok("up", "--shared")
    site_home.wait_for_idle_node()
    yield site_home
    log = (site_home.path / "controller.log").read_text()
    site_home.close()
    shutil.rmtree(folder, ignore_errors=True)
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]


@pytest.fixture(scope="module")
def ada(site: Home) -> User:
    return User(site, "ada", UIDS["ada"], site.path.parent / "ada")


@pytest.fixture(scope="module")
def bob(site: Home) -> User:
    return User(site, "bob", UIDS["bob"], site.path.parent / "bob")


@pytest.fixture(scope="module")
def carol(site: Home) -> User:
    return User(site, "carol", UIDS["carol"], site.path.parent / "carol")


def submit_request(site: Home, user: User, script: str, **fields: Any) -> str:
    """Submit a job with a handmade request and return its id."""
    with contextlib.closing(Client(site, user.uid)) as client:
        request = {"script": f"#!/bin/sh\n{script}\n", "submit_dir": str(user.folder), **fields}
        request.setdefault("env", {"PATH": os.environ["PATH"]})
        answer = client.request("submit", {"request": request})
    assert answer["t"] == "ok", answer
    return str(answer["result"]["job_id"])


def wait_for_end(site: Home, job: str) -> str:
    """Wait until the job has ended and return its state."""
    eventually(lambda: site.job(job)["end"], what=f"job {job} has ended")
    return site.state(job)


def write_file(user: User, path: str, text: str, mode: int = 0o755) -> Path:
    file_path = user.folder / path
    file_path.write_text(text)
    file_path.chmod(mode)
    os.chown(file_path, user.uid, user.uid)
    return file_path


def private_folder(user: User, name: str) -> Path:
    """Return a folder with one file that only the user can read."""
    folder = user.folder / name
    folder.mkdir(mode=0o700)
    (folder / "kept").write_text("of one user alone\n")
    for path in (folder, folder / "kept"):
        os.chown(path, user.uid, user.uid)
    return folder


def test_git_settings_in_a_users_home_run_nothing_as_root(site: Home, ada: User) -> None:
    """sudo and su may keep HOME."""
    ran = ada.folder / "ran"
    hook = write_file(ada, "reference-transaction", f"#!/bin/sh\nid -u >> {ran}\n")
    for name in ("post-index-change", "fsmonitor"):
        write_file(ada, name, hook.read_text())
    settings = f"[core]\n\thooksPath = {ada.folder}\n\tfsmonitor = {ada.folder}/fsmonitor\n"
    write_file(ada, ".gitconfig", settings, 0o644)
    code = site.path.parent / "code"
    code.mkdir()
    (code / "run.py").write_text("one\n")
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    home_of_ada = Home(site.path, HOME=str(ada.folder), SSH_AUTH_SOCK="")
    home_of_ada.run(
        "submit", "--require-snapshot", "--hold", "--chdir", str(code), "--wrap", "true", cwd=code
    )
    assert not ran.exists()


def test_claimed_user_names_and_uids_in_requests_are_ignored(site: Home, ada: User, carol: User) -> None:
    job = submit_request(site, ada, "true", hold=True, name="mine")
    with contextlib.closing(Client(site, carol.uid)) as client:
        for claim in ({"user": "ada"}, {"uid": ada.uid}, {"user": "Ada", "uid": ada.uid, "admin": True}):
            assert "belongs to ada" in client.request("job", {"job": job, **claim})["message"]
            assert "belongs to ada" in client.request("cancel", {"jobs": [job], **claim})["message"]
    assert site.state(job) == "PENDING"
    site.ok("cancel", job)


def test_a_process_with_a_forged_job_tag_survives_the_end_of_that_job(
    site: Home, ada: User, carol: User
) -> None:
    job = submit_request(site, ada, "sleep 1000", name="marked")
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    identity = (site.path / "agent/identity").read_text()
    marks = [f"WARPDECK_JOB={job}.0@{identity}", "WARPDECK_TOKEN="]
    forged = subprocess.Popen(carol.argv("env", *marks, "sleep", "1000"), cwd="/")
    try:
        site.ok("cancel", job)
        assert wait_for_end(site, job) == "CANCELLED"
        assert forged.poll() is None
    finally:
        forged.kill()
        forged.wait()


def test_hostile_start_files_delay_no_other_job_and_leave_no_process(
    site: Home, ada: User, bob: User
) -> None:
    """The start files ignore signals, leave their session, and close or fill their output."""
    seconds = f"10{ada.uid}"
    sleep_command = f"sleep {seconds}"
    profile = f"trap '' TERM HUP INT\nsetsid {sleep_command} &\ncase $(($$ % 2)) in 0) exec >&- 2>&-;; esac\n{sleep_command}\n"
    for name in (".profile", ".bash_profile"):
        write_file(ada, name, profile, 0o644)
    env = {"PATH": os.environ["PATH"], "HOME": str(ada.folder)}
    jobs = [submit_request(site, ada, "true", user_env=True, env=env)]  # One CPU stays free for other jobs.
    eventually(lambda: running(seconds), what="a start file runs")
    assert wait_for_end(site, submit_request(site, bob, "true")) == "COMPLETED"
    assert running(seconds), "bob's job did not wait for the start file"
    site.run("cancel", *jobs)  # Some jobs may have ended without the variables, after the time limit.
    for job in jobs:
        wait_for_end(site, job)
    eventually(lambda: not running(seconds), what="no process of the start files is left")


def upload_tree(site: Home, user: User, tree: str, data: bytes, *, sha256: str = "", size: int = 0) -> str:
    """Upload a tree and return the type of the answer: "ok" or "error"."""
    with contextlib.closing(connect_as(user.uid, site.path / "warpdeck.sock")) as link:
        link.settimeout(VERB_S)
        announcement = {
            "tree": tree,
            "sha256": sha256 or hashlib.sha256(data).hexdigest(),
            "size_bytes": size or len(data),
        }
        decoder = FrameDecoder()
        link.sendall(json_frame(HELLO) + json_frame({"t": "put_tree", "id": 4, **announcement}))
        while True:
            for _, payload in decoder.feed(link.recv(65536)):
                answer = parse_json(payload)["t"]
                if answer in ("ok", "error"):
                    return str(answer)
                if answer == "ack" and data:
                    link.sendall(data_frame(4, data) + json_frame({"t": "end", "stream": 4}))
                    data = b""


def make_archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid = kind, link, 0o6777, 0
    return info, data


def submit_code(site: Home, user: User, tree: str, script: str, **snapshot: Any) -> str:
    snapshot_fields = {
        "commit": "0" * 40,
        "tree": tree,
        "root": str(user.folder),
        "sha256": "0" * 64,
        "size_bytes": 1,
        **snapshot,
    }
    return submit_request(site, user, script, snapshot=snapshot_fields)


def test_hostile_archives_write_nothing_outside_their_folder(site: Home, ada: User, carol: User) -> None:
    kept = private_folder(ada, "attacked")
    outside = site.path.parent / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    symbolic, hard, folder = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
    refused = {
        "dots": make_archive(member("../../evil", b"x")),
        "absolute": make_archive(member(f"{outside}/evil", b"x")),
        "through": make_archive(member("d", kind=symbolic, link=str(outside)), member("d/evil", b"x")),
        "replaced": make_archive(
            member("d", kind=folder), member("d/e", b"x"), member("d/e", kind=symbolic, link=str(outside)),
            member("d/e/evil", b"x"),
        ),
        "hard": make_archive(member("h", kind=hard, link=f"{kept}/kept")),
        "device": make_archive(member("d", kind=tarfile.CHRTYPE)),
        "pipe": make_archive(member("p", kind=tarfile.FIFOTYPE)),
        "twice": gzip.compress(make_archive(member("a", b"x"))),
        "cut": make_archive(member("a", os.urandom(4096)))[:2000],
        "nothing": b"x",
    }  # fmt: skip
    jobs = {}
    for name, data in refused.items():
        tree = hashlib.sha1(name.encode()).hexdigest()
        assert upload_tree(site, carol, tree, data) == "ok"
        jobs[name] = submit_code(site, carol, tree, f"touch {carol.folder}/ran-{name}")
    tree = "5" * 40
    assert upload_tree(site, carol, tree, make_archive(member("s", b"x"))) == "ok"
    plain = submit_code(site, carol, tree, f"stat -c '%u %a' s > {carol.folder}/bits")
    assert wait_for_end(site, plain) == "COMPLETED"
    assert (carol.folder / "bits").read_text() == f"{carol.uid} 755\n", (
        "the archive sets no owner and no setuid bit"
    )
    for name, job in jobs.items():
        assert wait_for_end(site, job) in ("FAILED", "CANCELLED", "NODE_FAIL", "PENDING"), name
        assert not (carol.folder / f"ran-{name}").exists(), name
    assert list(outside.iterdir()) == [] and os.listdir(kept) == ["kept"]
    assert site.json("node", "ls")[0]["state"] in ("idle", "mixed", "allocated"), "the node stays available"


def swap_folder_and_link(folder: Path, link: Path, over: threading.Event) -> None:
    """Repeatedly exchange a folder and a link under one name until `over` is set."""
    name = folder.with_name("swapped")
    while not over.is_set():
        for path in (folder, link):
            with contextlib.suppress(OSError):
                path.rename(name)
                name.rename(path)


def test_a_folder_swapped_for_a_link_does_not_redirect_root(site: Home, ada: User, carol: User) -> None:
    kept = private_folder(ada, "private")
    real_folder, link = carol.folder / "real", carol.folder / "link"
    real_folder.mkdir()
    os.chown(real_folder, carol.uid, carol.uid)
    link.symlink_to(kept)
    over = threading.Event()
    swaps = threading.Thread(target=swap_folder_and_link, args=(real_folder, link, over))
    swaps.start()
    try:
        name = carol.folder / "swapped"
        script = f'echo out; for d in a b; do ln -s {kept} "$TMPDIR/$d"; done; mkdir "$TMPDIR/c"; ln -s {kept} "$TMPDIR/c/d"'
        jobs = [submit_request(site, carol, script, output=f"{name}/out-{number}") for number in range(4)]
        jobs += [submit_request(site, carol, script, chdir=str(name)) for _ in range(2)]
        for job in jobs:
            wait_for_end(site, job)
        assert "of one user alone" not in carol.run("logs", jobs[0]).stdout
    finally:
        over.set()
        swaps.join()
    assert os.listdir(kept) == ["kept"]
    assert (kept / "kept").read_text() == "of one user alone\n"


def test_the_digest_of_another_users_code_gives_no_access(site: Home, ada: User, carol: User) -> None:
    tree, other = "a" * 40, "b" * 40
    adas_tree, carols_tree = (
        make_archive(member("code", b"of ada\n")),
        make_archive(member("code", b"of carol\n")),
    )
    digest = hashlib.sha256(adas_tree).hexdigest()
    assert upload_tree(site, ada, tree, adas_tree) == "ok"
    first = submit_code(site, ada, tree, f"cat code > {ada.folder}/seen", sha256=digest)
    assert wait_for_end(site, first) == "COMPLETED" and (ada.folder / "seen").read_text() == "of ada\n"
    with contextlib.closing(Client(site, carol.uid)) as client:
        answer = client.request("have_tree", {"tree": tree})["result"]
        assert answer == {"have": False, "sha256": "", "size_bytes": 0}
        fields = {
            "commit": "0" * 40,
            "tree": tree,
            "root": "/",
            "sha256": digest,
            "size_bytes": len(adas_tree),
        }
        request = {"script": "#!/bin/sh\ncat code\n", "submit_dir": "/", "snapshot": fields}
        answer = client.request("submit", {"request": request})
        assert answer["t"] == "error" and "was not uploaded" in answer["message"]
    assert upload_tree(site, carol, other, carols_tree, sha256=digest) == "error"
    assert (
        upload_tree(
            site,
            carol,
            other,
            carols_tree[:-1],
            sha256=hashlib.sha256(carols_tree).hexdigest(),
            size=len(carols_tree),
        )
        == "error"
    )
    assert upload_tree(site, carol, "../../0/" + tree, carols_tree) == "error"
    assert upload_tree(site, carol, tree, carols_tree) == "ok"
    last = submit_code(site, carol, tree, f"cat code > {carol.folder}/seen", sha256=digest)
    assert wait_for_end(site, last) == "COMPLETED" and (carol.folder / "seen").read_text() == "of carol\n"


def test_malformed_messages_close_at_most_their_own_connection(site: Home, carol: User) -> None:
    deep = b"[" * 100_000
    texts = (b"", b"[]", b"null", b"{", b'{"t":1}', b'{"t":"x","id":1}', deep, b'{"t":"job","id":1,"job":' + deep,
             b'{"t":"cancel","id":1e999,"jobs":[]}', b'{"t":"job","id":NaN,"job":"1"}', b"\xff\xfe", b"1" * 4000,
             b'{"t":"job","id":3,"job":"\\ud800"}', b'{"t":"job","id":5,"job":"' + b"9" * 400 + b'"}',
             b'{"t":"records","id":7,"ids":["1_[0-999999999]"]}', b'{"t":"past","id":9,"filter":"\\u0000"}')  # fmt: skip
    frames = [pack(JSON, text) for text in texts]
    frames += [
        struct.pack(">IB", 2**32 - 1, JSON),
        struct.pack(">IB", 1, 255) + b"x",
        data_frame(77, b"x" * 70_000),
    ]
    for frame in frames:
        for hello in (b"", json_frame(HELLO)):
            with contextlib.closing(connect_as(carol.uid, site.path / "warpdeck.sock")) as link:
                link.settimeout(VERB_S)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    link.sendall(hello + frame)
                    link.shutdown(socket.SHUT_WR)
                    while link.recv(65536):
                        pass
    assert site.request("status")
