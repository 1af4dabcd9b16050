"""The large parts of a request, which are kept in the store and not in memory.

A job stays in memory until it has ended, but its script, arguments and environment are needed only when it is
started, shown or submitted again. `split` decides what is stored apart: if these parts have MIN_BYTES or
more, all of them are encoded as one blob, and the request keeps its digest and short extracts. Parts below
that size remain in the request, so that an ordinary submission costs nothing. The key of a blob is its digest.
Jobs of one user with equal parts therefore share one blob; blobs of different users are kept apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from warpdeck.model import Request
from warpdeck.model.request import StoredParts
from warpdeck.notation.values.umask import UMASK

from .sweep import heading

MIN_BYTES = 16 * 1024
"""Size from which parts are stored apart. Usual environments have 2 to 8 KiB."""
MAX_EXTRACT_CHARACTERS = 1024
"""Maximum length of the command and of the command line in rows of jobs whose parts are stored apart."""
CUT = "..."
"""Last word of a command that is cut."""
KEPT_VARIABLES = (UMASK,)
"""Variables that the controller needs while a job runs."""


class LargeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request as they are stored."""

    script: str
    script_args: tuple[str, ...]
    argv: tuple[str, ...]
    env: dict[str, str]
    submit_line: str


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(LargeParts)


def size_of(request: Request) -> int:
    """Return the size of all fields of a request that have no limit of their own, in characters.

    Parts that are stored apart count with their size.
    """
    words: tuple[Iterable[str], ...] = (
        *(request.env, request.env.values(), request.step_variables, request.step_variables.values()),
        *(request.script_args, request.argv, request.resources.nodelist, request.resources.exclude),
        request.snapshot.links if request.snapshot is not None else (),
    )
    size = len(request.script) + len(request.submit_line) + len(request.submit_host)
    if request.parts is not None:
        size += request.parts.size_bytes
    for some in words:
        size += sum(map(len, some)) if some else 0
    return size


def split(request: Request) -> tuple[Request, bytes | None]:
    """Return the request as it is kept in memory, and the parts that are stored apart, or None.

    A key that the client put into the request is removed, because it could be the key of another job.
    """
    if request.parts is not None:
        request = msgspec.structs.replace(request, parts=None)
    if size_of(request) < MIN_BYTES:
        return request, None
    content = _ENCODER.encode(
        LargeParts(
            script=request.script,
            script_args=request.script_args,
            argv=request.argv,
            env=request.env,
            submit_line=request.submit_line,
        )
    )
    if len(content) < MIN_BYTES:
        return request, None
    key = StoredParts(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    return _extract(request, key), content


def join(request: Request, content: bytes) -> Request:
    """Return the whole request from its extract and its parts. Raises msgspec.MsgspecError."""
    return msgspec.structs.replace(request, parts=None, **msgspec.structs.asdict(_DECODER.decode(content)))


def _extract(request: Request, key: StoredParts) -> Request:
    return msgspec.structs.replace(
        request,
        parts=key,
        script=heading(request.script) if request.script else "",
        script_args=(),
        argv=_first_words(request.argv),
        env={
            name: request.env[name][:MAX_EXTRACT_CHARACTERS] for name in KEPT_VARIABLES if name in request.env
        },
        submit_line=request.submit_line[:MAX_EXTRACT_CHARACTERS],
    )


def _first_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first words of a command, which is never empty if the command is not."""
    found: list[str] = []
    left = MAX_EXTRACT_CHARACTERS
    for word in words:
        if left <= 0:
            return (*found, CUT)
        found.append(word[:left])
        left -= len(word)
    return tuple(found)
