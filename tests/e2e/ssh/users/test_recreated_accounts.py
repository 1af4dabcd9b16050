"""An account is deleted and created again with another uid: its old jobs do not belong to the new user and
never run as the new user.
"""

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
from tests.e2e.ssh.users.test_users import connect_as
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
OTHER_UID = f"belongs to carol (uid {OLD}, where you have {NEW})"
ADMINS_ONLY = "only root and the controller's user"
NOT_FOUND = "no longer exists"
REFUSALS = {
    "job": OTHER_UID, "job_environment": OTHER_UID, "rerun": OTHER_UID, "log": OTHER_UID, "attach": OTHER_UID, "tunnel": OTHER_UID,
    "forward": OTHER_UID, "forward_page": "no forward", "forward_end": "no forward", "srun": OTHER_UID, "srun_attach": NOT_FOUND,
    "salloc_attach": NOT_FOUND, "cancel": OTHER_UID, "hold": OTHER_UID, "release": OTHER_UID, "requeue": OTHER_UID, "tell": OTHER_UID,
    "pause": OTHER_UID, "suspend": "only admins can", "resume": "only admins can",
    "job_update": OTHER_UID, "job_annotate": OTHER_UID, "code_recorded": OTHER_UID,
    "node_add": ADMINS_ONLY, "node_drain": ADMINS_ONLY, "node_resume": ADMINS_ONLY, "node_rm": ADMINS_ONLY,
    "reservation_make": ADMINS_ONLY,
    "reservation_rm": ADMINS_ONLY, "reload": ADMINS_ONLY, "amend": "has no right to change", "shutdown": ADMINS_ONLY,
    "config": ADMINS_ONLY,
    "takeover": ADMINS_ONLY, "recover": ADMINS_ONLY, "standby_set": ADMINS_ONLY, "standby_rm": ADMINS_ONLY,
    "run": "", "salloc": "", "session": "", "put_tree": "",
}  # fmt: skip
"""Requests that the new carol is refused, and the messages. The last four are about her own objects, with
arguments that start nothing.
"""
COMPARED_FIELDS = (
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
UNANSWERED = ("ack", "close", "end", "resize", "step_order", "file", "await_more")
"""Messages without an answer, about streams of the own connection."""


@dataclass
class RecreatedSite:
    """A site on which carol's account was created again. The jobs belong to the old account."""

    site: Home
    folder: Path
    running: str
    """A session with a step and a forwarded port."""
    held: str
    ended: str
    salloc: str


class Client:
    """A connection of a user. `received` holds everything that the controller has sent on it."""

    def __init__(self, site: Home, uid: int) -> None:
        self._link = connect_as(uid, site.path / "warpdeck.sock")
        self._link.settimeout(VERB_S)
        self._link.sendall(json_frame(HELLO))
        self._decoder = FrameDecoder()
        self._number = 1000
        self.received = b""
        self.welcome = self._until(lambda message: message["t"] == "welcome")

    def request(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer.

        For a command the answer is its end. For messages without an answer, a status request follows and its
        answer is returned.
        """
        self._number += 2
        number = self._number
        self._link.sendall(json_frame({"t": kind, "id": number, **fields}))
        if kind in UNANSWERED:
            self._link.sendall(json_frame({"t": "status", "id": number + 1}))
            return self._until(lambda message: message.get("id") == number + 1)
        ends = ("end", "error") if kind == "command" else ("ok", "error")
        return self._until(
            lambda message: message["t"] in ends and number in (message.get("id"), message.get("stream"))
        )

    def wait_for(self, text: str) -> None:
        """Wait until this text was received."""
        while text.encode() not in self.received:
            self._read()

    def _until(self, is_wanted: Any) -> dict[str, Any]:
        while True:
            matches = [message for message in self._read() if is_wanted(message)]
            if matches:
                return matches[-1]

    def _read(self) -> list[dict[str, Any]]:
        """Return the next messages. Data that is no message is only added to `received`."""
        received = self._link.recv(65536)
        assert received, f"the controller closed the connection: {self.received[-500:]!r}"
        frames = list(self._decoder.feed(received))
        self.received += b"".join(payload for _, payload in frames)
        return [parse_json(payload) for kind, payload in frames if kind == JSON]

    def close(self) -> None:
        self._link.close()


def write_accounts(folder: Path, uid: int) -> None:
    """Write the files that replace /etc/passwd and /etc/group. Changes are visible at once."""
    for name, line in (("passwd", f"carol:x:{uid}:{uid}::/tmp:/bin/sh"), ("group", f"carol:x:{uid}:")):
        original = (folder / f"{name}.kept").read_text()
        (folder / name).write_text(f"{original}{line}\n")


@pytest.fixture(scope="module")
def accounts(lab: Lab) -> Iterator[Path]:
    """The folder of the account files that this test run sees."""
    folder = Path(tempfile.mkdtemp(prefix="wdetc", dir="/var/tmp"))
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", folder / f"{name}.kept")
    write_accounts(folder, OLD)
    for name in ("passwd", "group"):
        subprocess.run(["mount", "--bind", str(folder / name), f"/etc/{name}"], check=True)
    yield folder
    for name in ("passwd", "group"):
        subprocess.run(["umount", "--lazy", f"/etc/{name}"], check=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def site(lab: Lab, accounts: Path) -> Iterator[Home]:
    """Root's shared controller with this machine as a node."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o711)
    site_home = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    site_home.ok("up", "--shared")
    site_home.wait_for_idle_node()
    yield site_home
    site_home.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def recreated(site: Home, accounts: Path) -> Iterator[RecreatedSite]:
    folder = site.path.parent / "carol"
    folder.mkdir(mode=0o755)
    os.chown(folder, OLD, OLD)
    with contextlib.closing(Client(site, OLD)) as old:
        jobs = old_jobs(site, folder, old)
        write_accounts(accounts, NEW)
        known_until = time.monotonic() + KNOWN_S
        eventually(lambda: time.monotonic() > known_until, what="the agents' cached user data has expired")
        yield jobs


def old_jobs(site: Home, folder: Path, old: Client) -> RecreatedSite:
    """Let the old carol submit a job of each kind."""
    env = {"PATH": os.environ["PATH"], "SECRET": SECRET}

    def submitted(**request: Any) -> str:
        answer = old.request("submit", {"request": {"submit_dir": str(folder), "env": env, **request}})
        return str(answer["result"]["job_id"])

    ended = submitted(script="#!/bin/sh\necho $SECRET\n", name="ended")
    eventually(lambda: site.job(ended)["end"], what="the first job has ended")
    held = submitted(script=f"#!/bin/sh\n# {SECRET}\nid -u >ran\n", name="chain", hold=True)
    print_secret = ["sh", "-c", "echo $SECRET; exec sleep 1000"]
    running = submitted(argv=print_secret, name="session", pty={"rows": 24, "cols": 80})
    assert old.request("attach", {"job": running})["t"] == "ok"
    old.wait_for(SECRET)
    step = {"words": ["--overlap", "--jobid", running, *print_secret], "env": env, "cwd": str(folder)}
    assert old.request("srun", step)["t"] == "ok"
    page = f"/?token={SECRET}"
    port = {"job": running, "port": 8080, "local_port": 8080, "page": page}
    assert old.request("forward", port)["t"] == "ok"
    salloc = submitted(holder="salloc", name="interactive", hold=True)
    return RecreatedSite(site, folder, running=running, held=held, ended=ended, salloc=salloc)


def all_messages(old: RecreatedSite) -> dict[str, list[dict[str, Any]]]:
    """Return every message that a client can send. Messages about jobs name the old carol's jobs."""
    return {**refused_messages(old), **other_messages(old)}


def refused_messages(old: RecreatedSite) -> dict[str, list[dict[str, Any]]]:
    """Return the messages of the kinds in REFUSALS."""
    jobs = (old.running, old.held, old.ended, old.salloc)
    job_lists = [{"jobs": [job]} for job in jobs]
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
        "cancel": [*job_lists, {"jobs": [f"{old.running}.0"]}, {"jobs": [old.running], "signal": "TERM"}],
        **dict.fromkeys(
            ("hold", "release", "requeue", "pause", "suspend", "resume", "code_recorded"), job_lists
        ),
        "tell": [{**job, "text": "hello"} for job in job_lists],
        "job_update": [{**job, "change": {"comment": "mine"}} for job in job_lists],
        "job_annotate": [{"ids": [int(job)], "annotating": {"comment": "mine"}} for job in jobs],
        "node_add": [{"target": "root@127.0.0.1"}],
        "node_drain": [{"name": "x", "reason": "mine"}],
        **{kind: [{"name": "x"}] for kind in ("node_resume", "node_rm", "reservation_rm")},
        "reservation_make": [{"reservation": reservation}],
        "amend": [{"changes": [{"path": ["accounts", "x"]}]}],
        **{kind: [{}] for kind in ("reload", "shutdown", "config", "takeover", "recover", "standby_rm")},
        "standby_set": [{"target": "root@127.0.0.1"}],
        "run": [{"words": ["--no-such-option"], "errors": 900}],
        **{kind: [{"words": ["--no-such-option"]}] for kind in ("salloc", "session")},
        "put_tree": [{"tree": "no tree", "sha256": "", "size_bytes": 1}],
    }


def other_messages(old: RecreatedSite) -> dict[str, list[dict[str, Any]]]:
    """Return the messages that are answered, and those about streams of the own connection."""
    jobs = (old.running, old.held, old.ended, old.salloc)
    new_request = {"script": "#!/bin/sh\ntrue\n", "hold": True, "submit_dir": "/", "name": "new"}
    stream = [{"stream": number} for number in range(1, 8)]
    return {
        **dict.fromkeys(UNANSWERED[:3], stream),
        "ack": [{**each, "size": 1} for each in stream],
        "resize": [{**each, "rows": 9, "cols": 9} for each in stream],
        "step_order": [{**each, "what": "end"} for each in stream],
        "file": stream,
        "hello": [],  # This message is sent at the start of each connection.
        "submit": [{"request": new_request}],
        "dry_run": [{"request": new_request}],
        "have_tree": [{"tree": "0" * 40}],
        "forecast": [{"job": old.held}],
        "settle": [{"job": int(old.ended)}],
        "await_ends": [{"jobs": [int(job) for job in jobs], "begun": True}],
        "await_more": [{**each, "jobs": [int(old.ended)]} for each in stream],
        "jobs": [{"ids": jobs, "finished": True}, {"users": ["carol"]}],
        "records": [{"ended": True, "scripts": True, "steps": True, "runs": True}],
        "curves": [{"job": old.running}, {"job": f"{old.running}.0"}],
        "priorities": [{"ids": [old.held]}],
        "audit": [{"own": True}],
        "nodes_at": [{"at": time.time() - 1}],
        "timeline": [{"since": time.time() - 3600, "until": time.time()}],
        "command": [
            {"name": "scontrol", "words": ["show", "job", old.running]},
            {"name": "scontrol", "words": ["write", "batch_script", old.held, "-"]},
            {"name": "scancel", "words": ["-u", "carol", "-n", "session"]},
            {"name": "sacct", "words": ["-B", "-j", old.ended]},
        ],
        **{kind: [{}] for kind in ("status", "steps", "past", "past_costs", "events", "shares", "limit_use", "diagnosis", "partitions",
             "reservations", "qos", "plugin_options", "licenses", "settings", "standby", "nodes", "node_check", "forwards",
             "subscribe")},
    }  # fmt: skip


def admin_view(old: RecreatedSite) -> dict[str, Any]:
    """Return the admin's view of the old carol's jobs, without values that are measured or computed
    repeatedly.
    """
    site = old.site
    jobs = {}
    for job in (old.running, old.held, old.ended, old.salloc):
        detail = site.request("job", job=job)
        row = {name: detail["row"][name] for name in COMPARED_FIELDS}
        steps = [(step["id"], step["state"]) for step in detail["steps"]]
        jobs[job] = row, steps, detail["events"], detail["script"], detail["dependency"]
    return {"jobs": jobs, "forwards": site.request("forwards")}


def test_no_request_of_the_new_user_shows_or_changes_an_old_job(recreated: RecreatedSite) -> None:
    messages_by_kind = all_messages(recreated)
    assert messages_by_kind.keys() == {kind.__struct_config__.tag for kind in get_args(ClientMessage)}
    before = admin_view(recreated)
    carol = Client(recreated.site, NEW)
    try:
        assert (carol.welcome["user"], carol.welcome["uid"]) == ("carol", NEW)
        for kind, messages in messages_by_kind.items():
            for fields in messages:
                answer = carol.request(kind, fields)
                if kind in REFUSALS:
                    assert answer["t"] == "error" and REFUSALS[kind] in answer["message"], (
                        kind,
                        fields,
                        answer,
                    )
                else:
                    assert answer["t"] != "error", (kind, fields, answer)
        assert SECRET.encode() not in carol.received
    finally:
        carol.close()
    assert admin_view(recreated) == before


def started_or_explained(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a job that has started or has a reason to wait, and an empty dict otherwise."""
    return row if row["state"] != "PENDING" or row["why"] else {}


def test_a_singleton_job_does_not_wait_for_a_job_of_the_old_account(recreated: RecreatedSite) -> None:
    carol = Client(recreated.site, NEW)
    try:
        clause = {"clauses": [{"kind": "singleton"}]}
        request = {"script": "#!/bin/sh\ntrue\n", "name": "chain", "submit_dir": "/", "dependencies": clause}
        job = carol.request("submit", {"request": request})["result"]["job_id"]
        row = eventually(
            lambda: started_or_explained(recreated.site.job(job)), what="the job starts or has a reason"
        )
        assert row["why"] is None or row["why"]["code"] != "Dependency", row
        carol.request("cancel", {"jobs": [str(job)]})
    finally:
        carol.close()


def test_a_waiting_job_of_the_old_account_fails_and_names_both_uids(recreated: RecreatedSite) -> None:
    recreated.site.ok("release", recreated.held)
    eventually(lambda: recreated.site.job(recreated.held)["end"], what="the job has ended")
    detail = recreated.site.request("job", job=recreated.held)
    assert detail["row"]["state"] == "FAILED"
    received = json.dumps(detail)
    assert f"carol has uid {NEW} on this node, but the job belongs to carol with uid {OLD}: " in received
    assert not (recreated.folder / "ran").exists()


def test_no_step_starts_in_an_old_job_with_the_groups_of_the_new_user(recreated: RecreatedSite) -> None:
    result = recreated.site.run("srun", "--overlap", "--jobid", recreated.running, "id")
    assert result.returncode != 0 and "groups=" not in result.stdout
    assert f"carol has uid {NEW} on this node" in result.stderr
