"""One rank of a step, its PMI connection, and the answers to requests that concern only this rank."""

from __future__ import annotations

import asyncio
import socket
from typing import Callable, Dict, Iterator, NamedTuple, Optional

from .pmi import MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_VALUE_BYTES, PmiProtocol, PmiRequest
from .pmi_kvs import KeyValueSpace

READ_BYTES = 64 * 1024


class Answer(NamedTuple):
    """The content of an answer. With `error`, the request has failed."""

    pairs: Dict[str, str]
    error: str = ""


class PmiRank:
    """One rank. `has_joined` is true between its init and its finalize."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank = rank
        self.protocol = PmiProtocol()
        self.has_joined = False
        self.fence_request: Optional[PmiRequest] = None
        """The request for a fence at which the rank waits."""
        self.attribute_request: Optional[PmiRequest] = None
        """The request for a node attribute that does not exist yet, for which the rank waits."""
        self._connection = connection

    @property
    def is_connected(self) -> bool:
        return self._connection.fileno() >= 0

    def listen(self, on_data: Callable[[PmiRank], None]) -> None:
        """Call `on_data` whenever there is data to read."""
        self._connection.setblocking(False)
        asyncio.get_running_loop().add_reader(self._connection.fileno(), on_data, self)

    def read(self) -> Iterator[PmiRequest]:
        """Yield the requests that have arrived. Raises PmiError.

        The end of the data is ignored: the end of the rank's process shows whether it had finalized.
        """
        if not self.is_connected:
            return
        try:
            data = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            # The answer to a request may change the dialect of the next one, so requests are parsed one by one.
            yield from self.protocol.feed(data)
        else:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())

    def send(self, data: bytes) -> bool:
        """Send an answer. Returns False if the rank does not read its answers.

        Answers are short and a rank waits for each of them, so its buffer always has space.
        """
        try:
            return self._connection.send(data) == len(data)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the rank is ending, which is reported separately

    def disconnect(self) -> None:
        """Close the connection."""
        self.has_joined = False
        if self.is_connected:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.close()


def value_answer(rank: PmiRank, value: Optional[str]) -> Answer:
    """Return the answer to a request for a value, in the rank's dialect. None is a value that does not exist."""
    if rank.protocol.dialect == 1:
        if value is None:
            return Answer({"value": "unknown"}, "key_not_found")
        return Answer({"value": value})
    return Answer({"found": "FALSE"} if value is None else {"found": "TRUE", "value": value})


def _init(kvs: KeyValueSpace, rank: PmiRank, request: PmiRequest) -> Answer:
    rank.has_joined = True
    is_two = request.pairs.get("pmi_version") == "2"
    return Answer({"pmi_version": "2" if is_two else "1", "pmi_subversion": "0" if is_two else "1"})


def _full_init(kvs: KeyValueSpace, rank: PmiRank, request: PmiRequest) -> Answer:
    return Answer(
        {
            "pmi-version": "2",
            "pmi-subversion": "0",
            "rank": str(rank.rank),
            "size": str(kvs.pmi.size),
            "appnum": "0",
            "debugged": "FALSE",
            "pmiverbose": "FALSE",
        }
    )


def _maxes(kvs: KeyValueSpace, rank: PmiRank, request: PmiRequest) -> Answer:
    limits = {"kvsname_max": MAX_NAME_BYTES, "keylen_max": MAX_KEY_BYTES, "vallen_max": MAX_VALUE_BYTES}
    return Answer({name: str(value) for name, value in limits.items()})


def _put_value(kvs: KeyValueSpace, rank: PmiRank, request: PmiRequest) -> Answer:
    return Answer({}, kvs.put(request.pairs.get("key", ""), request.pairs.get("value", "")))


def _finalize(kvs: KeyValueSpace, rank: PmiRank, request: PmiRequest) -> Answer:
    rank.has_joined = False
    return Answer({})


ANSWERS: Dict[str, Callable[[KeyValueSpace, PmiRank, PmiRequest], Answer]] = {
    "init": _init,
    "fullinit": _full_init,
    "get_maxes": _maxes,
    "get_appnum": lambda kvs, rank, request: Answer({"appnum": "0"}),
    "get_universe_size": lambda kvs, rank, request: Answer({"size": str(kvs.pmi.size)}),
    "job-getid": lambda kvs, rank, request: Answer(
        {"jobid" if rank.protocol.dialect == 2 else "kvsname": kvs.pmi.name}
    ),
    "kvs-put": _put_value,
    "kvs-get": lambda kvs, rank, request: value_answer(rank, kvs.get(request.pairs.get("key", ""))),
    "info-getjobattr": lambda kvs, rank, request: value_answer(
        rank, kvs.job_attribute(request.pairs.get("key", ""))
    ),
    "finalize": _finalize,
}
"""The functions that answer those requests, by command."""
