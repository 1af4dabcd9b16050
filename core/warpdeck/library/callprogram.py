"""The program that runs in a job of `warpdeck.Executor`: it makes its calls in order and writes their answers
to standard output.

Its source travels in the job, because nodes need not have warpdeck. So it uses only the standard library and
Python 3.8. It starts once for each job, so it imports only modules that every call needs.

Standard input contains the calls of the whole array, in lines: the caller's module search path; its
cloudpickle; the number of functions; one line for each function; and one line for each task with its calls as
`FUNCTION NUMBER:ARGUMENTS`, separated by blanks. These values are pickled, compressed and in base64. Output
that a function prints goes to standard error. An answer consists of MARK, the call's number in its task,
length, checksum, and the pickled tuple (True, result) or (False, exception, traceback). It is written when
its call ends.
"""

from __future__ import annotations

import binascii
import os
import sys
import zlib

try:
    # pickle itself imports re and other modules, which takes a fifth of this program's start
    import _pickle as pickle
except ImportError:  # PyPy has only this one
    import pickle  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MARK = b"\x93warpdeck"
PROTOCOL = 5
"""The highest pickle protocol of all versions since Python 3.8."""


def main() -> int:
    """Run the calls and return the exit code: 1 if a call raised an exception."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    pickler, functions, calls = _read()
    loaded: dict[bytes, Any] = {}
    code = 0
    for number, call in enumerate(calls):
        packed, ended_well = _answer(call, functions, loaded, pickler)
        head = (
            number.to_bytes(4, "big") + len(packed).to_bytes(8, "big") + zlib.crc32(packed).to_bytes(4, "big")
        )
        answers.write(MARK + head + packed)
        answers.flush()
        code = code if ended_well else 1
    sys.stdout.flush()
    return code


def _read() -> tuple[bytes, list[bytes], list[bytes]]:
    """Return the line with the caller's pickler, the lines with the functions, and this task's calls."""
    task = int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))
    with os.fdopen(os.dup(0), "rb") as lines:
        search = pickle.loads(_unpack(lines.readline()))
        sys.path += [path for path in map(os.path.abspath, search) if path not in sys.path]
        pickler = lines.readline()
        functions = [lines.readline() for _ in range(int(lines.readline()))]
        for _ in range(task):
            lines.readline()
        calls = lines.readline().split()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return pickler, functions, calls


def _answer(
    call: bytes, functions: list[bytes], loaded: dict[bytes, Any], pickler: bytes
) -> tuple[bytes, bool]:
    """Return a call's packed answer, and whether the call returned normally. `loaded` caches functions of
    earlier calls.
    """
    try:
        number, _, arguments = call.partition(b":")
        if number not in loaded:
            loaded[number] = _loaded(functions[int(number)], pickler)
        function = loaded[number]
        args, kwargs = _loaded(arguments, pickler)
        return _result(function, function(*args, **kwargs), pickler), True
    except BaseException as error:  # every exception belongs to the caller
        from traceback import format_exception

        text = "".join(format_exception(type(error), error, error.__traceback__))
        return _error(error, text, pickler), False


def _result(function: Callable[..., Any], result: object, pickler: bytes) -> bytes:
    try:
        return _dumps((True, result), pickler)
    except Exception as error:
        name = getattr(function, "__name__", type(function).__name__)
        said = f"the result of {name} cannot be sent back: {type(error).__name__}: {error}"
        raise pickle.PicklingError(said) from error


def _error(error: BaseException, text: str, pickler: bytes) -> bytes:
    """Pack an exception. One that cannot be pickled, or not be restored, is replaced by a RuntimeError with
    its text.
    """
    try:
        packed = _dumps((False, error, text), pickler)
        pickle.loads(packed)
        return packed
    except Exception:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"), text), PROTOCOL)


def _loaded(packed: bytes, pickler: bytes) -> Any:
    data = _unpack(packed)
    if b"cloudpickle" in data:
        _install(pickler)
    return pickle.loads(data)


def _dumps(said: object, pickler: bytes) -> bytes:
    try:
        return pickle.dumps(said, PROTOCOL)
    except Exception:
        _install(pickler)
        try:
            import cloudpickle
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            raise
        return bytes(cloudpickle.dumps(said, PROTOCOL))


def _install(pickler: bytes) -> None:
    """Install the caller's cloudpickle from its source if the node has none or another version.

    Each version can only load its own pickles.
    """
    version, texts = pickle.loads(_unpack(pickler))
    if not texts or _has(version):
        return
    for name in texts:  # dependencies come first
        package = name.partition(".")[0]
        if package not in sys.modules:
            sys.modules[package] = type(sys)(package)
            sys.modules[package].__path__ = []
        module = sys.modules.setdefault(name, type(sys)(name))
        module.__package__ = package
        exec(compile(texts[name], f"<{name}>", "exec"), module.__dict__)


def _has(version: str) -> bool:
    """Return whether the caller's version of cloudpickle is installed. Any other version is removed from
    `sys.modules`.
    """
    try:
        import cloudpickle

        found = cloudpickle.__version__
    except Exception:  # a broken installation may raise anything
        found = ""
    if found == version:
        return True
    for name in [name for name in sys.modules if name.partition(".")[0] == "cloudpickle"]:
        del sys.modules[name]
    return False


def _unpack(line: bytes) -> bytes:
    return zlib.decompress(binascii.a2b_base64(line))


if __name__ == "__main__":
    sys.exit(main())
