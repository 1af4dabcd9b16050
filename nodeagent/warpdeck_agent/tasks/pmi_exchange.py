"""This node's part of the PMI exchange between the ranks of a step.

It has a socket for each rank and no extra process. A rank's puts become visible to the others after a fence,
which blocks every rank until all ranks of the step have reached it. A step on one node is handled here. In a
step on several nodes, each agent sends its ranks' puts when all of them wait, and the controller sends back
the puts of all. Fences are numbered, and repeated messages change nothing. So after a broken link both sides
repeat everything about the last two fences.

A restarted agent continues where the previous one was killed. The supervisor kept the sockets (see
linestore). Requests that changed the state were stored before they were answered, and are replayed without
answers. A request that was read but not yet stored at the moment of the kill is never answered.

A rank that asks for an abort, or that ends without finalizing, can never reach a fence, so the step ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Tuple

from warpdeck_agent.wire.steps import Pmi

from .pmi import MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_VALUE_BYTES, Conversation, PmiError, Request

READ_BYTES = 64 * 1024
NOTED = frozenset(
    ["init", "fullinit", "kvs-put", "kvs-fence", "info-putnodeattr", "info-getnodeattr", "finalize", "abort"]
)
"""Requests that change later answers, or the set of waiting ranks."""
FIRST_FD = 10
"""Lower descriptors may be used by a shell's own redirections."""
MAX_PUT_BYTES = 4 * 1024 * 1024
"""The most bytes that the ranks of one node may put between two fences. MPICH's ranks put a kilobyte each."""
MAX_ATTRIBUTES = 4096
"""The most attributes of the node, which its ranks put for each other."""
MAX_DIGITS = 9
"""The most digits of an exit status."""
REFUSED = {
    "name-publish": "names cannot be published",
    "name-unpublish": "names cannot be published",
    "name-lookup": "names cannot be published",
    "spawn": "no more processes can be started",
    "job-connect": "jobs cannot be connected",
    "job-disconnect": "jobs cannot be connected",
}


class _Rank:
    """One rank's connection. `has_joined` is true between its init and its finalize."""

    def __init__(self, rank: int, line: socket.socket) -> None:
        self.rank = rank
        self.line = line
        self.conversation = Conversation()
        self.has_joined = False
        self.waits: Optional[Request] = None
        """Its pending fence request."""
        self.wants: Optional[Request] = None
        """Its pending request for a node attribute that does not exist yet."""


class Exchange:
    """The exchange of one step on this node.

    `fence` sends the puts of this node's ranks. `lost` is called for a rank that will never reach the next
    fence, with (rank, code, reason). `note` stores a request that a restarted agent passes to `replay`.
    """

    def __init__(
        self,
        asked: Pmi,
        ranks: Sequence[int],
        *,
        fence: Callable[[int, Dict[str, str]], None],
        lost: Callable[[int, int, str], None],
        note: Callable[[Dict[str, Any]], None],
    ) -> None:
        self._asked = asked
        self._count = len(ranks)
        self._fence = fence
        self._lost = lost
        self._note = note
        self._replays = False
        self._ranks: Dict[int, _Rank] = {}
        self._values: Dict[str, str] = {"PMI_process_mapping": asked.mapping} if asked.mapping else {}
        self._put: Dict[str, str] = {}
        self._put_bytes = 0
        self._coming: Dict[str, str] = {}
        self._attributes: Dict[str, str] = {}
        self._said: Dict[int, Dict[str, str]] = {}
        """The puts of this node that were sent for the last fences, by fence number."""
        self._round = 0

    def open(self, rank: int) -> Tuple[int, int]:
        """Create the socket pair of a rank.

        Returns (the rank's descriptor, ours). The caller closes the first one after it has started the rank.
        """
        ours, theirs = socket.socketpair()
        try:
            descriptor = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        finally:
            theirs.close()
        self._listen(self._add(rank, ours))
        return descriptor, ours.fileno()

    def replay(self, lines: Mapping[int, socket.socket], notes: Iterable[Dict[str, Any]]) -> None:
        """Continue the exchange of an earlier agent.

        `lines` are our ends of the ranks' sockets, and `notes` its stored requests.
        """
        self._replays = True
        for rank, line in lines.items():
            self._add(rank, line)
        for note in notes:
            if "fence" in note:
                self.fenced(note["fence"], note["values"], last=note["last"])
            else:
                found = self._ranks.get(note["rank"]) or self._add(note["rank"], _closed())
                self._take(found, Request(note["command"], note["pairs"]))
        self._replays = False
        for rank in lines:
            self._listen(self._ranks[rank])

    def _add(self, rank: int, line: socket.socket) -> _Rank:
        found = self._ranks[rank] = _Rank(rank, line)
        return found

    def _listen(self, found: _Rank) -> None:
        found.line.setblocking(False)
        asyncio.get_running_loop().add_reader(found.line.fileno(), self._read, found)

    def variables(self, rank: int, descriptor: int) -> Dict[str, str]:
        """Return the PMI variables for the rank's process."""
        return {
            "PMI_FD": str(descriptor),
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(self._asked.size),
            "PMI_JOBID": self._asked.name,
        }

    def ended(self, rank: int, code: int, signal: int) -> None:
        """Handle the end of the rank's process."""
        found = self._ranks.get(rank)
        if found is None:
            return
        self._read(found)  # its finalize may still be unread
        joined = found.has_joined
        self._hang_up(found)
        if joined:
            how = f"was ended by signal {signal}" if signal else f"exited with code {code}"
            self._lost(
                rank,
                128 + signal if signal else code,
                f"rank {rank} {how} before MPI_Finalize, so the other ranks would wait forever",
            )

    def close(self) -> None:
        """Close all connections, because no rank runs any more."""
        for found in list(self._ranks.values()):
            self._hang_up(found)

    def _hang_up(self, found: _Rank) -> None:
        found.has_joined = False
        if found.line.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(found.line.fileno())
            found.line.close()

    def _read(self, found: _Rank) -> None:
        """Read and handle a rank's requests."""
        if found.line.fileno() < 0:
            return
        try:
            data = found.line.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(found.line.fileno())
            return  # the process's end shows whether it had finalized
        try:
            for request in found.conversation.feed(data):
                self._take(found, request)
        except PmiError as error:
            self._refuse(found, f"rank {found.rank} sent invalid PMI data: {error}")

    def _refuse(self, found: _Rank, why: str) -> None:
        self._hang_up(found)
        self._lost(found.rank, 1, why)

    def _answer(
        self, found: _Rank, request: Request, *, pairs: Optional[Dict[str, str]] = None, error: str = ""
    ) -> None:
        """Send an answer.

        Answers are short and a rank waits for each, so a rank that does not read is refused.
        """
        data = found.conversation.answer(request, pairs or {}, error=error)
        if self._replays or found.line.fileno() < 0:
            return
        try:
            sent = found.line.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is just ending, which is reported separately
        if sent < len(data):
            self._refuse(found, f"rank {found.rank} sends PMI requests but does not read the answers")

    def _take(self, found: _Rank, request: Request) -> None:
        command = request.command
        if command in NOTED and not self._replays:
            self._note({"rank": found.rank, "command": command, "pairs": request.pairs})
        act = _ACTS.get(command)
        if act is not None:
            act(self, found, request)
        elif command in REFUSED:
            self._answer(found, request, error=f"{REFUSED[command]} here")
        elif found.conversation.dialect == 2:
            self._answer(found, request, error=f"{command[:MAX_KEY_BYTES]} is not known here")
        else:
            raise PmiError(f"the command {command!r} does not exist in PMI-1")

    def _init(self, found: _Rank, request: Request) -> None:
        found.has_joined = True
        two = request.pairs.get("pmi_version") == "2"
        pairs = {"pmi_version": "2" if two else "1", "pmi_subversion": "0" if two else "1"}
        self._answer(found, request, pairs=pairs)

    def _full_init(self, found: _Rank, request: Request) -> None:
        pairs = {
            "pmi-version": "2",
            "pmi-subversion": "0",
            "rank": str(found.rank),
            "size": str(self._asked.size),
            "appnum": "0",
            "debugged": "FALSE",
            "pmiverbose": "FALSE",
        }
        self._answer(found, request, pairs=pairs)

    def _maxes(self, found: _Rank, request: Request) -> None:
        most = {"kvsname_max": MAX_NAME_BYTES, "keylen_max": MAX_KEY_BYTES, "vallen_max": MAX_VALUE_BYTES}
        self._answer(found, request, pairs={name: str(value) for name, value in most.items()})

    def _job_id(self, found: _Rank, request: Request) -> None:
        name = "jobid" if found.conversation.dialect == 2 else "kvsname"
        self._answer(found, request, pairs={name: self._asked.name})

    def _put_value(self, found: _Rank, request: Request) -> None:
        key, value = request.pairs.get("key", ""), request.pairs.get("value", "")
        size = len(key) + len(value)
        if not _fits(key, value):
            self._answer(
                found,
                request,
                error=f"a key may have 1 to {MAX_KEY_BYTES} characters, a value at most {MAX_VALUE_BYTES}",
            )
        elif self._put_bytes + size > MAX_PUT_BYTES:
            self._answer(found, request, error=f"more than {MAX_PUT_BYTES} bytes between two fences")
        else:
            self._put[key] = value
            self._put_bytes += size
            self._answer(found, request)

    def _get_value(self, found: _Rank, request: Request) -> None:
        key = request.pairs.get("key", "")
        value = self._put.get(key, self._values.get(key))
        self._answer_value(found, request, value)

    def _answer_value(self, found: _Rank, request: Request, value: Optional[str]) -> None:
        if found.conversation.dialect == 1:
            error = "" if value is not None else "key_not_found"
            self._answer(found, request, pairs={"value": "unknown" if value is None else value}, error=error)
        elif value is None:
            self._answer(found, request, pairs={"found": "FALSE"})
        else:
            self._answer(found, request, pairs={"found": "TRUE", "value": value})

    def _job_attribute(self, found: _Rank, request: Request) -> None:
        known = {**self._values, "universeSize": str(self._asked.size), "hasNameServ": "FALSE"}
        self._answer_value(found, request, known.get(request.pairs.get("key", "")))

    def _put_attribute(self, found: _Rank, request: Request) -> None:
        key, value = request.pairs.get("key", ""), request.pairs.get("value", "")
        if not _fits(key, value) or len(self._attributes) >= MAX_ATTRIBUTES:
            self._answer(
                found, request, error="the attribute is too long, or the node has too many attributes"
            )
            return
        self._attributes[key] = value
        self._answer(found, request)
        for other in self._ranks.values():
            if other.wants is not None and other.wants.pairs.get("key") == key:
                asked, other.wants = other.wants, None
                self._answer_value(other, asked, value)

    def _get_attribute(self, found: _Rank, request: Request) -> None:
        value = self._attributes.get(request.pairs.get("key", ""))
        if value is None and request.pairs.get("wait", "").upper() == "TRUE":
            found.wants = request
        else:
            self._answer_value(found, request, value)

    def _wait(self, found: _Rank, request: Request) -> None:
        found.waits = request
        if sum(1 for other in self._ranks.values() if other.waits is not None) < self._count:
            return
        self._said[self._round] = self._put
        self._said.pop(self._round - 2, None)
        if self._asked.nodes == 1:
            self._let_on(self._put)
        elif not self._replays:
            self._fence(self._round, self._put)

    def repeat(self) -> None:
        """Repeat the last fences on a new link to the controller, which may not have received them."""
        if self._asked.nodes > 1:
            for number, values in sorted(self._said.items()):
                self._fence(number, values)

    def fenced(self, number: int, values: Mapping[str, str], *, last: bool) -> None:
        """Take the values that all nodes put before that fence, or a part of them."""
        if number != self._round or number not in self._said:
            return
        if not self._replays:
            self._note({"fence": number, "values": dict(values), "last": last})
        self._coming.update(values)
        if last:
            self._let_on(self._coming)

    def _let_on(self, values: Mapping[str, str]) -> None:
        self._values.update(values)
        self._put, self._put_bytes, self._coming = {}, 0, {}
        self._round += 1
        for found in list(self._ranks.values()):
            if found.waits is not None:
                asked, found.waits = found.waits, None
                self._answer(found, asked)

    def _finalize(self, found: _Rank, request: Request) -> None:
        found.has_joined = False
        self._answer(found, request)

    def _abort(self, found: _Rank, request: Request) -> None:
        found.has_joined = False
        if self._replays:
            return  # it was reported before, or the rank's end will be
        code = _status(request.pairs.get("exitcode", ""))
        why = request.pairs.get("msg", "")[:MAX_VALUE_BYTES]
        self._lost(
            found.rank,
            code,
            f"rank {found.rank} called MPI_Abort" + (f": {why}" if why else ""),
        )


def _status(words: str) -> int:
    """Return an exit status in a shell's range, or 1 for text that is not a number."""
    digits = words[words.startswith("-") :]
    return int(words) & 0xFF if digits.isdecimal() and len(digits) <= MAX_DIGITS else 1


def _closed() -> socket.socket:
    """Return a closed socket, for a rank that has ended."""
    line = socket.socket(socket.AF_UNIX)
    line.close()
    return line


def _fits(key: str, value: str) -> bool:
    return 0 < len(key) <= MAX_KEY_BYTES and len(value) <= MAX_VALUE_BYTES


_ACTS: Dict[str, Callable[[Exchange, _Rank, Request], None]] = {
    "init": Exchange._init,
    "fullinit": Exchange._full_init,
    "get_maxes": Exchange._maxes,
    "get_appnum": lambda self, found, request: self._answer(found, request, pairs={"appnum": "0"}),
    "get_universe_size": lambda self, found, request: self._answer(
        found, request, pairs={"size": str(self._asked.size)}
    ),
    "job-getid": Exchange._job_id,
    "kvs-put": Exchange._put_value,
    "kvs-get": Exchange._get_value,
    "kvs-fence": Exchange._wait,
    "info-getjobattr": Exchange._job_attribute,
    "info-putnodeattr": Exchange._put_attribute,
    "info-getnodeattr": Exchange._get_attribute,
    "finalize": Exchange._finalize,
    "abort": Exchange._abort,
}
