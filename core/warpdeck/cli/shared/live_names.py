"""The names that completion offers, as the controller has them now. A controller is never started, and the
wait is short.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.paths import default_paths
from warpdeck.cli import arguments
from warpdeck.client.blocking_client import SyncClient
from warpdeck.model.states import COMPACT

from .candidates import Candidate

PATIENCE_S = 1.0
"""Longest wait for names. A user who pressed Tab does not wait longer."""
MAX_ROWS = 500
"""Number of jobs that are offered, the newest first. More would not help anybody to choose."""
STATES_OF = {
    arguments.JOBS: (),
    arguments.ANY_JOBS: (),
    arguments.PENDING_JOBS: ("PENDING",),
    arguments.RUNNING_JOBS: ("RUNNING",),
    arguments.SUSPENDED_JOBS: ("SUSPENDED",),
    arguments.TERMINALS: ("PENDING", "RUNNING"),
}
"""Maps a kind of jobs to their states; () stands for all unfinished jobs."""


def live_names(kind: str) -> list[Candidate]:
    """Return the names of a kind, or none if no controller answers in time."""
    if kind == arguments.STATES:
        return [Candidate(state.value, code) for state, code in COMPACT.items()]
    try:
        with _patience(), SyncClient.connect(default_paths(), start=False) as client:
            if kind in STATES_OF:
                return _jobs(client, kind)
            return _users(client) if kind == arguments.USERS else _named(client, kind)
    except (UserError, OSError):  # without an answer, nothing is offered
        return []


@contextmanager
def _patience() -> Iterator[None]:
    """Raise TimeoutError in the block if it takes longer than PATIENCE_S."""

    def over(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _jobs(client: SyncClient, kind: str) -> list[Candidate]:
    """Return the caller's jobs or, if there are none, the jobs of all users."""
    wanted: dict[str, Any] = {
        "states": list(STATES_OF[kind]),
        "finished": kind == arguments.ANY_JOBS,
        "limit": MAX_ROWS,
        "fields": ["label", "array_job_id", "tasks_pending", "name", "state", "user", "node_list"],
    }
    own = client.call("jobs", users=[client.welcome["user"]], **wanted)["jobs"]
    found: dict[str, str] = {}
    for row in reversed(own or client.call("jobs", **wanted)["jobs"]):
        label = str(row["array_job_id"]) if row["tasks_pending"] > 1 else row["label"]
        about = (row["name"], row["state"], row["user"], row["node_list"])
        found.setdefault(label, " ".join(filter(None, about)))
    return [Candidate(*each) for each in found.items()]


def _users(client: SyncClient) -> list[Candidate]:
    """Return the users who have jobs, and the users in the tree of shares."""
    jobs = client.call("jobs", fields=["user"])["jobs"]
    names = {row["user"] for row in (*jobs, *client.call("shares")["shares"])} | {client.welcome["user"]}
    return [Candidate(name) for name in sorted(names) if name]


_REQUESTS: dict[str, tuple[str, str, Callable[[dict[str, Any]], str]]] = {
    arguments.NODES: ("nodes", "name", lambda row: f"{row['state']}, {len(row['gpus'])} GPUs, {row['cpus']} CPUs"),
    arguments.PARTITIONS: ("partitions", "name", lambda row: f"{row['state']}, {row['nodes']} nodes, {row['gpus']} GPUs"),
    arguments.ACCOUNTS: ("shares", "account", lambda row: ""),
    arguments.QOS: ("qos", "name", lambda row: f"priority {row['priority']}"),
    arguments.RESERVATIONS: ("reservations", "name", lambda row: f"{row['state']}, {row['node_list']}"),
}  # fmt: skip
"""Kind -> (request and list of its answer, field with the name, description of a row)."""


def _named(client: SyncClient, kind: str) -> list[Candidate]:
    request, name, about = _REQUESTS[kind]
    rows = client.call(request)[request]
    return [Candidate(*each) for each in dict.fromkeys((row[name], about(row)) for row in rows)]
