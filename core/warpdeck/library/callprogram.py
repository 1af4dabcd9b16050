"""What runs in a job of warpdeck.Executor: one call, and its answer on standard output. Its text goes with the job, because
nodes need not have warpdeck; so standard library only, and no newer Python than 3.8.

Standard input is the calls of the whole array, in lines: where the caller finds modules and the text of those it sends along,
as JSON; how many functions there are, each function, and each task's call as `NUMBER OF ITS FUNCTION:ARGUMENTS`. Functions
and arguments are pickled, packed and in base64. What the function prints goes to standard error; the answer is MARK, its
length and digest, and (True, results) or (False, exception, traceback) pickled.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import sys
import traceback
import types
import zlib
from typing import Any

MARK = b"\x93warpdeck"


def main() -> int:
    """The exit code: 1 if the call raised."""
    protocol = min(int(sys.argv[1]), pickle.HIGHEST_PROTOCOL)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        function, calls = _load()
        results = [function(*args, **kwargs) for args, kwargs in calls]
        packed, code = _dumps((True, results), protocol), 0
    except BaseException as error:  # whatever it is, it is the caller's
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        packed, code = _dumps_error(error, text, protocol), 1
    answer.write(MARK + len(packed).to_bytes(8, "big") + hashlib.sha256(packed).digest() + packed)
    answer.close()
    sys.stdout.flush()
    return code


def _load() -> tuple[Any, Any]:
    task = int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))
    with os.fdopen(os.dup(0), "rb") as lines:
        head = json.loads(lines.readline())
        sys.path += [path for path in map(os.path.abspath, head["path"]) if path not in sys.path]
        _install(head["modules"])
        functions = [lines.readline() for _ in range(int(lines.readline()))]
        for _ in range(task):
            lines.readline()
        number, _, arguments = lines.readline().partition(b":")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return _unpack(functions[int(number)]), _unpack(arguments)


def _install(texts: dict[str, str]) -> None:
    """Modules by their text, in place of what the node may have under these names; those that others need come first."""
    for name in texts:
        package = name.partition(".")[0]
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = []
        module = sys.modules.setdefault(name, types.ModuleType(name))
        module.__package__ = package
        exec(compile(texts[name], f"<{name}>", "exec"), module.__dict__)


def _unpack(line: bytes) -> Any:
    return pickle.loads(zlib.decompress(base64.b64decode(line)))


def _dumps(said: object, protocol: int) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(said, protocol)
    return bytes(cloudpickle.dumps(said, protocol))


def _dumps_error(error: BaseException, text: str, protocol: int) -> bytes:
    """An exception that cannot be sent, or not be made anew from what it says of itself, is told in words."""
    try:
        packed = _dumps((False, error, text), protocol)
        pickle.loads(packed)
        return packed
    except Exception:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"), text), protocol)


if __name__ == "__main__":
    sys.exit(main())
