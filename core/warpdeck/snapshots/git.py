"""The only module that runs git.

Git runs programs that are named in a repository's configuration. Therefore git must never read a repository
of another user with our rights. In a work tree git itself refuses this; the store of another user is read by
a process that runs as that user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Sequence

from warpdeck.base.errors import UserError

GIT_S = 300.0
"""Time limit of a git command in seconds."""
OTHERS_S = 60.0
"""Time limit in seconds for reading another user's store. That user could make a read hang."""
MAX_OTHERS_BYTES = 64 * 1024 * 1024
"""Largest output in bytes that is accepted from a process of another user."""
_READ_BYTES = 1 << 18
_UNTRUSTED = ("GIT_", "SUDO_")
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def git_environment() -> dict[str, str]:
    """Return the environment for git, without the caller's repository settings, prompts and paging.

    SUDO_UID is removed. With it, git would let root use a repository of the user who called sudo, and the
    configuration of that repository may name programs. The same applies to the configuration in that user's home, which sudo and
    su may leave in HOME.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_UNTRUSTED)}
    if not _are_own(clean.get("HOME", ""), clean.get("XDG_CONFIG_HOME", "")):
        clean.pop("XDG_CONFIG_HOME", None)
        clean["GIT_CONFIG_GLOBAL"] = os.devnull
    identity = {"NAME": "warpdeck", "EMAIL": "warpdeck@localhost", "DATE": "@0 +0000"}
    return {
        **clean,
        **{
            f"GIT_{role}_{name}": value
            for role in ("AUTHOR", "COMMITTER")
            for name, value in identity.items()
        },
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


def _are_own(*folders: str) -> bool:
    """Return whether all of these folders belong to this process's user or root."""
    for folder in filter(None, folders):
        with contextlib.suppress(OSError):
            if os.stat(folder).st_uid not in (0, os.geteuid()):
                return False
    return True


def run_git(
    argv: Sequence[str],
    *,
    cwd: str,
    data: bytes = b"",
    env: dict[str, str] | None = None,
    held: Sequence[int] = (),
    warnings: list[bytes] | None = None,
) -> bytes:
    """Run git and return its standard output. Raises UserError with git's last error line.

    Git inherits the descriptors `held` of locked files. If this process is killed, git goes on, and the locks
    must remain until it has ended. Git's standard error is added to `warnings`.
    """
    try:
        done = subprocess.run(
            ["git", *argv],
            cwd=cwd,
            input=data,
            capture_output=True,
            env=env or git_environment(),
            timeout=GIT_S,
            check=False,
            pass_fds=held,
        )
    except FileNotFoundError as error:
        raise UserError("git is not installed", "install git, or submit with --no-snapshot") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"git {argv[0]} took more than {GIT_S:.0f} s", "submit with --no-snapshot") from error
    if done.returncode:
        error_lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
        raise UserError(f"git {argv[0]}: {error_lines[-1]}", "submit with --no-snapshot")
    if warnings is not None:
        warnings.append(done.stderr)
    return done.stdout


def run_git_as(uid: int, argv: Sequence[str], *, store: str) -> bytes:
    """Run git on another user's store, as that user, and return its standard output. Raises UserError.

    Only root can do this. The process has the user's groups, a clean environment and none of our descriptors.
    Its session is killed when the command has ended, or after OTHERS_S seconds.
    """
    if os.geteuid():
        raise UserError("the code of this job is in the store of another user", "ask the owner")
    try:
        account = pwd.getpwuid(uid)
    except KeyError as error:
        raise UserError(f"the owner of this code (uid {uid}) no longer exists", "run this as root") from error
    environment = {
        "PATH": _SEARCH_PATH,
        "HOME": account.pw_dir,
        "LOGNAME": account.pw_name,
        "LC_ALL": "C",
        "GIT_DIR": store,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
    }
    try:
        process = subprocess.Popen(
            ["git", *argv],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
        )
    except OSError as error:
        raise UserError(f"cannot run git as {account.pw_name}: {error}", "install git") from error
    assert process.stdout is not None
    try:
        until = time.monotonic() + OTHERS_S
        found = _read_all(process.stdout.fileno(), until)
        if len(found) > MAX_OTHERS_BYTES:
            raise UserError(f"larger than {MAX_OTHERS_BYTES >> 20} MiB", f"run this as {account.pw_name}")
        if process.wait(max(0.0, until - time.monotonic())):
            raise UserError(
                f"git, run as {account.pw_name}, could not read {store}", f"run this as {account.pw_name}"
            )
        return found
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise UserError(
            f"git, run as {account.pw_name}, took more than {OTHERS_S:g} s to read {store}",
            f"run this as {account.pw_name}",
        ) from error
    finally:
        _end_session(process)
        process.stdout.close()
        process.wait()


def _read_all(descriptor: int, until: float) -> bytes:
    """Return the output up to its end, or slightly more than MAX_OTHERS_BYTES.

    Raises TimeoutError at the monotonic time `until`, because a process that has left the session may keep
    the pipe open forever.
    """
    found = bytearray()
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    while len(found) <= MAX_OTHERS_BYTES:
        left_s = until - time.monotonic()
        if left_s <= 0 or not ready.poll(left_s * 1000):
            raise TimeoutError
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            break
        found += data
    return bytes(found)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
