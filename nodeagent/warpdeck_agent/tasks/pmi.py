"""PMI without I/O: the protocol between an MPI library and its launcher, on the descriptor that PMI_FD names.

Two dialects begin with the same line, which selects one. PMI-1 continues in lines, "cmd=put key=k value=v".
PMI-2 puts a length of six characters before each message, "    27cmd=kvs-put;key=k;value=v;", doubles ";"
within values, and repeats "thrid" in the answer, so that a rank with several threads can match answers. Both
are MPICH's. They are documented by its sources and by the messages that it sends; the numbers of get_maxes
are those of its own launcher.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

MAX_NAME_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES = 256, 64, 1024
MAX_MESSAGE_BYTES = 64 * 1024
"""The longest message in PMI-2; a line of PMI-1 is far shorter."""
LENGTH_LETTERS = 6


class PmiError(Exception):
    """A rank sent data that is not PMI. Its connection is then closed."""


class PmiRequest(NamedTuple):
    """A rank's request. If both dialects have the command, `command` is its PMI-2 name."""

    command: str
    pairs: Dict[str, str]


ONE_TO_TWO = {
    "init": "init",
    "get_maxes": "get_maxes",
    "get_appnum": "get_appnum",
    "get_my_kvsname": "job-getid",
    "get_universe_size": "get_universe_size",
    "put": "kvs-put",
    "get": "kvs-get",
    "barrier_in": "kvs-fence",
    "finalize": "finalize",
    "abort": "abort",
    "publish_name": "name-publish",
    "unpublish_name": "name-unpublish",
    "lookup_name": "name-lookup",
    "spawn": "spawn",
}
ANSWERS_OF_ONE = {
    "init": "response_to_init",
    "get_maxes": "maxes",
    "get_appnum": "appnum",
    "job-getid": "my_kvsname",
    "get_universe_size": "universe_size",
    "kvs-put": "put_result",
    "kvs-get": "get_result",
    "kvs-fence": "barrier_out",
    "finalize": "finalize_ack",
    "name-publish": "publish_result",
    "name-unpublish": "unpublish_result",
    "name-lookup": "lookup_result",
    "spawn": "spawn_result",
}


class PmiProtocol:
    """One rank's protocol state: splits its bytes into requests, and formats answers in its dialect."""

    def __init__(self) -> None:
        self.dialect = 1
        self._received = b""
        self._spawns = False

    def feed(self, data: bytes) -> Iterator[PmiRequest]:
        """Add received bytes and yield the complete requests. Raises PmiError."""
        self._received += data
        while True:
            text = self._next()
            if text is None:
                break
            found = self._read(text)
            if found is not None:
                yield found
        if len(self._received) > MAX_MESSAGE_BYTES:
            raise PmiError("a message is too long")

    def _next(self) -> Optional[str]:
        """Remove and return one message from the received bytes, or None if none is complete."""
        if self.dialect == 1:
            line, newline, rest = self._received.partition(b"\n")
            if not newline:
                return None
            self._received = rest
            return line.decode("utf-8", "surrogateescape")
        if len(self._received) < LENGTH_LETTERS:
            return None
        length = self._received[:LENGTH_LETTERS].strip()
        if not length.isdigit() or int(length) > MAX_MESSAGE_BYTES:
            raise PmiError("a message has no valid length")
        end = LENGTH_LETTERS + int(length)
        if len(self._received) < end:
            return None
        text, self._received = self._received[LENGTH_LETTERS:end], self._received[end:]
        return text.decode("utf-8", "surrogateescape")

    def _read(self, text: str) -> Optional[PmiRequest]:
        if self.dialect == 2:
            return _read_two(text)
        if self._spawns or text.startswith("mcmd="):  # a request of several lines; its content is ignored
            self._spawns = text.strip() != "endcmd"
            return None if self._spawns else PmiRequest("spawn", {})
        return _read_one(text)

    def answer(self, request: PmiRequest, pairs: Dict[str, str], *, error: str = "") -> bytes:
        """Return an answer's bytes. With `error`, the answer reports a failure."""
        if self.dialect == 2:
            # the next program on this connection starts with the handshake again
            self.dialect = 1 if request.command == "finalize" else 2
            return _answer_two(request, pairs, error=error)
        made = _answer_one(request, pairs, error=error)
        if request.command == "init" and pairs.get("pmi_version") == "2":
            self.dialect = 2
        return made


def _read_one(text: str) -> PmiRequest:
    """Parse a line of PMI-1. A value is the rest of its line, because some values contain blanks."""
    head, has_value, value = text.partition(" value=")
    pairs = dict(_pair(field) for field in head.split())
    if has_value:
        pairs["value"] = value.strip()
    command = pairs.pop("cmd", "")
    if command not in ONE_TO_TWO:
        raise PmiError(f"the command {command[:MAX_KEY_BYTES]!r} is unknown")
    return PmiRequest(ONE_TO_TWO[command], pairs)


def _pair(field: str) -> Tuple[str, str]:
    name, equals, value = field.partition("=")
    if not equals:
        raise PmiError(f"{field[:MAX_KEY_BYTES]!r} is not NAME=VALUE")
    return name, value


def _answer_one(request: PmiRequest, pairs: Dict[str, str], *, error: str) -> bytes:
    fields = [f"cmd={ANSWERS_OF_ONE[request.command]}"]
    if request.command in ("init", "kvs-put", "kvs-get", "spawn") or request.command.startswith("name-"):
        fields.append(f"rc={-1 if error else 0}")
        if request.command != "init":
            fields.append("msg=" + (error.replace(" ", "_") or "success"))
    fields += [f"{name}={value}" for name, value in pairs.items()]
    return (" ".join(fields) + "\n").encode("utf-8", "surrogateescape")


def _read_two(text: str) -> PmiRequest:
    pairs = dict(_pair(part) for part in _split(text))
    command = pairs.pop("cmd", "")
    if not command:
        raise PmiError("a message has no command")
    return PmiRequest(command, pairs)


def _split(text: str) -> List[str]:
    """Return the parts between single ";"; a double one stands for one ";"."""
    hidden = text.replace(";;", "\0")
    return [part.replace("\0", ";") for part in hidden.split(";") if part]


def _answer_two(request: PmiRequest, pairs: Dict[str, str], *, error: str) -> bytes:
    fields = {"cmd": request.command + "-response"}
    if "thrid" in request.pairs:
        fields["thrid"] = request.pairs["thrid"]
    fields["rc"] = "1" if error else "0"
    if error:
        fields["errmsg"] = error
    fields.update(pairs)
    text = "".join(f"{name}={value.replace(';', ';;')};" for name, value in fields.items())
    body = text.encode("utf-8", "surrogateescape")
    return f"{len(body):{LENGTH_LETTERS}d}".encode() + body
