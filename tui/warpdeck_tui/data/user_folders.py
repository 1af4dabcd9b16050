"""Reads the user's scripts and folders in threads of their own, because a network file system may not answer.

The default threads of asyncio are not used: a few calls that never return would occupy all of them, and the
app would wait for them when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, TypeVar

from warpdeck.base.errors import UserError

MAX_ENTRIES = 1000
"""Largest number of entries of a folder that are read. Nobody chooses from a longer list."""
MAX_THREADS = 4
"""Largest number of reads at the same time. More means that a file system does not answer."""
MAX_HEAD_BYTES = 4096
"""The first bytes of a file, which tell whether it is a batch script."""
SCRIPT_SUFFIXES = (".sh", ".sbatch", ".slurm")
T = TypeVar("T")
_running: set[threading.Thread] = set()


class Entry(NamedTuple):
    """An entry of a folder."""

    name: str
    is_folder: bool = False


class Listing(NamedTuple):
    """The entries of a folder, sorted by name. `is_cut` tells that there are more than MAX_ENTRIES."""

    entries: tuple[Entry, ...] = ()
    is_cut: bool = False


async def in_own_thread(call: Callable[[], T]) -> T:
    """Return the result of `call`, which runs in a new thread. Raises UserError if too many threads wait."""
    if len(_running) >= MAX_THREADS:
        raise UserError("The file system does not respond", "Wait, or enter the name in full")
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if done.done():  # the caller was canceled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = call()
        except Exception as error:
            failure = error
        finally:
            _running.discard(threading.current_thread())
        with contextlib.suppress(RuntimeError):  # the app has ended, and with it the loop
            loop.call_soon_threadsafe(deliver, result, failure)

    thread = threading.Thread(target=run, name="user-files", daemon=True)
    _running.add(thread)
    thread.start()
    return await done


def list_folder(path: str) -> Listing:
    """Return the entries of a folder; none if it cannot be read."""
    try:
        with os.scandir(path) as found:
            entries = [Entry(each.name, _is_folder(each)) for each in islice(found, MAX_ENTRIES + 1)]
    except OSError:
        return Listing()
    return Listing(tuple(sorted(entries[:MAX_ENTRIES])), len(entries) > MAX_ENTRIES)


def only_script(folder: str) -> str:
    """Return the name of the only batch script in the folder; "" if there is none, or if there are several."""
    listing = list_folder(folder)
    if listing.is_cut:
        return ""
    names = [each.name for each in listing.entries if _names_script(each) and _is_script(folder, each.name)]
    return names[0] if len(names) == 1 else ""


def _names_script(entry: Entry) -> bool:
    hidden = entry.name.startswith(".")
    return not entry.is_folder and not hidden and entry.name.endswith(SCRIPT_SUFFIXES)


def _is_script(folder: str, name: str) -> bool:
    """Return whether the file begins with #! or contains #SBATCH in its first bytes."""
    path = os.path.join(folder, name)
    try:
        if not os.path.isfile(path):  # opening a FIFO would wait for its writer
            return False
        with open(path, "rb") as file:
            head = file.read(MAX_HEAD_BYTES)
    except OSError:
        return False
    return head.startswith(b"#!") or b"#SBATCH" in head


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
