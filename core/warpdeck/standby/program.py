"""Bring the program to a standby over SSH: warpdeck itself and its dependencies, as files in a folder of their own.

A standby that has the same build at the same place gets nothing. Any other host needs Python of our minor version, because
the dependencies contain compiled modules, and no access to the internet.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import io
import os
import platform
import re
import shlex
import sys
import tarfile
from functools import cache
from importlib import metadata
from pathlib import Path

import asyncssh
import msgspec

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.fleet.ssh.deploy import run_command
from warpdeck.fleet.transport import Progress

OWN_PACKAGES = ("warpdeck", "warpdeck_tui", "warpdeck_agent")
UPLOAD_S = 600.0
"""Seconds that the upload of the program may take."""
CHUNK_BYTES = 256 * 1024
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")

PROBE = r"""
set -f
if [ -x {own} ]; then build=$({own} -I -m warpdeck.standby.program 2>/dev/null); fi
if [ "$(id -u)" = 0 ]; then base=/var/lib/warpdeck; else base=$HOME/.warpdeck; fi
folder=$base/standby-{digest}
for python in {base_python} /usr/bin/python{version} /usr/local/bin/python{version} "$(command -v python{version} 2>/dev/null)"; do
    [ -n "$python" ] && [ -x "$python" ] || continue
    found=$("$python" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    [ "$found" = {version} ] && break
    python=
done
[ -e "$folder/complete" ] && has=yes || has=
echo
echo "WARPDECK-STANDBY-PROBE|$build|$python|$folder|$(uname -m)|$has|$(uname -n)|"
"""
_PROBED = re.compile(r"WARPDECK-STANDBY-PROBE\|([^|]*)\|([^|]*)\|([^|]+)\|([^|]+)\|([^|]*)\|([^|]*)\|")
INSTALL = r"""
umask 022
mkdir -p {folder} && cd {folder} && rm -rf lib bin && mkdir -p bin lib/python{version}/site-packages || exit 1
tar -xzf - -C lib/python{version}/site-packages || exit 1
ln -s {python} bin/python
printf 'home = %s\ninclude-system-site-packages = false\nversion = {version}\n' "$(dirname {python})" >pyvenv.cfg
printf '#!/bin/sh\nexec %s/bin/python -I -m warpdeck.cli.main "$@"\n' {folder} >bin/warpdeck
chmod 755 bin/warpdeck && bin/python -I -m warpdeck.standby.program >complete.new && mv complete.new complete || exit 1
mkdir -p ../bin && ln -sfn {folder}/bin/warpdeck ../bin/warpdeck
echo WARPDECK-OK
"""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The program on a standby."""

    python: str
    command: str
    """The command that runs warpdeck there."""
    host: str


@cache
def build_digest() -> str:
    """Return a hash of our sources and of the versions of the dependencies."""
    digest = hashlib.sha256(sys.version.encode())
    for name, path in _own_files():
        digest.update(f"{name}\n".encode())
        digest.update(path.read_bytes())
    for each in _distributions():
        digest.update(f"{each.name} {each.version}\n".encode())
    return digest.hexdigest()


async def install(connection: asyncssh.SSHClientConnection, target: str, *, report: Progress) -> Installed:
    """Make sure that our build is on the host. Raises UserError or RemoteError."""
    digest = await asyncio.to_thread(build_digest)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    probe = PROBE.format(
        own=shlex.quote(sys.executable),
        base_python=shlex.quote(os.path.realpath(sys.executable)),
        digest=digest[:12],
        version=version,
    )
    done = await run_command(connection, target, "/bin/sh", probe.encode())
    match = _PROBED.search(done.out)
    if match is None:
        raise UserError(
            f"the login shell of {target} exits before it runs a command: {done.last_line()}",
            f"check the output of `ssh {target} true`",
        )
    build, python, folder, machine, has, host = match.groups()
    if build == digest:
        command = os.path.join(os.path.dirname(sys.executable), "warpdeck")
        return Installed(python=sys.executable, command=command, host=host)
    command = f"{folder}/bin/warpdeck"
    if not has:
        _check(target, python, machine, version)
        await report("packing warpdeck and its dependencies")
        data = await asyncio.to_thread(packed_program)
        await report(f"copying the program ({len(data) // 2**20} MB)")
        script = INSTALL.format(folder=shlex.quote(folder), python=shlex.quote(python), version=version)
        await _upload(connection, target, script, data)
    return Installed(python=f"{folder}/bin/python", command=command, host=host)


def _check(target: str, python: str, machine: str, version: str) -> None:
    """Raise UserError if the program cannot run on the host."""
    if machine != platform.machine():
        raise UserError(
            f"{target} has the processor type {machine}, this machine {platform.machine()}",
            "choose a standby of the same type",
        )
    if not python:
        raise UserError(
            f"{target} has no Python {version}, with which this controller runs",
            f"install python{version} there, or install warpdeck at the same path as here",
        )


async def _upload(connection: asyncssh.SSHClientConnection, target: str, script: str, data: bytes) -> None:
    """Run the script with the archive as its input. Raises RemoteError."""
    command = f"/bin/sh -c {shlex.quote(script)}"
    try:
        async with asyncio.timeout(UPLOAD_S):
            process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
                command, encoding=None
            )
            try:
                for at in range(0, len(data), CHUNK_BYTES):
                    process.stdin.write(data[at : at + CHUNK_BYTES])
                    await process.stdin.drain()
                process.stdin.write_eof()
            except BrokenPipeError:
                pass  # The script has failed, and its output says why.
            out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
    except TimeoutError as error:
        raise RemoteError(target, f"the copy of the program took more than {UPLOAD_S:.0f} s") from error
    except (OSError, asyncssh.Error) as error:
        raise RemoteError(target, f"connection lost: {error}") from error
    if b"WARPDECK-OK" not in out:
        lines = (err or out).decode("utf-8", "replace").strip().splitlines() or ["no output"]
        raise RemoteError(target, f"cannot install the program: {lines[-1]}")


def packed_program() -> bytes:
    """Return warpdeck and its dependencies as tar.gz."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, path in (*_own_files(), *_dependency_files()):
            archive.add(path, arcname=name, recursive=False, filter=_owned_by_nobody)
    return buffer.getvalue()


def _owned_by_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _own_files() -> list[tuple[str, Path]]:
    """Return the files of our packages, with their paths in site-packages."""
    found = []
    for package in OWN_PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None, f"{package} is not installed"
        folder = Path(spec.origin).parent
        found += [
            (f"{package}/{path.relative_to(folder)}", path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        if package == "warpdeck_tui" and not (folder / "themes").is_dir():  # a checkout of the sources
            themes = folder.resolve().parents[1] / "themes"
            found += [(f"{package}/themes/{path.name}", path) for path in sorted(themes.glob("*"))]
    return found


def _dependency_files() -> list[tuple[str, Path]]:
    own = metadata.distribution("warpdeck")
    found = []
    for each in (own, *_distributions()):
        for file in each.files or ():
            path = Path(str(file.locate()))
            if each is own and not file.parts[0].endswith(".dist-info"):
                continue
            if not str(file).startswith("..") and "__pycache__" not in file.parts and path.is_file():
                found.append((str(file), path))
    return found


def _distributions() -> list[metadata.Distribution]:
    """Return the distributions that warpdeck requires, directly or not, ordered by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = _requires(metadata.distribution("warpdeck"))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # A requirement of another platform.
        waiting += _requires(found[name])
    return [found[name] for name in sorted(found)]


def _requires(distribution: metadata.Distribution) -> list[str]:
    """Return the names of the requirements, without the requirements of extras."""
    names = []
    for text in distribution.requires or ():
        match = _REQUIREMENT.match(text)
        if match and "extra ==" not in text:
            names.append(re.sub(r"[-_.]+", "-", match[0]).lower())
    return names


if __name__ == "__main__":
    print(build_digest())
