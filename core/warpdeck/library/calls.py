"""Calls of functions as text that a job can carry, and their answers as the job's output. The other side is callprogram."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import shlex
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpdeck.errors import UserError
from warpdeck.notation.directives import MAX_SCRIPT_BYTES

from . import callprogram
from .callprogram import MARK

MAX_CARRIED_BYTES = MAX_SCRIPT_BYTES - 64 * 1024
"""Of the calls in a script: the rest of it is the program. What is larger goes by a file that the nodes must see."""
_END = "end-of-calls"


class Call:
    """One call, or several of one function that run in one task; what it is made of is packed when it is made."""

    def __init__(
        self, function: Callable[..., Any], arguments: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> None:
        """Raises UserError for what cannot be sent."""
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.function = _pack(function, self.name)
        self.arguments = _pack(list(arguments), self.name)

    @property
    def size_bytes(self) -> int:
        return len(self.function) + len(self.arguments) + 16


class RemoteTraceback(Exception):
    """The cause of an exception that came back from a job: where it was raised, in the job's words."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def search_path(folder: str, entries: Sequence[str]) -> list[str]:
    """Where the job finds modules that the program finds. What lies in `folder` is told relative to it: the job runs in a copy."""
    found = []
    for entry in entries:
        path = os.path.abspath(entry)
        inside = os.path.commonpath([folder, path]) == folder
        found.append(os.path.relpath(path, folder) if inside else path)
    return found


def calls_text(calls: Sequence[Call], search: Sequence[str] = ()) -> str:
    """What the program reads: see callprogram. `search`: of search_path."""
    functions = list(dict.fromkeys(call.function for call in calls))
    numbers = {function: number for number, function in enumerate(functions)}
    tasks = [f"{numbers[call.function]}:{call.arguments}" for call in calls]
    head = json.dumps({"path": list(search), "modules": _pickler()})
    return "\n".join([head, str(len(functions)), *functions, *tasks]) + "\n"


def _pickler() -> dict[str, str]:
    """cloudpickle's own text by module, if it is here: the node's may be another release, and what one packs is for itself."""
    try:
        from cloudpickle import cloudpickle
    except ImportError:
        return {}
    folder = Path(cloudpickle.__file__).parent
    names = {"cloudpickle.cloudpickle": "cloudpickle.py", "cloudpickle": "__init__.py"}
    return {name: (folder / file).read_text(encoding="utf-8") for name, file in names.items()}


def call_script(source: str, *, python: str) -> str:
    """The batch script whose standard input is `source`: calls in here, or the redirection of a file of them."""
    program = Path(callprogram.__file__).read_text(encoding="utf-8")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return (
        "#!/bin/sh\n"
        f"python={shlex.quote(python)}\n"
        f'command -v "$python" >/dev/null || python={version}\n'
        f'exec "$python" -c {shlex.quote(program)} {pickle.HIGHEST_PROTOCOL} {source}'
    )


def carried(text: str) -> str:
    """The calls in the script itself."""
    return f"<<'{_END}'\n{text}{_END}\n"


def by_file(path: str) -> str:
    """The calls in a file."""
    return f"<{shlex.quote(path)}\n"


def answer_of(output: bytes) -> tuple[list[Any] | None, BaseException | None] | None:
    """(results, exception) of a call that has ended; None: it was ended before it could answer."""
    packed = _framed(output)
    if packed is None:
        return None
    try:
        said = pickle.loads(packed)
    except Exception as error:  # the answer's own classes decide what is raised here
        return None, error
    if said[0]:
        return said[1], None
    said[1].__cause__ = RemoteTraceback(said[2])
    return None, said[1]


def _framed(output: bytes) -> bytes | None:
    """The first piece whose digest is right: a prolog may have written before it."""
    at = output.find(MARK)
    while at >= 0:
        head = at + len(MARK)
        size = int.from_bytes(output[head : head + 8], "big")
        packed = output[head + 40 : head + 40 + size]
        if len(packed) == size and hashlib.sha256(packed).digest() == output[head + 8 : head + 40]:
            return packed
        at = output.find(MARK, head)
    return None


def _pack(value: object, name: str) -> str:
    try:
        import cloudpickle
    except ImportError:
        packed = _pickled(value, name)
    else:
        packed = cloudpickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return base64.b64encode(zlib.compress(packed, 1)).decode()


def _pickled(value: object, name: str) -> bytes:
    if getattr(value, "__module__", "") == "__main__":
        raise UserError(
            f"{name} is defined in the program itself", "install cloudpickle, or put it into a module"
        )
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
