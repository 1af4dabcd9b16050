"""A mount whose server has stopped: whoever asks it for anything waits, and dies of no signal, until the server is gone.

A FUSE file system in a few lines: it takes part in the greeting, then reads every request and answers none. The kernel lets
nobody go whose request has been read. Only a mount namespace of its own sees it, and who is started in there.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

INIT = 26
HEADER = struct.Struct("<IIQQIIII")
"""Length, opcode, number, node, uid, gid, pid, padding."""
END_S = 10.0


class Hang:
    """The mount at `path`; words that begin with `inside` are run where it is seen."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self.inside: Sequence[str] = ("nsenter", "--target", str(pid), "--mount")


@contextlib.contextmanager
def hanging_mount(path: Path) -> Iterator[Hang]:
    """A folder of the type fuse.hangs that answers nobody."""
    path.mkdir()
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    made = Hang(path, holder.pid)
    device = os.open("/dev/fuse", os.O_RDWR)
    server = threading.Thread(target=_serve, args=(device,), daemon=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    words = [*made.inside, "mount", "-i", "-t", "fuse.hangs", "-o", options, "hangs", str(path)]
    try:
        subprocess.run(words, check=True, pass_fds=[device], timeout=END_S)
        server.start()
        yield made
    finally:
        subprocess.run([*made.inside, "umount", "-i", "-f", "-l", str(path)], check=False, timeout=END_S)
        if server.ident:
            server.join(END_S)
        os.close(device)
        holder.kill()
        holder.wait(END_S)
        holder.stdout.close()
        path.rmdir()


def _serve(device: int) -> None:
    """Says which FUSE it speaks, and nothing after that."""
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError:
            return
        _, opcode, number, *_ = HEADER.unpack_from(request)
        if opcode == INIT:
            answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 4096, 0, 0, 0, 0, *[0] * 7)
            os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, number) + answer)
