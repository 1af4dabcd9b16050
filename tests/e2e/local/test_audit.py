"""`warpdeck audit` with a real controller: what it prints, what a kill leaves, and a disk that is full."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

from tests.support.home import VERB_S, Home
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient

NAMES = ("hold", "cancel", "reload")
REQUEST = {"script": "#!/bin/sh\n", "hold": True, "submit_dir": "/"}


def test_every_answered_change_survives_a_kill_of_the_controller(home: Home) -> None:
    """A client submits as fast as it can. Each job that it was told of has an entry, in the order of the answers."""
    home.ok("up")
    answered: list[str] = []
    is_killed = threading.Event()

    def submit_until_killed() -> None:
        try:
            with SyncClient.connect(Paths(str(home.path)), start=False) as client:
                while True:
                    answered.append(str(client.call("submit", request=REQUEST)["label"]))
        except (UserError, OSError):
            is_killed.set()

    thread = threading.Thread(target=submit_until_killed)
    thread.start()
    eventually(lambda: len(answered) > 100, what="some submissions")
    home.kill_controller()
    thread.join(VERB_S)
    assert is_killed.is_set()
    lines = (home.path / "audit.jsonl").read_text().splitlines()
    recorded = [entry["objects"][0] for entry in map(json.loads, lines) if entry["request"] == "submit"]
    assert recorded[: len(answered)] == answered and len(recorded) <= len(answered) + 1
    home.ok("up")
    home.ok("cancel", answered[0])
    numbers = [entry["number"] for entry in home.json("audit", "--limit", "10000")["entries"]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_table_shows_who_changed_what_and_how(home: Home) -> None:
    home.ok("up", "--no-local-node")
    job = home.request("submit", request=REQUEST)["label"]
    home.ok("hold", job)
    home.run("cancel", "999")
    (home.path / "config.toml").write_text("[accounts.lab]\nshares = 3\n")
    home.ok("config", "reload")
    table = home.ok("audit")
    lines = {name: line for line in table.splitlines() for name in line.split() if name in NAMES}
    assert "hold" in lines["hold"] and f" {job} " in lines["hold"] and " pid " in lines["hold"]
    assert "failed" in lines["cancel"] and "999" in lines["cancel"]
    assert "accounts.lab: added" in lines["reload"]
    assert home.json("audit", "--object", job, "--request", "hold")["entries"][0]["objects"] == [job]
    assert home.json("audit", "--refused")["entries"] == []
    assert home.json("audit", "--since", "now-1hour", "-n", "1")["entries"][0]["request"] == "reload"
    txn = home.slurm("sacctmgr", "-nP", "show", "txn", "format=action,where")
    assert txn.stdout == "Add Accounts|lab\n", txn
    assert home.run("audit", "--since", "yesteryear").returncode == 2


def test_follow_prints_new_entries_as_they_are_written(home: Home) -> None:
    home.ok("up", "--no-local-node")
    home.request("submit", request=REQUEST)
    argv = [sys.executable, "-m", "warpdeck.cli.main", "audit", "--follow", "--json", "--request", "hold"]
    with subprocess.Popen(argv, env=home.environ, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        home.request("hold", jobs=["1"])
        entry = json.loads(following.stdout.readline())
        following.terminate()
    assert (entry["request"], entry["objects"]) == ("hold", ["1"])


def test_a_log_that_cannot_be_written_stops_no_request_and_is_shown_in_the_status(home: Home) -> None:
    home.ok("up", "--no-local-node")
    (home.path / "audit.jsonl").unlink(missing_ok=True)
    (home.path / "audit.jsonl").mkdir()
    job = home.request("submit", request=REQUEST)["label"]
    assert "audit log: cannot write" in home.ok("status") and "lost" in home.json("status")["audit_problem"]
    (home.path / "audit.jsonl").rmdir()
    home.ok("hold", job)
    assert "audit log" not in home.ok("status")
    [entry] = home.json("audit")["entries"]
    assert (entry["request"], entry["number"]) == ("hold", 2)
