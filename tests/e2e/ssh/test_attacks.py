"""Three users of a shared site attack each other and root: in vain, and the controller says so in a sentence."""

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
from tests.e2e.ssh.test_remade_accounts import HELLO, Client
from tests.e2e.ssh.test_users import User, connect_as
from tests.lab.hosts import Lab
from tests.support.home import VERB_S, Home
from tests.support.processes import running
from tests.support.waiting import eventually

from warpdeck_agent.wire.frames import JSON, FrameDecoder, data_frame, json_frame, pack, parse_json

pytestmark = pytest.mark.lab

UIDS = {"ada": 21_801, "bob": 21_802, "carol": 21_803}


@pytest.fixture(scope="module")
def accounts(lab: Lab) -> Iterator[None]:
    place = Path(tempfile.mkdtemp(prefix="wdetc", dir="/var/tmp"))
    lines = {
        "passwd": "".join(f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n" for name, uid in UIDS.items()),
        "group": "".join(f"{name}:x:{uid}:\n" for name, uid in UIDS.items()),
    }
    for name, text in lines.items():
        (place / name).write_text(Path("/etc", name).read_text() + text)
        subprocess.run(["mount", "--bind", str(place / name), f"/etc/{name}"], check=True)
    yield
    for name in lines:
        subprocess.run(["umount", "--lazy", f"/etc/{name}"], check=True)
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def site(lab: Lab, accounts: None) -> Iterator[Home]:
    """At its end the log of the controller tells of no mistake in the program, whatever it was asked."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o711)
    made = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    made.ok("up", "--shared")
    made.wait_for_idle_node()
    yield made
    log = (made.path / "controller.log").read_text()
    made.close()
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


def submitted(site: Home, user: User, script: str, **fields: Any) -> str:
    """A job that was asked for by hand."""
    with contextlib.closing(Client(site, user.uid)) as client:
        request = {"script": f"#!/bin/sh\n{script}\n", "submit_dir": str(user.folder), **fields}
        request.setdefault("env", {"PATH": os.environ["PATH"]})
        answer = client.asks("submit", {"request": request})
    assert answer["t"] == "ok", answer
    return str(answer["result"]["job_id"])


def ended(site: Home, job: str) -> str:
    """The state in which it ended."""
    eventually(lambda: site.job(job)["end"], what=f"job {job} has ended")
    return site.state(job)


def written(user: User, path: str, text: str, mode: int = 0o755) -> Path:
    made = user.folder / path
    made.write_text(text)
    made.chmod(mode)
    os.chown(made, user.uid, user.uid)
    return made


def private_folder(user: User, name: str) -> Path:
    """With a file; nobody else may look into it."""
    made = user.folder / name
    made.mkdir(mode=0o700)
    (made / "kept").write_text("of one user alone\n")
    for each in (made, made / "kept"):
        os.chown(each, user.uid, user.uid)
    return made


def test_the_settings_of_git_in_a_users_home_run_nothing_as_root(site: Home, ada: User) -> None:
    """sudo and su may leave HOME as it was."""
    ran = ada.folder / "ran"
    hook = written(ada, "reference-transaction", f"#!/bin/sh\nid -u >> {ran}\n")
    for name in ("post-index-change", "fsmonitor"):
        written(ada, name, hook.read_text())
    settings = f"[core]\n\thooksPath = {ada.folder}\n\tfsmonitor = {ada.folder}/fsmonitor\n"
    written(ada, ".gitconfig", settings, 0o644)
    code = site.path.parent / "code"
    code.mkdir()
    (code / "run.py").write_text("one\n")
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    asks = Home(site.path, HOME=str(ada.folder), SSH_AUTH_SOCK="")
    asks.run("submit", "--require-snapshot", "--hold", "--chdir", str(code), "--wrap", "true", cwd=code)
    assert not ran.exists()


def test_a_name_in_other_letters_is_another_user(site: Home, ada: User, carol: User) -> None:
    job = submitted(site, ada, "true", hold=True, name="mine")
    with contextlib.closing(Client(site, carol.uid)) as client:
        for claim in ({"user": "ada"}, {"uid": ada.uid}, {"user": "Ada", "uid": ada.uid, "admin": True}):
            assert "belongs to ada" in client.asks("job", {"job": job, **claim})["message"]
            assert "belongs to ada" in client.asks("cancel", {"jobs": [job], **claim})["message"]
    assert site.state(job) == "PENDING"
    site.ok("cancel", job)


def test_a_process_with_the_mark_of_anothers_job_outlives_it(site: Home, ada: User, carol: User) -> None:
    job = submitted(site, ada, "sleep 1000", name="marked")
    eventually(lambda: site.state(job) == "RUNNING", what="it runs")
    identity = (site.path / "agent/identity").read_text()
    marks = [f"WARPDECK_JOB={job}.0@{identity}", "WARPDECK_TOKEN="]
    forged = subprocess.Popen(carol.argv("env", *marks, "sleep", "1000"), cwd="/")
    try:
        site.ok("cancel", job)
        assert ended(site, job) == "CANCELLED"
        assert forged.poll() is None
    finally:
        forged.kill()
        forged.wait()


def test_start_files_hold_up_nobody_and_leave_nothing(site: Home, ada: User, bob: User) -> None:
    """They ignore signals, leave their session, close their output or fill it."""
    stays = f"10{ada.uid}"
    sleeps = f"sleep {stays}"
    profile = (
        f"trap '' TERM HUP INT\nsetsid {sleeps} &\ncase $(($$ % 2)) in 0) exec >&- 2>&-;; esac\n{sleeps}\n"
    )
    for name in (".profile", ".bash_profile"):
        written(ada, name, profile, 0o644)
    env = {"PATH": os.environ["PATH"], "HOME": str(ada.folder)}
    jobs = [submitted(site, ada, "true", user_env=True, env=env)]  # one CPU is left to others
    eventually(lambda: running(stays), what="a start file runs")
    assert ended(site, submitted(site, bob, "true")) == "COMPLETED"
    assert running(stays), "it has not waited for the start file"
    site.run("cancel", *jobs)  # some may have ended without the variables, after the limit
    for job in jobs:
        ended(site, job)
    eventually(lambda: not running(stays), what="nothing of the start files is left")


def uploaded(site: Home, user: User, tree: str, data: bytes, *, sha256: str = "", size: int = 0) -> str:
    """The kind of the answer: "ok" or "error"."""
    with contextlib.closing(connect_as(user.uid, site.path / "warpdeck.sock")) as link:
        link.settimeout(VERB_S)
        asked = {
            "tree": tree,
            "sha256": sha256 or hashlib.sha256(data).hexdigest(),
            "size_bytes": size or len(data),
        }
        decoder = FrameDecoder()
        link.sendall(json_frame(HELLO) + json_frame({"t": "put_tree", "id": 4, **asked}))
        while True:
            for _, payload in decoder.feed(link.recv(65536)):
                said = parse_json(payload)["t"]
                if said in ("ok", "error"):
                    return str(said)
                if said == "ack" and data:
                    link.sendall(data_frame(4, data) + json_frame({"t": "end", "stream": 4}))
                    data = b""


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode, made.uid = kind, link, 0o6777, 0
    return made, data


def runs_code(site: Home, user: User, tree: str, script: str, **snapshot: Any) -> str:
    fields = {
        "commit": "0" * 40,
        "tree": tree,
        "root": str(user.folder),
        "sha256": "0" * 64,
        "size_bytes": 1,
        **snapshot,
    }
    return submitted(site, user, script, snapshot=fields)


def test_archives_write_nothing_outside_and_run_for_nobody_else(site: Home, ada: User, carol: User) -> None:
    kept = private_folder(ada, "attacked")
    outside = site.path.parent / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    symbolic, hard, folder = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
    refused = {
        "dots": packed(member("../../evil", b"x")),
        "absolute": packed(member(f"{outside}/evil", b"x")),
        "through": packed(member("d", kind=symbolic, link=str(outside)), member("d/evil", b"x")),
        "replaced": packed(
            member("d", kind=folder), member("d/e", b"x"), member("d/e", kind=symbolic, link=str(outside)),
            member("d/e/evil", b"x"),
        ),
        "hard": packed(member("h", kind=hard, link=f"{kept}/kept")),
        "device": packed(member("d", kind=tarfile.CHRTYPE)),
        "pipe": packed(member("p", kind=tarfile.FIFOTYPE)),
        "twice": gzip.compress(packed(member("a", b"x"))),
        "cut": packed(member("a", os.urandom(4096)))[:2000],
        "nothing": b"x",
    }  # fmt: skip
    jobs = {}
    for name, data in refused.items():
        tree = hashlib.sha1(name.encode()).hexdigest()
        assert uploaded(site, carol, tree, data) == "ok"
        jobs[name] = runs_code(site, carol, tree, f"touch {carol.folder}/ran-{name}")
    tree = "5" * 40
    assert uploaded(site, carol, tree, packed(member("s", b"x"))) == "ok"
    plain = runs_code(site, carol, tree, f"stat -c '%u %a' s > {carol.folder}/bits")
    assert ended(site, plain) == "COMPLETED"
    assert (carol.folder / "bits").read_text() == f"{carol.uid} 755\n", "no owner, no setuid bit"
    for name, job in jobs.items():
        assert ended(site, job) in ("FAILED", "CANCELLED", "NODE_FAIL", "PENDING"), name
        assert not (carol.folder / f"ran-{name}").exists(), name
    assert list(outside.iterdir()) == [] and os.listdir(kept) == ["kept"]
    assert site.json("node", "ls")[0]["state"] in ("idle", "mixed", "allocated"), "no user takes a node away"


def swapping(folder: Path, link: Path, over: threading.Event) -> None:
    """A name that is a folder at one moment and a link at the next, until it is over."""
    name = folder.with_name("swapped")
    while not over.is_set():
        for each in (folder, link):
            with contextlib.suppress(OSError):
                each.rename(name)
                name.rename(each)


def test_a_folder_that_becomes_a_link_leads_root_nowhere(site: Home, ada: User, carol: User) -> None:
    kept = private_folder(ada, "private")
    place, link = carol.folder / "real", carol.folder / "link"
    place.mkdir()
    os.chown(place, carol.uid, carol.uid)
    link.symlink_to(kept)
    over = threading.Event()
    swaps = threading.Thread(target=swapping, args=(place, link, over))
    swaps.start()
    try:
        name = carol.folder / "swapped"
        script = f'echo out; for d in a b; do ln -s {kept} "$TMPDIR/$d"; done; mkdir "$TMPDIR/c"; ln -s {kept} "$TMPDIR/c/d"'
        jobs = [submitted(site, carol, script, output=f"{name}/out-{number}") for number in range(4)]
        jobs += [submitted(site, carol, script, chdir=str(name)) for _ in range(2)]
        for job in jobs:
            ended(site, job)
        assert "of one user alone" not in carol.run("logs", jobs[0]).stdout
    finally:
        over.set()
        swaps.join()
    assert os.listdir(kept) == ["kept"]
    assert (kept / "kept").read_text() == "of one user alone\n"


def test_a_digest_gives_nobody_the_code_of_another(site: Home, ada: User, carol: User) -> None:
    tree, other = "a" * 40, "b" * 40
    hers, mine = packed(member("code", b"of ada\n")), packed(member("code", b"of carol\n"))
    digest = hashlib.sha256(hers).hexdigest()
    assert uploaded(site, ada, tree, hers) == "ok"
    first = runs_code(site, ada, tree, f"cat code > {ada.folder}/seen", sha256=digest)
    assert ended(site, first) == "COMPLETED" and (ada.folder / "seen").read_text() == "of ada\n"
    with contextlib.closing(Client(site, carol.uid)) as client:
        assert client.asks("have_tree", {"tree": tree})["result"] == {"have": False}
        fields = {"commit": "0" * 40, "tree": tree, "root": "/", "sha256": digest, "size_bytes": len(hers)}
        request = {"script": "#!/bin/sh\ncat code\n", "submit_dir": "/", "snapshot": fields}
        answer = client.asks("submit", {"request": request})
        assert answer["t"] == "error" and "was not uploaded" in answer["message"]
    assert uploaded(site, carol, other, mine, sha256=digest) == "error"
    assert (
        uploaded(site, carol, other, mine[:-1], sha256=hashlib.sha256(mine).hexdigest(), size=len(mine))
        == "error"
    )
    assert uploaded(site, carol, "../../0/" + tree, mine) == "error"
    assert uploaded(site, carol, tree, mine) == "ok"
    last = runs_code(site, carol, tree, f"cat code > {carol.folder}/seen", sha256=digest)
    assert ended(site, last) == "COMPLETED" and (carol.folder / "seen").read_text() == "of carol\n"


def test_what_is_no_message_ends_its_own_connection_at_most(site: Home, carol: User) -> None:
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
