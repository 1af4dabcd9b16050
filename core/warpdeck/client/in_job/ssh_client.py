"""The user's side of SSH into jobs: our own key, the host keys of the jobs, and the configuration for ssh.

ssh/id_ed25519(.pub)   the key that the jobs' servers accept
ssh/known_hosts        host keys of the jobs, by name wd-<job>
ssh/config             `Host wd-*`, included from ~/.ssh/config
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.notation.values.job_ids import is_job_id

PREFIX = "wd-"
MAX_KNOWN_HOSTS = 1000
"""Largest number of remembered host keys. The keys of older jobs are requested again over our own
connection.
"""
MAX_AUTHORIZED_BYTES = 32 * 1024
"""Largest part in characters of the user's authorized_keys that is passed on."""
KEYGEN_S = 30.0
_VIA = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._:-]*")
_HOST = re.compile(r"(?:wd-)?(?P<job>[0-9][0-9_]*)(?:\.(?P<node>[A-Za-z0-9][A-Za-z0-9._-]*))?")


def parse_host(text: str) -> tuple[str, str]:
    """Return (job, node or "") of a host such as "wd-12", "wd-12_3", "wd-12.gpu02" or "12". Raises
    UserError.
    """
    found = _HOST.fullmatch(text)
    if found is None or not is_job_id(found["job"]):
        raise UserError(f"{text!r} is not a job", "use wd-12, wd-12_3, or wd-12.gpu02 for one of its nodes")
    return found["job"], found["node"] or ""


def authorized_keys(paths: Paths) -> str:
    """Return our own key and the keys that allow the user to log in here. Raises UserError.

    Our own key is created at the first call.
    """
    folder = _folder(paths)
    key = os.path.join(folder, "id_ed25519")
    if not os.path.exists(key):
        _make_key(key)
    lines = [_text(key + ".pub").strip()]
    own = _text(os.path.expanduser("~/.ssh/authorized_keys"))[:MAX_AUTHORIZED_BYTES]
    lines += [line.strip() for line in own.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(dict.fromkeys(lines))


def _make_key(path: str) -> None:
    """Create a key. If several processes do this at once, the first complete key is kept."""
    temporary = f"{path}.{os.getpid()}"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "warpdeck", "-f", temporary]
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=KEYGEN_S, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise UserError("ssh-keygen is not installed", "install the OpenSSH client") from error
    except subprocess.SubprocessError as error:
        raise UserError(
            f"ssh-keygen could not create a key in {os.path.dirname(path)}", "check that the disk is not full"
        ) from error
    with _locked(os.path.dirname(path)):
        if not os.path.exists(path):
            os.rename(temporary + ".pub", path + ".pub")
            os.rename(temporary, path)
    for name in (temporary, temporary + ".pub"):
        if os.path.exists(name):
            os.unlink(name)


def remember_host(paths: Paths, host: str, host_key: str) -> None:
    """Store the job's host key for ssh.

    It is trustworthy, because it arrived over our own authenticated connection.
    """
    folder = _folder(paths)
    path = os.path.join(folder, "known_hosts")
    with _locked(folder):
        old = _text(path).splitlines()
        line = f"{host} {host_key}"
        if line in old:
            return
        kept = [each for each in old if each.split(" ", 1)[0] != host][-MAX_KNOWN_HOSTS:]
        _write(path, "\n".join([*kept, line]) + "\n")


def config_text(paths: Paths, *, via: str = "") -> str:
    """Return the block for ~/.ssh/config.

    If `via` is given, the block is for another machine that reaches this one by that name.
    """
    proxy = " ".join([*_proxy_command(), "--user", "%r", "%h"])
    if via:
        if not _VIA.fullmatch(via):
            raise UserError(f"{via!r} is not an SSH host", "use: --via ann@login")
        return (
            f"# Jobs of warpdeck on {via}: ssh wd-12. The connection to {via} proves who is who.\n"
            "Host wd-*\n"
            f"    User {pwd.getpwuid(os.getuid()).pw_name}\n"
            f"    ProxyCommand ssh {via} {shlex.quote(proxy)}\n"
            "    StrictHostKeyChecking no\n"
            "    UserKnownHostsFile /dev/null\n"
            "    LogLevel ERROR\n"
        )
    folder = _folder(paths)
    return (
        "# Jobs of warpdeck: ssh wd-12, scp FILE wd-12:, ssh wd-12.gpu02 for one of a job's nodes.\n"
        "Host wd-*\n"
        f"    ProxyCommand {proxy}\n"
        f'    IdentityFile "{folder}/id_ed25519"\n'
        "    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{folder}/known_hosts"\n'
        "    StrictHostKeyChecking yes\n"
    )


def install(paths: Paths) -> str:
    """Write the block into our own file, and include that file from ~/.ssh/config.

    Return the path of our file.
    """
    authorized_keys(paths)
    ours = os.path.join(_folder(paths), "config")
    _write(ours, config_text(paths))
    theirs = os.path.realpath(os.path.expanduser("~/.ssh/config"))
    os.makedirs(os.path.dirname(theirs), mode=0o700, exist_ok=True)
    line = f'Include "{ours}"'
    old = _text(theirs)
    # It goes first, because an Include below a Host would apply only to that host.
    if line not in old.splitlines():
        _write(theirs, f"{line}\n\n{old}" if old else line + "\n")
    return ours


def _proxy_command() -> Sequence[str]:
    """Return the command with which ssh, or an editor with another PATH, runs `warpdeck proxy` for this
    home.
    """
    program = shutil.which(sys.argv[0]) or ""
    own = (
        [os.path.abspath(program)]
        if os.path.basename(program) == "warpdeck"
        else [sys.executable, "-m", "warpdeck.cli.main"]
    )
    home = os.environ.get("WARPDECK_HOME")
    settings = ["env", f"WARPDECK_HOME={os.path.abspath(os.path.expanduser(home))}"] if home else []
    return [shlex.quote(word).replace("%", "%%") for word in (*settings, *own, "proxy")]


def _folder(paths: Paths) -> str:
    os.makedirs(paths.ssh, mode=0o700, exist_ok=True)
    return paths.ssh


class _locked:  # noqa: N801 (reads as a statement)
    """Lock that lets only one process at a time change the files of the folder."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "lock")

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    """Write the file atomically."""
    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
