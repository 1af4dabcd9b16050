"""Opening a job's output file on the submit host, as its user. Standard library only: as root it runs in a child.

A root controller must not open a path that a user chose with root's rights. So a child drops to the user, opens the file
and hands the descriptor back; what is written later needs no rights any more.
"""

from __future__ import annotations

import errno
import os
import pwd
import socket
import stat
import subprocess
import sys

FILE_MODE, FOLDER_MODE = 0o666, 0o777
"""Less the job's umask; the controller's own is stricter."""
CHILD_S = 30.0


def open_here(path: str, *, truncate: bool, umask: int) -> int:
    """A descriptor for appending; missing folders are made. Raises OSError."""
    _make_folders(os.path.dirname(path), umask)
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE_MODE)
        os.fchmod(descriptor, FILE_MODE & ~umask)
    except FileExistsError:
        descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", path)
    if truncate:
        os.ftruncate(descriptor, 0)
    return descriptor


def _make_folders(path: str, umask: int) -> None:
    if os.path.isdir(path):
        return
    _make_folders(os.path.dirname(path), umask)
    try:
        os.mkdir(path)
        os.chmod(path, FOLDER_MODE & ~umask)
    except FileExistsError:
        return


def open_as(path: str, *, truncate: bool, uid: int, umask: int) -> int:
    """open_here with the rights of that user. Blocks. Raises OSError."""
    if os.geteuid() != 0 or uid == 0:
        return open_here(path, truncate=truncate, umask=umask)
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-I", "-S", __file__, str(theirs.fileno()), str(uid), f"{umask:o}", path]
    with ours, theirs:
        done = subprocess.run(
            [*argv, "truncate" if truncate else "append"],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHILD_S,
            check=False,
        )
        theirs.close()
        word, descriptors, _, _ = socket.recv_fds(ours, 4096, 1)
    if descriptors:
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]
    number, _, text = word.decode("utf-8", "replace").partition(" ")
    if number.isdigit():
        raise OSError(int(number), text, path)
    raise OSError(
        errno.EPERM,
        f"cannot become user {uid}: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}",
        path,
    )


def become(uid: int) -> None:
    """Drops to the user with all groups; a uid without an account gets no group."""
    try:
        account = pwd.getpwuid(uid)
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
    except KeyError:
        os.setgroups([])
        os.setgid(uid)
    os.setuid(uid)


def main(argv: list[str]) -> int:
    """The child: descriptor of the socket, uid, umask, path, truncate|append."""
    link = socket.socket(fileno=int(argv[0]))
    become(int(argv[1]))
    try:
        descriptor = open_here(argv[3], truncate=argv[4] == "truncate", umask=int(argv[2], 8))
    except OSError as error:
        link.sendall(f"{error.errno or errno.EIO} {error.strerror}".encode())
        return 1
    socket.send_fds(link, [b"ok"], [descriptor])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
