"""Finds, starts and waits for a web server inside a job, from the client's side.

It uses only the standard library. It sends HTTP requests over a tunnel until the server answers, because an
open port may still refuse them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from warpdeck.base.errors import UserError
from warpdeck.client.in_job.web_server import WebServer

from .blocking_client import SyncClient
from .in_job import web_server
from .tunnel import TunnelRefused, open_tunnel, run_inside

START_S = 180.0
"""Seconds a server may take to answer. A cold Python environment on a network disk takes a minute."""
AGAIN_S = 0.2
SLOW = "slow"
"""Code of the UserError for a server that may still start."""
Tell = Callable[[str], None]


def find_server(
    client: SyncClient, job: str, kind: str, *, node: str = "", progress: Tell
) -> WebServer | None:
    """Return the server that runs in the job, or None if there is none yet.

    Raises UserError with its last output if it ended.
    """
    return web_server.parse(run_inside(client, job, web_server.find(kind), node=node, progress=progress))


def start_server(client: SyncClient, job: str, kind: str, *, words: Sequence[str], node: str = "") -> None:
    """Start a server in the job, in addition to the job's own processes. Raises UserError."""
    run_inside(client, job, web_server.start_beside(kind, list(words)), node=node)


def await_server(client: SyncClient, job: str, kind: str, *, node: str = "", progress: Tell) -> WebServer:
    """Wait until the server answers and return it. Raises UserError with its last output if it ended."""
    deadline = time.monotonic() + START_S
    told = False
    while time.monotonic() < deadline:
        found = find_server(client, job, kind, node=node, progress=progress)
        if found is not None and (found.kind == web_server.NO_SERVER or _answers(client, job, found, node)):
            return found
        if not told:
            told = True
            progress(f"{kind} is starting")
        time.sleep(AGAIN_S)
    raise UserError(
        f"{kind} did not answer within {START_S:.0f} s", f"see its log: warpdeck logs {job}", code=SLOW
    )


def _answers(client: SyncClient, job: str, found: WebServer, node: str) -> bool:
    """Return whether the server answers HTTP requests yet."""
    try:
        number = open_tunnel(client, job, node=node, port=found.port)
    except TunnelRefused:
        return False
    request = f"GET {found.base} HTTP/1.0\r\nHost: 127.0.0.1:{found.port}\r\n\r\n"
    client.send_data(number, request.encode())
    client.send_data(number, b"")
    said = b""
    while True:
        for word, value in client.events(number):
            if word == "data":
                client.acknowledge(number, len(value))
                said += value[:64]
            if word == "end" or (word == "data" and not value):
                client.tell("close", stream=number)
                return said.startswith(b"HTTP/1.")
