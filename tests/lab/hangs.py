"""A mount with a stopped server: every process that accesses it blocks and ignores signals until the server
is gone.

It is a minimal FUSE file system: it answers the initial message, then reads every request and answers none.
The kernel does not release a process after its request was read. The mount exists only in its own mount
namespace, so that it affects only processes started there.
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
    """The mount at `path`. Command lines with the prefix `inside` run where it is visible."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self.inside: Sequence[str] = ("nsenter", "--target", str(pid), "--mount")


@contextlib.contextmanager
def hanging_mount(path: Path) -> Iterator[Hang]:
    """Mount a file system of the type fuse.hangs that answers no request."""
    path.mkdir()
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    hang = Hang(path, holder.pid)
    device = os.open("/dev/fuse", os.O_RDWR)
    server = threading.Thread(target=_serve, args=(device,), daemon=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    argv = [*hang.inside, "mount", "-i", "-t", "fuse.hangs", "-o", options, "hangs", str(path)]
    try:
        subprocess.run(argv, check=True, pass_fds=[device], timeout=END_S)
        server.start()
        yield hang
    finally:
        subprocess.run([*hang.inside, "umount", "-i", "-f", "-l", str(path)], check=False, timeout=END_S)
        if server.ident:
            server.join(END_S)
        os.close(device)
        holder.kill()
        holder.wait(END_S)
        holder.stdout.close()
        path.rmdir()


def _serve(device: int) -> None:
    """Answer the first message with the FUSE version, and no other request."""
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError:
            return
        _, opcode, number, *_ = HEADER.unpack_from(request)
        if opcode == INIT:
            answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 4096, 0, 0, 0, 0, *[0] * 7)
            os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, number) + answer)
