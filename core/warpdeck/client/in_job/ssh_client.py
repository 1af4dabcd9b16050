"""The user's side of SSH into jobs: a key of our own, the jobs' host keys, and what ssh's configuration needs to know.

ssh/id_ed25519(.pub)   the key that jobs' servers accept       ssh/known_hosts   their host keys, by name wd-<job>
ssh/config             `Host wd-*`, to be included from ~/.ssh/config
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
"""Jobs whose host key is remembered; older ones are asked anew, over our own connection."""
MAX_AUTHORIZED_BYTES = 32 * 1024
"""How much of the user's authorized_keys is passed on."""
KEYGEN_S = 30.0
_VIA = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._:-]*")
_HOST = re.compile(r"(?:wd-)?(?P<job>[0-9][0-9_]*)(?:\.(?P<node>[A-Za-z0-9][A-Za-z0-9._-]*))?")


def parse_host(text: str) -> tuple[str, str]:
    """(job, node or "") of "wd-12", "wd-12_3", "wd-12.gpu02" or "12". Raises UserError."""
    found = _HOST.fullmatch(text)
    if found is None or not is_job_id(found["job"]):
        raise UserError(
            f"{text!r} names no job", "write: wd-12, wd-12_3, or wd-12.gpu02 for one of its nodes"
        )
    return found["job"], found["node"] or ""


def authorized_keys(paths: Paths) -> str:
    """Our own key, made at the first call, and those with which the user may log in here. Raises UserError."""
    folder = _folder(paths)
    key = os.path.join(folder, "id_ed25519")
    if not os.path.exists(key):
        _make_key(key)
    lines = [_text(key + ".pub").strip()]
    own = _text(os.path.expanduser("~/.ssh/authorized_keys"))[:MAX_AUTHORIZED_BYTES]
    lines += [line.strip() for line in own.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(dict.fromkeys(lines))


def _make_key(path: str) -> None:
    """Several may come at once: the first that is whole stays."""
    temporary = f"{path}.{os.getpid()}"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "warpdeck", "-f", temporary]
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=KEYGEN_S, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise UserError("there is no ssh-keygen here", "install the OpenSSH client") from error
    except subprocess.SubprocessError as error:
        raise UserError(f"ssh-keygen makes no key in {os.path.dirname(path)}", "is the disk full?") from error
    with _locked(os.path.dirname(path)):
        if not os.path.exists(path):
            os.rename(temporary + ".pub", path + ".pub")
            os.rename(temporary, path)
    for name in (temporary, temporary + ".pub"):
        if os.path.exists(name):
            os.unlink(name)


def remember_host(paths: Paths, host: str, host_key: str) -> None:
    """The job's host key for ssh to check: it came over our own connection, which proves both ends."""
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
    """The block for ~/.ssh/config. `via`: it is for another machine, from where this one is reached by that name."""
    proxy = " ".join([*_proxy_command(), "--user", "%r", "%h"])
    if via:
        if not _VIA.fullmatch(via):
            raise UserError(f"{via!r} is no host of ssh's", "write: --via ann@login")
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
    """Writes the block to a file of ours and has ~/.ssh/config include it. Returns that file's path."""
    authorized_keys(paths)
    ours = os.path.join(_folder(paths), "config")
    _write(ours, config_text(paths))
    theirs = os.path.realpath(os.path.expanduser("~/.ssh/config"))
    os.makedirs(os.path.dirname(theirs), mode=0o700, exist_ok=True)
    line = f'Include "{ours}"'
    old = _text(theirs)
    if line not in old.splitlines():  # first: an Include below a Host would be that host's alone
        _write(theirs, f"{line}\n\n{old}" if old else line + "\n")
    return ours


def _proxy_command() -> Sequence[str]:
    """How ssh, or an editor with another PATH, runs `warpdeck proxy` of this home."""
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
    """Only one process at a time changes the folder's files."""

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
    """Whole or not at all."""
    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
