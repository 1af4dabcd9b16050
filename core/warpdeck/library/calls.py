"""Pack function calls as text for a batch script, and unpack their answers from the job's output.
`callprogram` is the other end.
"""

from __future__ import annotations

import base64
import os
import pickle
import shlex
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES

from . import callprogram
from .callprogram import MARK, PROTOCOL

MAX_CARRIED_BYTES = MAX_SCRIPT_BYTES - 64 * 1024
"""Limit for calls inside a script; the rest of the script is the program. Larger ones need a file that the
nodes can read.
"""
_END = "end-of-calls"


class PackedFunction(NamedTuple):
    """A packed function. Many calls share one."""

    name: str
    text: str


class PackedCall(NamedTuple):
    """A packed call. It is packed when it is made, so later changes of its arguments have no effect."""

    function: PackedFunction
    arguments: str


class Answer(NamedTuple):
    """The result of a call, or the exception that it raised."""

    result: Any
    error: BaseException | None


class RemoteTraceback(Exception):
    """Cause of an exception that came back from a job. It contains the job's traceback as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def packed_function(function: Callable[..., Any]) -> PackedFunction:
    """Pack a function. Raises UserError if it cannot be pickled."""
    name = str(getattr(function, "__name__", type(function).__name__))
    return PackedFunction(name, _pack(function, name))


def packed_call(function: PackedFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PackedCall:
    """Pack a call. Raises UserError if its arguments cannot be pickled."""
    return PackedCall(function, _pack((args, dict(kwargs)), f"an argument of {function.name}"))


def search_path(folder: str, entries: Sequence[str]) -> list[str]:
    """Return the job's module search path for the program's `entries`.

    Entries inside `folder` become relative to it, because the job runs in a copy of the folder.
    """
    found = []
    for entry in entries:
        path = os.path.abspath(entry)
        inside = os.path.commonpath([folder, path]) == folder
        found.append(os.path.relpath(path, folder) if inside else path)
    return found


def calls_text(tasks: Sequence[Sequence[PackedCall]], search: Sequence[str] = ()) -> str:
    """Return the standard input of `callprogram` for an array with one task for each of these calls. `search` comes
    from `search_path`.
    """
    functions = list(dict.fromkeys(call.function.text for calls in tasks for call in calls))
    numbers = {function: number for number, function in enumerate(functions)}
    lines = [" ".join(f"{numbers[call.function.text]}:{call.arguments}" for call in calls) for calls in tasks]
    head = [_text(pickle.dumps(list(search), PROTOCOL)), _pickler(), str(len(functions))]
    return "\n".join([*head, *functions, *lines]) + "\n"


def call_script(source: str, *, python: str) -> str:
    """Return the batch script. `source` redirects its standard input: from the calls in the script, or from a
    file.
    """
    program = Path(callprogram.__file__).read_text(encoding="utf-8")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return (
        "#!/bin/sh\n"
        f"python={shlex.quote(python)}\n"
        f'command -v "$python" >/dev/null || python={version}\n'
        f'exec "$python" -c {shlex.quote(program)} {source}'
    )


def carried(text: str) -> str:
    """Return the redirection with the calls in the script itself."""
    return f"<<'{_END}'\n{text}{_END}\n"


def by_file(path: str) -> str:
    """Return the redirection from a file of calls."""
    return f"<{shlex.quote(path)}\n"


def answers_of(output: bytes, load: Callable[[bytes], Any] = pickle.loads) -> dict[int, Answer]:
    """Return the answers of a task's calls by call number. A call that was killed before its end has none.

    `load` unpickles an answer.
    """
    found: dict[int, Answer] = {}
    at = output.find(MARK)
    while at >= 0:
        head = at + len(MARK)
        size = int.from_bytes(output[head + 4 : head + 12], "big")
        packed = output[head + 16 : head + 16 + size]
        whole = len(packed) == size and zlib.crc32(packed).to_bytes(4, "big") == output[head + 12 : head + 16]
        if whole:
            found[int.from_bytes(output[head : head + 4], "big")] = _unpacked(packed, load)
        at = output.find(MARK, head + 16 + size if whole else head)  # a prolog may have written the mark, too
    return found


def _unpacked(packed: bytes, load: Callable[[bytes], Any]) -> Answer:
    try:
        match load(packed):
            case (True, result):
                return Answer(result, None)
            case (False, BaseException() as error, str(text)):
                error.__cause__ = RemoteTraceback(text)
                return Answer(None, error)
            case _:
                return Answer(None, ValueError("the answer of the job has an unknown form"))
    except Exception as error:  # the classes of the answer determine the exception
        return Answer(None, error)


@cache
def _pickler() -> str:
    """Return cloudpickle's version and its source by module, if it is installed. The node may have another version."""
    try:
        import cloudpickle.cloudpickle as pickler
        from cloudpickle import __version__ as version
    except ImportError:
        return _text(pickle.dumps(("", {}), PROTOCOL))
    folder = Path(pickler.__file__).parent
    names = {"cloudpickle.cloudpickle": "cloudpickle.py", "cloudpickle": "__init__.py"}
    texts = {name: (folder / file).read_text(encoding="utf-8") for name, file in names.items()}
    return _text(pickle.dumps((version, texts), PROTOCOL))


def _pack(value: object, name: str) -> str:
    try:
        return _text(_pickled(value, name))
    except UserError:
        raise
    except Exception as error:  # the object's own class determines the exception
        raise UserError(
            f"{name} cannot be sent to a job: {type(error).__name__}: {error}",
            "create files, locks, connections and threads inside the function",
        ) from error


def _pickled(value: object, name: str) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        if getattr(value, "__module__", "") == "__main__":
            raise UserError(
                f"{name} is defined in the main program", "install cloudpickle, or move it to a module"
            ) from None
        return pickle.dumps(value, PROTOCOL)
    return bytes(cloudpickle.dumps(value, PROTOCOL))


def _text(packed: bytes) -> str:
    return base64.b64encode(zlib.compress(packed, 1)).decode()
