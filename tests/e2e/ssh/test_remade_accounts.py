"""An account is deleted and made anew, with another uid: its old jobs are not the new user's, and never run as that."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.e2e.ssh.test_users import connect_as
from tests.lab.hosts import Lab
from tests.support.home import VERB_S, Home
from tests.support.waiting import eventually

from warpdeck.protocol.requests import API_VERSION, ClientMessage
from warpdeck_agent.users.accounts import KNOWN_S
from warpdeck_agent.wire.frames import JSON, FrameDecoder, json_frame, parse_json

pytestmark = pytest.mark.lab

OLD, NEW = 21_771, 21_772
SECRET = "known-to-old-carol-alone"
HELLO = {"t": "hello", "version": API_VERSION, "client": "test"}
BELONGS = f"belongs to carol (uid {OLD}, where you have {NEW})"
ADMINS = "only root and the controller's user"
GONE = "no longer exists"
REFUSED = {
    "job": BELONGS, "job_environment": BELONGS, "rerun": BELONGS, "log": BELONGS, "attach": BELONGS, "tunnel": BELONGS,
    "forward": BELONGS, "forward_page": "no forward", "forward_end": "no forward", "srun": BELONGS, "srun_attach": GONE,
    "salloc_attach": GONE, "cancel": BELONGS, "hold": BELONGS, "release": BELONGS, "requeue": BELONGS, "tell": BELONGS,
    "suspend": "only admins can", "resume": "only admins can",
    "job_update": BELONGS, "job_annotate": BELONGS, "code_recorded": BELONGS,
    "node_add": ADMINS, "node_drain": ADMINS, "node_resume": ADMINS, "node_rm": ADMINS, "reservation_make": ADMINS,
    "reservation_rm": ADMINS, "reload": ADMINS, "amend": ADMINS, "shutdown": ADMINS, "config": ADMINS,
    "run": "", "salloc": "", "session": "", "put_tree": "",
}  # fmt: skip
"""What new carol is refused, and why. The last four are about what is her own, and are asked so that nothing begins."""
ROW = (
    "state",
    "held",
    "name",
    "comment",
    "restarts",
    "time_limit_s",
    "end",
    "exit_code",
    "nodes",
    "partition",
)
SILENT = ("ack", "close", "end", "resize", "step_order", "file", "await_more")
"""What has no answer, and is about streams of one's own connection."""


@dataclass
class Remade:
    """A site on which carol's account has been made anew. The jobs are of the old one."""

    site: Home
    folder: Path
    running: str
    """A session, with a step and a forwarded port."""
    held: str
    ended: str
    salloc: str


class Client:
    """A connection of a user's; `said` is all that the controller has said on it."""

    def __init__(self, site: Home, uid: int) -> None:
        self._link = connect_as(uid, site.path / "warpdeck.sock")
        self._link.settimeout(VERB_S)
        self._link.sendall(json_frame(HELLO))
        self._decoder = FrameDecoder()
        self._number = 1000
        self.said = b""
        self.welcome = self._until(lambda message: message["t"] == "welcome")

    def asks(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The answer; of a command its end; of what has no answer, that of a status."""
        self._number += 2
        number = self._number
        self._link.sendall(json_frame({"t": kind, "id": number, **fields}))
        if kind in SILENT:
            self._link.sendall(json_frame({"t": "status", "id": number + 1}))
            return self._until(lambda message: message.get("id") == number + 1)
        ends = ("end", "error") if kind == "command" else ("ok", "error")
        return self._until(
            lambda message: message["t"] in ends and number in (message.get("id"), message.get("stream"))
        )

    def reads(self, words: str) -> None:
        """Returns when these words have been said."""
        while words.encode() not in self.said:
            self._read()

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            found = [message for message in self._read() if wanted(message)]
            if found:
                return found[-1]

    def _read(self) -> list[dict[str, Any]]:
        """What is said next: messages; what is no message is in `said` alone."""
        received = self._link.recv(65536)
        assert received, f"the controller closed the connection: {self.said[-500:]!r}"
        frames = list(self._decoder.feed(received))
        self.said += b"".join(payload for _, payload in frames)
        return [parse_json(payload) for kind, payload in frames if kind == JSON]

    def close(self) -> None:
        self._link.close()


def write_accounts(place: Path, uid: int) -> None:
    """Where /etc/passwd and /etc/group are taken from: what is written there is seen at once."""
    for name, line in (("passwd", f"carol:x:{uid}:{uid}::/tmp:/bin/sh"), ("group", f"carol:x:{uid}:")):
        kept = (place / f"{name}.kept").read_text()
        (place / name).write_text(f"{kept}{line}\n")


@pytest.fixture(scope="module")
def accounts(lab: Lab) -> Iterator[Path]:
    """Where the accounts are that this test run sees."""
    place = Path(tempfile.mkdtemp(prefix="wdetc", dir="/var/tmp"))
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", place / f"{name}.kept")
    write_accounts(place, OLD)
    for name in ("passwd", "group"):
        subprocess.run(["mount", "--bind", str(place / name), f"/etc/{name}"], check=True)
    yield place
    for name in ("passwd", "group"):
        subprocess.run(["umount", "--lazy", f"/etc/{name}"], check=True)
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def site(lab: Lab, accounts: Path) -> Iterator[Home]:
    """Root's controller for everybody, with this machine as a node."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o711)
    made = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    made.ok("up", "--shared")
    made.wait_for_idle_node()
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def remade(site: Home, accounts: Path) -> Iterator[Remade]:
    folder = site.path.parent / "carol"
    folder.mkdir(mode=0o755)
    os.chown(folder, OLD, OLD)
    with contextlib.closing(Client(site, OLD)) as old:
        jobs = old_jobs(site, folder, old)
        write_accounts(accounts, NEW)
        known_until = time.monotonic() + KNOWN_S
        eventually(
            lambda: time.monotonic() > known_until, what="what agents have just learnt of users holds no more"
        )
        yield jobs


def old_jobs(site: Home, folder: Path, old: Client) -> Remade:
    """Old carol leaves a job of each kind."""
    env = {"PATH": os.environ["PATH"], "SECRET": SECRET}

    def submitted(**request: Any) -> str:
        answer = old.asks("submit", {"request": {"submit_dir": str(folder), "env": env, **request}})
        return str(answer["result"]["job_id"])

    ended = submitted(script="#!/bin/sh\necho $SECRET\n", name="ended")
    eventually(lambda: site.job(ended)["end"], what="one has ended")
    held = submitted(script=f"#!/bin/sh\n# {SECRET}\nid -u >ran\n", name="chain", hold=True)
    shows = ["sh", "-c", "echo $SECRET; exec sleep 1000"]
    running = submitted(argv=shows, name="session", pty={"rows": 24, "cols": 80})
    assert old.asks("attach", {"job": running})["t"] == "ok"
    old.reads(SECRET)
    step = {"words": ["--overlap", "--jobid", running, *shows], "env": env, "cwd": str(folder)}
    assert old.asks("srun", step)["t"] == "ok"
    page = f"/?token={SECRET}"
    port = {"job": running, "port": 8080, "local_port": 8080, "page": page}
    assert old.asks("forward", port)["t"] == "ok"
    salloc = submitted(holder="salloc", name="interactive", hold=True)
    return Remade(site, folder, running=running, held=held, ended=ended, salloc=salloc)


def asks(old: Remade) -> dict[str, list[dict[str, Any]]]:
    """Every message that a client can send, about old carol's jobs where it is about jobs."""
    jobs = (old.running, old.held, old.ended, old.salloc)
    each = [{"jobs": [job]} for job in jobs]
    own = {"script": "#!/bin/sh\ntrue\n", "hold": True, "submit_dir": "/", "name": "new"}
    stream = [{"stream": number} for number in range(1, 8)]
    reservation = {"name": "r", "start_unix": time.time() + 60, "end_unix": time.time() + 90, "node_count": 1}
    return {
        "job": [{"job": job} for job in jobs],
        "job_environment": [{"job": job} for job in jobs],
        "rerun": [{"job": job} for job in jobs],
        "log": [{"job": job} for job in jobs] + [{"job": old.ended, "channel": "err"}],
        "attach": [{"job": old.running}, {"job": old.running, "watch": True}],
        "tunnel": [{"job": old.running, "port": 8080}, {"job": old.running, "argv": ["env"]}],
        "forward": [{"job": old.running, "port": 8080, "local_port": 8081}],
        "forward_page": [{"number": number} for number in range(3)],
        "forward_end": [{"number": number} for number in range(3)],
        "srun": [{"words": ["--overlap", "--jobid", old.running, "env"], "cwd": "/"}],
        "srun_attach": [{"step": f"{old.running}.0"}],
        "salloc_attach": [{"job": int(old.salloc)}],
        "cancel": [*each, {"jobs": [f"{old.running}.0"]}, {"jobs": [old.running], "signal": "TERM"}],
        **dict.fromkeys(("hold", "release", "requeue", "suspend", "resume", "code_recorded"), each),
        "tell": [{**job, "text": "hello"} for job in each],
        "job_update": [{**job, "change": {"comment": "mine"}} for job in each],
        "job_annotate": [{"ids": [int(job)], "annotating": {"comment": "mine"}} for job in jobs],
        "node_add": [{"target": "root@127.0.0.1"}],
        "node_drain": [{"name": "x", "reason": "mine"}],
        **{kind: [{"name": "x"}] for kind in ("node_resume", "node_rm", "reservation_rm")},
        "reservation_make": [{"reservation": reservation}],
        "amend": [{"changes": [{"path": ["accounts", "x"]}]}],
        **{kind: [{}] for kind in ("reload", "shutdown")},
        "run": [{"words": ["--no-such-option"], "errors": 900}],
        **{kind: [{"words": ["--no-such-option"]}] for kind in ("salloc", "session")},
        "put_tree": [{"tree": "no tree", "sha256": "", "size_bytes": 1}],
        **dict.fromkeys(SILENT[:3], stream),
        "ack": [{**each, "size": 1} for each in stream],
        "resize": [{**each, "rows": 9, "cols": 9} for each in stream],
        "step_order": [{**each, "what": "end"} for each in stream],
        "file": stream,
        "hello": [],  # said at the begin of each connection
        "submit": [{"request": own}],
        "dry_run": [{"request": own}],
        "have_tree": [{"tree": "0" * 40}],
        "forecast": [{"job": old.held}],
        "settle": [{"job": int(old.ended)}],
        "await_ends": [{"jobs": [int(job) for job in jobs], "begun": True}],
        "await_more": [{**each, "jobs": [int(old.ended)]} for each in stream],
        "jobs": [{"ids": jobs, "finished": True}, {"users": ["carol"]}],
        "records": [{"ended": True, "scripts": True, "steps": True, "runs": True}],
        "curves": [{"job": old.running}, {"job": f"{old.running}.0"}],
        "priorities": [{"ids": [old.held]}],
        "nodes_at": [{"at": time.time() - 1}],
        "command": [
            {"name": "scontrol", "words": ["show", "job", old.running]},
            {"name": "scontrol", "words": ["write", "batch_script", old.held, "-"]},
            {"name": "scancel", "words": ["-u", "carol", "-n", "session"]},
            {"name": "sacct", "words": ["-B", "-j", old.ended]},
        ],
        **{kind: [{}] for kind in ("status", "steps", "past", "past_costs", "events", "shares", "limit_use", "diagnosis", "partitions",
             "reservations", "qos", "plugin_options", "licenses", "settings", "nodes", "node_check", "forwards", "config",
             "subscribe")},
    }  # fmt: skip


def shown(old: Remade) -> dict[str, Any]:
    """What the site's admin sees of old carol's jobs, but for what is measured and computed again and again."""
    site = old.site
    jobs = {}
    for job in (old.running, old.held, old.ended, old.salloc):
        detail = site.request("job", job=job)
        row = {name: detail["row"][name] for name in ROW}
        steps = [(step["id"], step["state"]) for step in detail["steps"]]
        jobs[job] = row, steps, detail["events"], detail["script"], detail["dependency"]
    return {"jobs": jobs, "forwards": site.request("forwards")}


def test_no_request_of_the_new_user_shows_or_changes_an_old_job(remade: Remade) -> None:
    asked = asks(remade)
    assert asked.keys() == {kind.__struct_config__.tag for kind in get_args(ClientMessage)}
    before = shown(remade)
    carol = Client(remade.site, NEW)
    try:
        assert (carol.welcome["user"], carol.welcome["uid"]) == ("carol", NEW)
        for kind, messages in asked.items():
            for fields in messages:
                answer = carol.asks(kind, fields)
                if kind in REFUSED:
                    assert answer["t"] == "error" and REFUSED[kind] in answer["message"], (
                        kind,
                        fields,
                        answer,
                    )
                else:
                    assert answer["t"] != "error", (kind, fields, answer)
        assert SECRET.encode() not in carol.said
    finally:
        carol.close()
    assert shown(remade) == before


def decided(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a job that has started, or knows why not; else none."""
    return row if row["state"] != "PENDING" or row["why"] else {}


def test_a_job_of_the_new_user_does_not_wait_for_an_old_one_of_the_same_name(remade: Remade) -> None:
    carol = Client(remade.site, NEW)
    try:
        clause = {"clauses": [{"kind": "singleton"}]}
        request = {"script": "#!/bin/sh\ntrue\n", "name": "chain", "submit_dir": "/", "dependencies": clause}
        job = carol.asks("submit", {"request": request})["result"]["job_id"]
        row = eventually(lambda: decided(remade.site.job(job)), what="it starts, or is told why not")
        assert row["why"] is None or row["why"]["code"] != "Dependency", row
        carol.asks("cancel", {"jobs": [str(job)]})
    finally:
        carol.close()


def test_what_waited_when_the_account_was_made_anew_fails_and_says_both_uids(remade: Remade) -> None:
    remade.site.ok("release", remade.held)
    eventually(lambda: remade.site.job(remade.held)["end"], what="it has ended")
    detail = remade.site.request("job", job=remade.held)
    assert detail["row"]["state"] == "FAILED"
    said = json.dumps(detail)
    assert f"carol has uid {NEW} on this node, and the job is of carol with uid {OLD}: " in said
    assert not (remade.folder / "ran").exists()


def test_nothing_begins_in_an_old_job_with_the_groups_of_the_new_user(remade: Remade) -> None:
    done = remade.site.run("srun", "--overlap", "--jobid", remade.running, "id")
    assert done.returncode != 0 and "groups=" not in done.stdout
    assert f"carol has uid {NEW} on this node" in done.stderr
