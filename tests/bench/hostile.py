"""Measure the effect of clients that send requests and never read the answers.

They slow down other users' calls, and they take memory of the controller. The site is shared. The hostile
clients belong to another user, who runs `python -m tests.bench.hostile ATTACK HOME`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warpdeck.client.blocking_client import SyncClient
from warpdeck.protocol import requests as protocol
from warpdeck_agent.wire.frames import json_frame

from .rig import Rig, open_rig, rss_mb
from .table import Line, Measured, Table

NOBODY = 65534
HELD_JOBS = 1000
"""Number of jobs in the queue that subscriptions and answers contain."""
SUBSCRIPTIONS, SUBSCRIPTIONS_OF_CLIENT = 3000, 60
SILENT_CLIENTS, REQUESTS_OF_CLIENT = 5, 400
HONEST_CLIENTS, CALLS_OF_CLIENT = 20, 10
CALLS = 150
CHANGE_EVERY = 5
"""After this number of calls, a job is changed, which all subscribers receive."""
ASSUMED_WAIT_S = 300.0
"""A longer call of an honest user is abandoned and counted as this time."""

ALONE_MEDIAN = Line("a call without other clients, median", "ms")
ALONE_WORST = Line("a call without other clients, worst", "ms")
ALONE_SQUEUE = Line("squeue without other clients", "ms")
SUBSCRIBED_MEDIAN = Line(f"a call beside {SUBSCRIPTIONS:,} unread subscriptions, median", "ms", budget=100)
SUBSCRIBED_WORST = Line(f"a call beside {SUBSCRIPTIONS:,} unread subscriptions, worst", "ms", budget=2000)
SUBSCRIBED_SQUEUE = Line(f"squeue beside {SUBSCRIPTIONS:,} unread subscriptions", "ms")
SUBSCRIBED_MEMORY = Line(f"controller with {SUBSCRIPTIONS:,} unread subscriptions", "MB", budget=500)
LEAVING_WORST = Line("a call while those clients disconnect, worst", "ms", budget=2000)
RECORDS_ALONE = Line(f"{HONEST_CLIENTS * CALLS_OF_CLIENT} records requests without other clients", "s")
_BESIDE = f"beside {SILENT_CLIENTS}x{REQUESTS_OF_CLIENT} unread"
RECORDS_BESIDE = Line(f"{HONEST_CLIENTS * CALLS_OF_CLIENT} records requests {_BESIDE}", "s")
RECORDS_RATIO = Line(f"ratio of these times {_BESIDE}", "x", budget=3)
RECORDS_MEMORY = Line(f"controller {_BESIDE}", "MB", budget=500)


def measure(table: Table) -> None:
    """Run both attacks on one site, each together with an honest user's calls."""
    if os.geteuid() != 0:
        table.left_out(SUBSCRIBED_WORST, "it needs root to run as two users")
        return
    with open_rig("--shared", "--no-local-node") as rig:
        for number in range(HELD_JOBS):
            rig.submit("#!/bin/sh\ntrue\n", name=f"job{number}", hold=True)
        _measure_subscriptions(table, rig)
        _measure_records(table, rig)


def _measure_subscriptions(table: Table, rig: Rig) -> None:
    alone = _honest_calls(rig)
    table.add(ALONE_MEDIAN, alone)
    table.add(ALONE_WORST, Measured([max(alone.readings)]))
    table.add(ALONE_SQUEUE, _squeue(rig))
    with hostile(rig, "subscribe"):
        beside = _honest_calls(rig)
        table.add(SUBSCRIBED_MEDIAN, beside)
        table.add(SUBSCRIBED_WORST, Measured([max(beside.readings)]))
        table.add(SUBSCRIBED_SQUEUE, _squeue(rig))
        table.add(SUBSCRIBED_MEMORY, Measured([rss_mb(rig.controller_pid())]))
    table.add(LEAVING_WORST, Measured([max(_honest_calls(rig).readings)]))


def _measure_records(table: Table, rig: Rig) -> None:
    alone_s = _honest_records(rig)
    table.add(RECORDS_ALONE, Measured([alone_s]))
    with hostile(rig, "records"):
        beside_s = _honest_records(rig)
        table.add(RECORDS_BESIDE, Measured([beside_s]))
        table.add(RECORDS_RATIO, Measured([beside_s / alone_s]))
        table.add(RECORDS_MEMORY, Measured([rss_mb(rig.controller_pid())]))


def _honest_calls(rig: Rig) -> Measured:
    """Return the milliseconds of each call. The user lists jobs, and sometimes changes one."""
    found: list[float] = []
    given_up = False

    def call(work: Callable[[], object]) -> None:
        begun = time.perf_counter()
        work()
        found.append((time.perf_counter() - begun) * 1e3)

    def all_calls() -> None:
        with SyncClient.connect(rig.paths, start=False) as client:
            for number in range(CALLS):
                if given_up:
                    return
                call(lambda: client.call("status"))
                if number % CHANGE_EVERY == 0:
                    change = {"comment": f"change {number} at {time.time()}"}
                    call(lambda change=change: client.call("job_update", jobs=["1"], change=change))

    caller = threading.Thread(target=all_calls, daemon=True)
    begun = time.perf_counter()
    caller.start()
    caller.join(ASSUMED_WAIT_S)
    if caller.is_alive():
        given_up = True
        found.append((time.perf_counter() - begun) * 1e3 - sum(found))
    return Measured(found)


def _squeue(rig: Rig) -> Measured:
    """Return the time of the command squeue."""
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        try:
            subprocess.run(
                [sys.executable, "-m", "warpdeck.slurm.runtime.entry", "squeue", "-h"],
                env=rig.home.environ,
                stdout=subprocess.DEVNULL,
                timeout=ASSUMED_WAIT_S,
                check=True,
            )
        except subprocess.TimeoutExpired:
            return Measured([ASSUMED_WAIT_S * 1e3])
        found.append((time.perf_counter() - begun) * 1e3)
    return Measured(found)


def _honest_records(rig: Rig) -> float:
    """Return the seconds until all calls of all honest clients are answered or abandoned."""

    def request_records() -> None:
        with SyncClient.connect(rig.paths, start=False) as client:
            for _ in range(CALLS_OF_CLIENT):
                client.call("records", ended=True)

    begun = time.perf_counter()
    threads = [threading.Thread(target=request_records, daemon=True) for _ in range(HONEST_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begun + ASSUMED_WAIT_S - time.perf_counter()))
    return time.perf_counter() - begun


@contextmanager
def hostile(rig: Rig, attack: str) -> Iterator[None]:
    """Run the attack as user nobody. On entry, all clients have sent all their requests."""
    command = [sys.executable, "-m", "tests.bench.hostile", attack, str(rig.home.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"sent\n"
            yield
        finally:
            other.kill()


def _attack(attack: str, home: str) -> None:
    """Connect and send requests as user nobody, and read nothing until killed."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    extra = {"ended": True} if attack == "records" else {}
    clients, requests = (
        (SILENT_CLIENTS, REQUESTS_OF_CLIENT)
        if attack == "records"
        else (SUBSCRIPTIONS // SUBSCRIPTIONS_OF_CLIENT, SUBSCRIPTIONS_OF_CLIENT)
    )
    kept = []
    for _ in range(clients):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(f"{home}/warpdeck.sock")
        frames = b"".join(json_frame({"t": attack, "id": each, **extra}) for each in range(1, requests + 1))
        client.sendall(json_frame({"t": "hello", "version": protocol.API_VERSION}) + frames)
        kept.append(client)
    print("sent", flush=True)
    signal.pause()


if __name__ == "__main__":
    _attack(*sys.argv[1:])
