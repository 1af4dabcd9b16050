"""Runs one of Slurm's commands: the controller executes it with these arguments, and sends back its output.

Files are read here, by the calling process as its user: the controller asks for the files that a command
needs.
"""

from __future__ import annotations

import os
import sys
import time

from warpdeck_agent.wire.frames import JSON, WireError, json_frame, parse_json, split_data

from .access import CommandRefused, ControllerLink, Unreachable
from .lines import write_all
from .process import by_name, check_arguments, folder, with_process
from .visible import Visible

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes longer than the answer to a command.
    from typing import Any, Callable, Dict, List, Optional

    Record = Callable[[int, str], str]

REQUEST = 1
"""The id of the command's request, and of its stream."""
RECORD_REQUEST = 2
"""The id of the request that reports why the code of a job could not be recorded."""
CREATING = ("sbatch",)
"""Commands that create an object with their single request. The request carries a nonce."""
RETRY_S = 120.0
RECEIVE_BYTES = 1 << 18
UNWRITTEN = "the command may have taken effect; check before you repeat it"
RAW = "sattach"
"""This command shows a job's output unchanged."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""The most bytes of a file that are read, whatever the controller asks for."""


def run(
    connect: Callable[[], ControllerLink],
    name: str,
    argv: List[str],
    *,
    record: Optional[Record] = None,
    reconnect: Optional[Callable[[], ControllerLink]] = None,
) -> int:
    """Run the command and return its exit code.

    Raises CommandRefused or Unreachable.

    `record` records the code in a folder for a job, and returns the reason if that fails. A command that
    creates an object is sent again if its answer was lost; the nonce prevents a second creation. If the
    connection breaks while the command only waits for the end of a job, the command continues to wait over a
    new link from `reconnect` (by default `connect`).
    """
    cwd = by_name(folder(), os.environ)
    check_arguments((cwd, *argv))
    request: Dict[str, Any] = {
        "t": "command",
        "id": REQUEST,
        "name": name,
        "words": argv,
        "env": with_process(os.environ),
        "cwd": cwd,
        "host": os.uname().nodename,
        "nonce": os.urandom(16).hex(),
        "columns": os.get_terminal_size().columns or 80 if os.isatty(1) else 0,
    }
    shown = {each: Visible() for each in (1, 2) if name != RAW and os.isatty(each)}
    link = connect()
    until = 0.0
    while True:
        try:
            return _follow(link, request, record, shown)
        except Unreachable:
            until = until or time.monotonic() + RETRY_S
            if not request.get("awaited") and (name not in CREATING or time.monotonic() > until):
                raise
        link.socket.close()
        link = (reconnect or connect)()


def _follow(
    link: ControllerLink, request: Dict[str, Any], record: Optional[Record], shown: Dict[int, Visible]
) -> int:
    """Send the command and serve its requests until it has ended.

    Returns its exit code. A job for which the command only waits is added to `request`. `shown` has a filter
    for each output descriptor that is a terminal.
    """
    link.socket.settimeout(None)
    _send(link, request)
    while True:
        data = _receive(link)
        try:
            for kind, payload in link.decoder.feed(data):
                if kind != JSON:
                    _print(link, split_data(payload)[1], shown)
                    continue
                message = parse_json(payload)
                if message["t"] == "end":
                    return int((message.get("exit") or {}).get("code", 1))
                if message["t"] == "awaits":
                    request["awaited"] = int(message["job"])
                if message["t"] == "again":
                    raise Unreachable("the controller was stopped")
                _answer(link, message, record)
        except WireError as error:
            raise CommandRefused(f"the controller sent invalid data: {error}") from error


def _send(link: ControllerLink, message: Dict[str, Any]) -> None:
    try:
        link.socket.sendall(json_frame(message))
    # Includes a broken pipe, which in other places means that the reader of the output has ended.
    except OSError as error:
        raise Unreachable(str(error)) from error


def _receive(link: ControllerLink) -> bytes:
    try:
        data = link.socket.recv(RECEIVE_BYTES)
    except OSError as error:
        raise Unreachable(str(error)) from error
    if not data:
        raise Unreachable("the connection was lost")
    return data


def _print(link: ControllerLink, piece: bytes, shown: Dict[int, Visible]) -> None:
    """Write output bytes, which follow the number of their descriptor."""
    number = 2 if piece[:1] == b"\2" else 1
    try:
        write_all(number, shown[number].piece(piece[1:]) if number in shown else piece[1:])
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandRefused("the answer cannot be written", UNWRITTEN) from error
    _send(link, {"t": "ack", "stream": REQUEST, "size": len(piece)})


def _answer(link: ControllerLink, message: Dict[str, Any], record: Optional[Record]) -> None:
    if message["t"] == "error" and message.get("id") != RECORD_REQUEST:
        raise CommandRefused(
            str(message["message"]), str(message.get("hint", "")), int(message.get("exit_code", 1))
        )
    if message["t"] == "record" and record is not None:
        note = record(int(message["job"]), str(message["folder"]))
        if note:
            request = {
                "t": "code_recorded",
                "id": RECORD_REQUEST,
                "jobs": [str(message["job"])],
                "note": note,
            }
            _send(link, request)
    if message["t"] != "read":
        return
    answer: Dict[str, Any] = {"t": "file", "stream": REQUEST, "data": "", "error": 0}
    try:
        answer["data"] = _read(message).decode("latin-1")
    except OSError as error:
        answer["error"] = error.errno or 5
    _send(link, answer)


def _read(request: Dict[str, Any]) -> bytes:
    """Return a part of the requested file, or the next line of standard input. Raises OSError."""
    size = min(int(request["size"]), MAX_FILE_BYTES)
    if request["path"] == "-":
        source = sys.stdin.buffer
        return source.readline(size) if request["line"] else source.read(size)
    with open(os.path.join(os.getcwd(), str(request["path"])), "rb") as file:
        return file.read(size)
