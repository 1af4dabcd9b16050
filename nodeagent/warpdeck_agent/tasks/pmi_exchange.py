"""This node's part of the PMI exchange between the ranks of a step.

It has a socket for each rank and no extra process. A rank's puts become visible to the others after a fence,
which blocks every rank until all ranks of the step have reached it. A step on one node is handled here. In a
step on several nodes, each agent sends its ranks' puts when all of them wait, and the controller sends back
the puts of all. Fences are numbered, and repeated messages change nothing. So after a broken link both sides
repeat everything about the last two fences.

A restarted agent continues where the previous one was killed. The supervisor kept the sockets (see
`descriptor_store`). Requests that changed the state were stored before they were answered, and are replayed without
answers. A request that was read but not yet stored at the moment of the kill is never answered.

A rank that asks for an abort, or that ends without finalizing, can never reach a fence, so the step ends.
"""

from __future__ import annotations

import fcntl
import socket
from typing import Any, Callable, Dict, Iterable, Mapping, Sequence, Tuple

from warpdeck_agent.wire.steps import Pmi

from .pmi import MAX_KEY_BYTES, MAX_VALUE_BYTES, PmiError, PmiRequest
from .pmi_kvs import KeyValueSpace
from .pmi_rank import ANSWERS, Answer, PmiRank, value_answer

STORED = frozenset(
    ["init", "fullinit", "kvs-put", "kvs-fence", "info-putnodeattr", "info-getnodeattr", "finalize", "abort"]
)
"""Requests that change later answers, or the set of waiting ranks."""
FIRST_FD = 10
"""Lower descriptors may be used by a shell's own redirections."""
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


class PmiExchange:
    """The exchange of one step on this node.

    `send_fence` sends the puts of this node's ranks. `lost` is called for a rank that will never reach the
    next fence, with (rank, code, reason). `store` keeps a message for `replay` of a restarted agent.
    """

    def __init__(
        self,
        pmi: Pmi,
        ranks: Sequence[int],
        *,
        send_fence: Callable[[int, Dict[str, str]], None],
        lost: Callable[[int, int, str], None],
        store: Callable[[Dict[str, Any]], None],
    ) -> None:
        self._pmi = pmi
        self._rank_count = len(ranks)
        self._send_fence = send_fence
        self._lost = lost
        self._store = store
        self._is_replaying = False
        self._ranks: Dict[int, PmiRank] = {}
        self._kvs = KeyValueSpace(pmi)
        self._handlers: Dict[str, Callable[[PmiRank, PmiRequest], None]] = {
            "kvs-fence": self._reach_fence,
            "info-putnodeattr": self._put_attribute,
            "info-getnodeattr": self._get_attribute,
            "abort": self._abort,
        }
        """The handlers of the requests that concern other ranks."""

    def open(self, rank: int) -> Tuple[int, int]:
        """Create the socket pair of a rank.

        Returns (the rank's descriptor, ours). The caller closes the first one after it has started the rank.
        """
        ours, theirs = socket.socketpair()
        try:
            descriptor = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        finally:
            theirs.close()
        self._add(rank, ours).listen(self._read)
        return descriptor, ours.fileno()

    def replay(self, connections: Mapping[int, socket.socket], stored: Iterable[Dict[str, Any]]) -> None:
        """Continue the exchange of an earlier agent.

        `connections` are our ends of the ranks' sockets, and `stored` are the messages that it stored.
        """
        self._is_replaying = True
        for number, connection in connections.items():
            self._add(number, connection)
        for message in stored:
            if "fence" in message:
                self.fenced(message["fence"], message["values"], last=message["last"])
            else:
                rank = self._ranks.get(message["rank"]) or self._add(message["rank"], _closed_socket())
                self._handle(rank, PmiRequest(message["command"], message["pairs"]))
        self._is_replaying = False
        for number in connections:
            self._ranks[number].listen(self._read)

    def variables(self, rank: int, descriptor: int) -> Dict[str, str]:
        """Return the PMI variables for the rank's process."""
        return {
            "PMI_FD": str(descriptor),
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(self._pmi.size),
            "PMI_JOBID": self._pmi.name,
        }

    def rank_ended(self, number: int, code: int, signal: int) -> None:
        """Handle the end of the process of a rank."""
        rank = self._ranks.get(number)
        if rank is None:
            return
        self._read(rank)  # its finalize may still be unread
        had_joined = rank.has_joined
        rank.disconnect()
        if had_joined:
            how = f"was ended by signal {signal}" if signal else f"exited with code {code}"
            self._lost(
                number,
                128 + signal if signal else code,
                f"rank {number} {how} before MPI_Finalize, so the other ranks would wait forever",
            )

    def close(self) -> None:
        """Close all connections, because no rank runs any more."""
        for rank in self._ranks.values():
            rank.disconnect()

    def repeat(self) -> None:
        """Repeat the last fences on a new link to the controller, which may not have received them."""
        if self._pmi.nodes > 1:
            for number, values in self._kvs.sent().items():
                self._send_fence(number, values)

    def fenced(self, number: int, values: Mapping[str, str], *, last: bool) -> None:
        """Take the values that all nodes put before that fence, or a part of them."""
        if not self._kvs.expects(number):
            return
        if not self._is_replaying:
            self._store({"fence": number, "values": dict(values), "last": last})
        arrived = self._kvs.add_incoming(values)
        if last:
            self._release_fence(arrived)

    def _add(self, number: int, connection: socket.socket) -> PmiRank:
        rank = self._ranks[number] = PmiRank(number, connection)
        return rank

    def _read(self, rank: PmiRank) -> None:
        """Read and handle a rank's requests."""
        try:
            for request in rank.read():
                self._handle(rank, request)
        except PmiError as error:
            self._refuse(rank, f"rank {rank.rank} sent invalid PMI data: {error}")

    def _refuse(self, rank: PmiRank, reason: str) -> None:
        rank.disconnect()
        self._lost(rank.rank, 1, reason)

    def _answer(self, rank: PmiRank, request: PmiRequest, answer: Answer) -> None:
        data = rank.protocol.answer(request, answer.pairs, error=answer.error)
        if self._is_replaying or not rank.is_connected:
            return
        if not rank.send(data):
            self._refuse(rank, f"rank {rank.rank} sends PMI requests but does not read the answers")

    def _handle(self, rank: PmiRank, request: PmiRequest) -> None:
        command = request.command
        if command in STORED and not self._is_replaying:
            self._store({"rank": rank.rank, "command": command, "pairs": request.pairs})
        if command in self._handlers:
            self._handlers[command](rank, request)
        elif command in ANSWERS:
            self._answer(rank, request, ANSWERS[command](self._kvs, rank, request))
        elif command in REFUSED:
            self._answer(rank, request, Answer({}, f"{REFUSED[command]} here"))
        elif rank.protocol.dialect == 2:
            self._answer(rank, request, Answer({}, f"{command[:MAX_KEY_BYTES]} is not known here"))
        else:
            raise PmiError(f"the command {command!r} does not exist in PMI-1")

    def _put_attribute(self, rank: PmiRank, request: PmiRequest) -> None:
        """Set an attribute of the node, and answer the ranks that wait for it."""
        key, value = request.pairs.get("key", ""), request.pairs.get("value", "")
        error = self._kvs.put_node_attribute(key, value)
        self._answer(rank, request, Answer({}, error))
        for other in self._ranks.values() if not error else ():
            waiting = other.attribute_request
            if waiting is not None and waiting.pairs.get("key") == key:
                other.attribute_request = None
                self._answer(other, waiting, value_answer(other, value))

    def _get_attribute(self, rank: PmiRank, request: PmiRequest) -> None:
        """Answer with an attribute of the node, or let the rank wait for it."""
        value = self._kvs.node_attribute(request.pairs.get("key", ""))
        if value is None and request.pairs.get("wait", "").upper() == "TRUE":
            rank.attribute_request = request
        else:
            self._answer(rank, request, value_answer(rank, value))

    def _reach_fence(self, rank: PmiRank, request: PmiRequest) -> None:
        """Let the rank wait. If it is the last one on this node, send the values that the ranks put."""
        rank.fence_request = request
        if sum(1 for other in self._ranks.values() if other.fence_request is not None) < self._rank_count:
            return
        puts = self._kvs.reach_fence()
        if self._pmi.nodes == 1:
            self._release_fence(puts)
        elif not self._is_replaying:
            self._send_fence(self._kvs.fence_number, puts)

    def _release_fence(self, values: Mapping[str, str]) -> None:
        """Let all ranks continue, with the values that all nodes put."""
        self._kvs.pass_fence(values)
        for rank in list(self._ranks.values()):
            if rank.fence_request is not None:
                request, rank.fence_request = rank.fence_request, None
                self._answer(rank, request, Answer({}))

    def _abort(self, rank: PmiRank, request: PmiRequest) -> None:
        rank.has_joined = False
        if self._is_replaying:
            return  # it was reported before, or the rank's end will be
        reason = request.pairs.get("msg", "")[:MAX_VALUE_BYTES]
        text = f"rank {rank.rank} called MPI_Abort" + (f": {reason}" if reason else "")
        self._lost(rank.rank, _exit_status(request.pairs.get("exitcode", "")), text)


def _exit_status(value: str) -> int:
    """Return an exit status in a shell's range, or 1 for text that is not a number."""
    digits = value[value.startswith("-") :]
    return int(value) & 0xFF if digits.isdecimal() and len(digits) <= MAX_DIGITS else 1


def _closed_socket() -> socket.socket:
    """Return a closed socket, for a rank that has ended."""
    closed = socket.socket(socket.AF_UNIX)
    closed.close()
    return closed
