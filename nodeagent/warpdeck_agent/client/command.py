"""One of Slurm's commands: the words go to the controller, where the command itself runs, and what it prints comes back.

Files are read here, by the process that asked and as its user: the controller asks for those that a command needs.
"""

from __future__ import annotations

import os
import sys
import time

from warpdeck_agent.wire.frames import JSON, WireError, json_frame, parse_json, split_data

from .access import Away, Link, Refused
from .lines import write_all
from .process import by_name, check_words, folder, with_process
from .visible import Visible

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: a command takes longer to import it than to be answered
    from typing import Any, Callable, Dict, List, Optional

    Record = Callable[[int, str], str]

REQUEST = 1
"""The command, and its stream."""
AFTERWARDS = 2
"""The other request of its connection: that a job need not wait for its record."""
CREATING = ("sbatch",)
"""Commands whose one request creates something, and carries their nonce."""
AGAIN_S = 120.0
RECEIVE_BYTES = 1 << 18
UNWRITTEN = "what was asked for may have been done"
RAW = "sattach"
"""It shows what a job writes, as it is."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""The most that is read of a file, whatever is asked for."""


def run(
    connect: Callable[[], Link],
    name: str,
    words: List[str],
    *,
    record: Optional[Record] = None,
    again: Optional[Callable[[], Link]] = None,
) -> int:
    """Runs the command; its exit code. `record` has the code in a folder recorded for a job, and tells why it is not.

    One that creates something is asked for again when its answer was lost: its nonce has it create nothing twice.
    A command that is cut off while it only waits for the end of a job goes on to wait, over a link that `again` (`connect`)
    makes. Raises Refused, Away.
    """
    here = by_name(folder(), os.environ)
    check_words((here, *words))
    asked: Dict[str, Any] = {
        "t": "command",
        "id": REQUEST,
        "name": name,
        "words": words,
        "env": with_process(os.environ),
        "cwd": here,
        "host": os.uname().nodename,
        "nonce": os.urandom(16).hex(),
        "columns": os.get_terminal_size().columns or 80 if os.isatty(1) else 0,
    }
    shown = {each: Visible() for each in (1, 2) if name != RAW and os.isatty(each)}
    link = connect()
    until = 0.0
    while True:
        try:
            return _follow(link, asked, record, shown)
        except Away:
            until = until or time.monotonic() + AGAIN_S
            if not asked.get("awaited") and (name not in CREATING or time.monotonic() > until):
                raise
        link.socket.close()
        link = (again or connect)()


def _follow(link: Link, asked: Dict[str, Any], record: Optional[Record], shown: Dict[int, Visible]) -> int:
    """Asks, and does what the command wants until it has ended. What it only waits for is noted in `asked`; `shown`: descriptors
    that are terminals."""
    link.socket.settimeout(None)
    _send(link, asked)
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
                    asked["awaited"] = int(message["job"])
                if message["t"] == "again":
                    raise Away("the controller went away")
                _answer(link, message, record)
        except WireError as error:
            raise Refused(f"the controller said something strange: {error}") from error


def _send(link: Link, message: Dict[str, Any]) -> None:
    try:
        link.socket.sendall(json_frame(message))
    except OSError as error:  # a broken pipe among them, which elsewhere tells of a reader that has left
        raise Away(str(error)) from error


def _receive(link: Link) -> bytes:
    try:
        data = link.socket.recv(RECEIVE_BYTES)
    except OSError as error:
        raise Away(str(error)) from error
    if not data:
        raise Away("the connection was lost")
    return data


def _print(link: Link, piece: bytes, shown: Dict[int, Visible]) -> None:
    """Bytes behind the number of the descriptor they go to."""
    number = 2 if piece[:1] == b"\2" else 1
    try:
        write_all(number, shown[number].piece(piece[1:]) if number in shown else piece[1:])
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused("the answer cannot be written", UNWRITTEN) from error
    _send(link, {"t": "ack", "stream": REQUEST, "size": len(piece)})


def _answer(link: Link, message: Dict[str, Any], record: Optional[Record]) -> None:
    if message["t"] == "error" and message.get("id") != AFTERWARDS:
        raise Refused(str(message["message"]), str(message.get("hint", "")), int(message.get("exit_code", 1)))
    if message["t"] == "record" and record is not None:
        note = record(int(message["job"]), str(message["folder"]))
        if note:
            asked = {"t": "code_recorded", "id": AFTERWARDS, "jobs": [str(message["job"])], "note": note}
            _send(link, asked)
    if message["t"] != "read":
        return
    said: Dict[str, Any] = {"t": "file", "stream": REQUEST, "data": "", "error": 0}
    try:
        said["data"] = _read(message).decode("latin-1")
    except OSError as error:
        said["error"] = error.errno or 5
    _send(link, said)


def _read(asked: Dict[str, Any]) -> bytes:
    """So much of a file as is asked for, or the next line of standard input. Raises OSError."""
    size = min(int(asked["size"]), MAX_FILE_BYTES)
    if asked["path"] == "-":
        source = sys.stdin.buffer
        return source.readline(size) if asked["line"] else source.read(size)
    with open(os.path.join(os.getcwd(), str(asked["path"])), "rb") as file:
        return file.read(size)
