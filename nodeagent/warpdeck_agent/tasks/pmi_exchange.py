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

from .pmi import MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_VALUE_BYTES, PmiError, PmiProtocol, PmiRequest

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


class _RankLink:
    """One rank's connection. `has_joined` is true between its init and its finalize."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank = rank
        self.connection = connection
        self.conversation = PmiProtocol()
        self.has_joined = False
        self.fence_request: Optional[PmiRequest] = None
        """Its pending fence request."""
        self.attribute_request: Optional[PmiRequest] = None
        """Its pending request for a node attribute that does not exist yet."""


class PmiExchange:
    """The exchange of one step on this node.

    `fence` sends the puts of this node's ranks. `lost` is called for a rank that will never reach the next
    fence, with (rank, code, reason). `note` stores a request that a restarted agent passes to `replay`.
    """

    def __init__(
        self,
        request: Pmi,
        ranks: Sequence[int],
        *,
        fence: Callable[[int, Dict[str, str]], None],
        lost: Callable[[int, int, str], None],
        note: Callable[[Dict[str, Any]], None],
    ) -> None:
        self._pmi = request
        self._count = len(ranks)
        self._fence = fence
        self._lost = lost
        self._store = note
        self._is_replaying = False
        self._ranks: Dict[int, _RankLink] = {}
        self._values: Dict[str, str] = {"PMI_process_mapping": request.mapping} if request.mapping else {}
        self._puts: Dict[str, str] = {}
        self._put_bytes = 0
        self._incoming: Dict[str, str] = {}
        self._attributes: Dict[str, str] = {}
        self._sent_puts: Dict[int, Dict[str, str]] = {}
        """The puts of this node that were sent for the last fences, by fence number."""
        self._fence_number = 0

    def open(self, rank: int) -> Tuple[int, int]:
        """Create the socket pair of a rank.

        Returns (the rank's descriptor, ours). The caller closes the first one after it has started the rank.
        """
        ours, theirs = socket.socketpair()
        try:
            descriptor = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        finally:
            theirs.close()
        self._read_from(self._add(rank, ours))
        return descriptor, ours.fileno()

    def replay(self, lines: Mapping[int, socket.socket], notes: Iterable[Dict[str, Any]]) -> None:
        """Continue the exchange of an earlier agent.

        `lines` are our ends of the ranks' sockets, and `notes` its stored requests.
        """
        self._is_replaying = True
        for rank, connection in lines.items():
            self._add(rank, connection)
        for note in notes:
            if "fence" in note:
                self.fenced(note["fence"], note["values"], last=note["last"])
            else:
                rank_link = self._ranks.get(note["rank"]) or self._add(note["rank"], _closed())
                self._take(rank_link, PmiRequest(note["command"], note["pairs"]))
        self._is_replaying = False
        for rank in lines:
            self._read_from(self._ranks[rank])

    def _add(self, rank: int, connection: socket.socket) -> _RankLink:
        rank_link = self._ranks[rank] = _RankLink(rank, connection)
        return rank_link

    def _read_from(self, rank_link: _RankLink) -> None:
        rank_link.connection.setblocking(False)
        asyncio.get_running_loop().add_reader(rank_link.connection.fileno(), self._read, rank_link)

    def variables(self, rank: int, descriptor: int) -> Dict[str, str]:
        """Return the PMI variables for the rank's process."""
        return {
            "PMI_FD": str(descriptor),
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(self._pmi.size),
            "PMI_JOBID": self._pmi.name,
        }

    def rank_ended(self, rank: int, code: int, signal: int) -> None:
        """Handle the end of the rank's process."""
        rank_link = self._ranks.get(rank)
        if rank_link is None:
            return
        self._read(rank_link)  # its finalize may still be unread
        joined = rank_link.has_joined
        self._disconnect(rank_link)
        if joined:
            how = f"was ended by signal {signal}" if signal else f"exited with code {code}"
            self._lost(
                rank,
                128 + signal if signal else code,
                f"rank {rank} {how} before MPI_Finalize, so the other ranks would wait forever",
            )

    def close(self) -> None:
        """Close all connections, because no rank runs any more."""
        for rank_link in list(self._ranks.values()):
            self._disconnect(rank_link)

    def _disconnect(self, rank_link: _RankLink) -> None:
        rank_link.has_joined = False
        if rank_link.connection.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(rank_link.connection.fileno())
            rank_link.connection.close()

    def _read(self, rank_link: _RankLink) -> None:
        """Read and handle a rank's requests."""
        if rank_link.connection.fileno() < 0:
            return
        try:
            data = rank_link.connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(rank_link.connection.fileno())
            return  # the process's end shows whether it had finalized
        try:
            for request in rank_link.conversation.feed(data):
                self._take(rank_link, request)
        except PmiError as error:
            self._refuse(rank_link, f"rank {rank_link.rank} sent invalid PMI data: {error}")

    def _refuse(self, rank_link: _RankLink, why: str) -> None:
        self._disconnect(rank_link)
        self._lost(rank_link.rank, 1, why)

    def _answer(
        self,
        rank_link: _RankLink,
        request: PmiRequest,
        *,
        pairs: Optional[Dict[str, str]] = None,
        error: str = "",
    ) -> None:
        """Send an answer.

        Answers are short and a rank waits for each, so a rank that does not read is refused.
        """
        data = rank_link.conversation.answer(request, pairs or {}, error=error)
        if self._is_replaying or rank_link.connection.fileno() < 0:
            return
        try:
            sent = rank_link.connection.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is just ending, which is reported separately
        if sent < len(data):
            self._refuse(rank_link, f"rank {rank_link.rank} sends PMI requests but does not read the answers")

    def _take(self, rank_link: _RankLink, request: PmiRequest) -> None:
        command = request.command
        if command in NOTED and not self._is_replaying:
            self._store({"rank": rank_link.rank, "command": command, "pairs": request.pairs})
        act = _ACTS.get(command)
        if act is not None:
            act(self, rank_link, request)
        elif command in REFUSED:
            self._answer(rank_link, request, error=f"{REFUSED[command]} here")
        elif rank_link.conversation.dialect == 2:
            self._answer(rank_link, request, error=f"{command[:MAX_KEY_BYTES]} is not known here")
        else:
            raise PmiError(f"the command {command!r} does not exist in PMI-1")

    def _init(self, rank_link: _RankLink, request: PmiRequest) -> None:
        rank_link.has_joined = True
        two = request.pairs.get("pmi_version") == "2"
        pairs = {"pmi_version": "2" if two else "1", "pmi_subversion": "0" if two else "1"}
        self._answer(rank_link, request, pairs=pairs)

    def _full_init(self, rank_link: _RankLink, request: PmiRequest) -> None:
        pairs = {
            "pmi-version": "2",
            "pmi-subversion": "0",
            "rank": str(rank_link.rank),
            "size": str(self._pmi.size),
            "appnum": "0",
            "debugged": "FALSE",
            "pmiverbose": "FALSE",
        }
        self._answer(rank_link, request, pairs=pairs)

    def _maxes(self, rank_link: _RankLink, request: PmiRequest) -> None:
        most = {"kvsname_max": MAX_NAME_BYTES, "keylen_max": MAX_KEY_BYTES, "vallen_max": MAX_VALUE_BYTES}
        self._answer(rank_link, request, pairs={name: str(value) for name, value in most.items()})

    def _job_id(self, rank_link: _RankLink, request: PmiRequest) -> None:
        name = "jobid" if rank_link.conversation.dialect == 2 else "kvsname"
        self._answer(rank_link, request, pairs={name: self._pmi.name})

    def _put_value(self, rank_link: _RankLink, request: PmiRequest) -> None:
        key, value = request.pairs.get("key", ""), request.pairs.get("value", "")
        size = len(key) + len(value)
        if not _fits(key, value):
            self._answer(
                rank_link,
                request,
                error=f"a key may have 1 to {MAX_KEY_BYTES} characters, a value at most {MAX_VALUE_BYTES}",
            )
        elif self._put_bytes + size > MAX_PUT_BYTES:
            self._answer(rank_link, request, error=f"more than {MAX_PUT_BYTES} bytes between two fences")
        else:
            self._puts[key] = value
            self._put_bytes += size
            self._answer(rank_link, request)

    def _get_value(self, rank_link: _RankLink, request: PmiRequest) -> None:
        key = request.pairs.get("key", "")
        value = self._puts.get(key, self._values.get(key))
        self._answer_value(rank_link, request, value)

    def _answer_value(self, rank_link: _RankLink, request: PmiRequest, value: Optional[str]) -> None:
        if rank_link.conversation.dialect == 1:
            error = "" if value is not None else "key_not_found"
            self._answer(
                rank_link, request, pairs={"value": "unknown" if value is None else value}, error=error
            )
        elif value is None:
            self._answer(rank_link, request, pairs={"found": "FALSE"})
        else:
            self._answer(rank_link, request, pairs={"found": "TRUE", "value": value})

    def _job_attribute(self, rank_link: _RankLink, request: PmiRequest) -> None:
        known = {**self._values, "universeSize": str(self._pmi.size), "hasNameServ": "FALSE"}
        self._answer_value(rank_link, request, known.get(request.pairs.get("key", "")))

    def _put_attribute(self, rank_link: _RankLink, request: PmiRequest) -> None:
        key, value = request.pairs.get("key", ""), request.pairs.get("value", "")
        if not _fits(key, value) or len(self._attributes) >= MAX_ATTRIBUTES:
            self._answer(
                rank_link, request, error="the attribute is too long, or the node has too many attributes"
            )
            return
        self._attributes[key] = value
        self._answer(rank_link, request)
        for other in self._ranks.values():
            if other.attribute_request is not None and other.attribute_request.pairs.get("key") == key:
                request, other.attribute_request = other.attribute_request, None
                self._answer_value(other, request, value)

    def _get_attribute(self, rank_link: _RankLink, request: PmiRequest) -> None:
        value = self._attributes.get(request.pairs.get("key", ""))
        if value is None and request.pairs.get("wait", "").upper() == "TRUE":
            rank_link.attribute_request = request
        else:
            self._answer_value(rank_link, request, value)

    def _reach_fence(self, rank_link: _RankLink, request: PmiRequest) -> None:
        rank_link.fence_request = request
        if sum(1 for other in self._ranks.values() if other.fence_request is not None) < self._count:
            return
        self._sent_puts[self._fence_number] = self._puts
        self._sent_puts.pop(self._fence_number - 2, None)
        if self._pmi.nodes == 1:
            self._release_fence(self._puts)
        elif not self._is_replaying:
            self._fence(self._fence_number, self._puts)

    def repeat(self) -> None:
        """Repeat the last fences on a new link to the controller, which may not have received them."""
        if self._pmi.nodes > 1:
            for number, values in sorted(self._sent_puts.items()):
                self._fence(number, values)

    def fenced(self, number: int, values: Mapping[str, str], *, last: bool) -> None:
        """Take the values that all nodes put before that fence, or a part of them."""
        if number != self._fence_number or number not in self._sent_puts:
            return
        if not self._is_replaying:
            self._store({"fence": number, "values": dict(values), "last": last})
        self._incoming.update(values)
        if last:
            self._release_fence(self._incoming)

    def _release_fence(self, values: Mapping[str, str]) -> None:
        self._values.update(values)
        self._puts, self._put_bytes, self._incoming = {}, 0, {}
        self._fence_number += 1
        for rank_link in list(self._ranks.values()):
            if rank_link.fence_request is not None:
                request, rank_link.fence_request = rank_link.fence_request, None
                self._answer(rank_link, request)

    def _finalize(self, rank_link: _RankLink, request: PmiRequest) -> None:
        rank_link.has_joined = False
        self._answer(rank_link, request)

    def _abort(self, rank_link: _RankLink, request: PmiRequest) -> None:
        rank_link.has_joined = False
        if self._is_replaying:
            return  # it was reported before, or the rank's end will be
        code = _status(request.pairs.get("exitcode", ""))
        why = request.pairs.get("msg", "")[:MAX_VALUE_BYTES]
        self._lost(
            rank_link.rank,
            code,
            f"rank {rank_link.rank} called MPI_Abort" + (f": {why}" if why else ""),
        )


def _status(value: str) -> int:
    """Return an exit status in a shell's range, or 1 for text that is not a number."""
    digits = value[value.startswith("-") :]
    return int(value) & 0xFF if digits.isdecimal() and len(digits) <= MAX_DIGITS else 1


def _closed() -> socket.socket:
    """Return a closed socket, for a rank that has ended."""
    connection = socket.socket(socket.AF_UNIX)
    connection.close()
    return connection


def _fits(key: str, value: str) -> bool:
    return 0 < len(key) <= MAX_KEY_BYTES and len(value) <= MAX_VALUE_BYTES


_ACTS: Dict[str, Callable[[PmiExchange, _RankLink, PmiRequest], None]] = {
    "init": PmiExchange._init,
    "fullinit": PmiExchange._full_init,
    "get_maxes": PmiExchange._maxes,
    "get_appnum": lambda self, rank_link, request: self._answer(rank_link, request, pairs={"appnum": "0"}),
    "get_universe_size": lambda self, rank_link, request: self._answer(
        rank_link, request, pairs={"size": str(self._pmi.size)}
    ),
    "job-getid": PmiExchange._job_id,
    "kvs-put": PmiExchange._put_value,
    "kvs-get": PmiExchange._get_value,
    "kvs-fence": PmiExchange._reach_fence,
    "info-getjobattr": PmiExchange._job_attribute,
    "info-putnodeattr": PmiExchange._put_attribute,
    "info-getnodeattr": PmiExchange._get_attribute,
    "finalize": PmiExchange._finalize,
    "abort": PmiExchange._abort,
}
