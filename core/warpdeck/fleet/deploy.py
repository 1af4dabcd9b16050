"""Bringing the agent to a host over SSH: probe, upload, start, attach. No root, no package, nothing from the internet.

A user's shell start files run even for remote commands and may print anything: every answer is found by its sentinel, and
programs are called by absolute path. Every step has a time-out and tells its progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
import msgspec

from warpdeck.errors import RemoteError, UserError
from warpdeck.paths import Paths
from warpdeck_agent.wire.frames import SENTINEL

from .build import build_zipapp
from .ssh import connect
from .transport import Transport, start_result

Progress = Callable[[str], Awaitable[None]]
STEP_S = 60.0
MAX_NOISE_LINES = 500
"""Lines a shell's start files may print before the agent's first word."""

PROBE = r"""
for python in /usr/bin/python3 /usr/local/bin/python3 /opt/python3/bin/python3 \
    /usr/bin/python3.14 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11 /usr/bin/python3.10 /usr/bin/python3.9 \
    "$(command -v python3 2>/dev/null)"; do
    [ -n "$python" ] && [ -x "$python" ] || continue
    version=$("$python" -I -S -c 'import sys
print("%d.%d" % sys.version_info[:2])
sys.exit(sys.version_info < (3, 9))' 2>/dev/null) || { version=; continue; }
    break
done
[ -n "$version" ] || python=
if [ "$(id -u)" = 0 ]; then base=/var/lib/warpdeck; else base=$HOME/.warpdeck; fi
echo "WARPDECK-PROBE|$python|$version|$base|$(uname -n)|$(uname -m)"
"""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe found."""

    python: str
    version: str
    folder: str
    arch: str


async def connect_ssh(
    target: str,
    paths: Paths,
    *,
    controller_id: str,
    accept_host_key: str = "",
    progress: Progress | None = None,
) -> Transport:
    """An agent of our build that runs on the host, and a stream to it. Raises UserError or RemoteError."""
    tell = progress or _silent
    await tell(f"connecting to {target}")
    connection = await connect(target, paths, accept_host_key=accept_host_key)
    try:
        site = await _probe(connection, target, controller_id)
        await tell(f"python {site.version} at {site.python}")
        program, build = build_zipapp(paths.agent)
        remote = f"{site.folder}/{Path(program).name}"
        await _upload(connection, target, program, remote, tell)
        await _start(connection, target, site, remote)
        process = await _attach(connection, target, site, remote)
    except BaseException:
        connection.close()
        raise
    return Transport(reader=process.stdout, writer=process.stdin, build=build, close=connection.close)


async def _silent(_: str) -> None:
    return None


async def _run(
    connection: asyncssh.SSHClientConnection, target: str, command: str, data: bytes
) -> tuple[str, str]:
    """A remote command with its input; (stdout, stderr)."""
    try:
        async with asyncio.timeout(STEP_S):
            done = await connection.run(command, input=data, encoding=None)
    except TimeoutError as error:
        raise RemoteError(target, f"a command took over {STEP_S:.0f} s") from error
    except (OSError, asyncssh.Error) as error:
        raise RemoteError(target, f"the connection broke: {error}") from error
    return _text(done.stdout), _text(done.stderr)


def _text(output: Any) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else str(output or "")


async def _probe(connection: asyncssh.SSHClientConnection, target: str, controller_id: str) -> Site:
    out, err = await _run(connection, target, "/bin/sh", PROBE.encode())
    line = next((line for line in out.splitlines() if line.startswith("WARPDECK-PROBE|")), None)
    if line is None:
        raise UserError(
            f"{target} runs no command for us: {(err or out).strip()[-200:] or 'no answer'}",
            f"see what `ssh {target} true` says",
        )
    _, python, version, base, host, arch = line.split("|")
    if not python:
        raise UserError(
            f"{target} has no Python 3.9 or newer", "install python3 there; nothing else is needed"
        )
    return Site(python=python, version=version, folder=f"{base}/{controller_id[:8]}-{host}", arch=arch)


async def _upload(
    connection: asyncssh.SSHClientConnection, target: str, program: str, remote: str, tell: Progress
) -> None:
    """Unless a file of that name (it holds the hash) and size is there."""
    data = Path(program).read_bytes()
    quoted, folder = shlex.quote(remote), shlex.quote(remote.rpartition("/")[0])
    check = f'[ "$(wc -c <{quoted} 2>/dev/null)" = {len(data)} ] && echo WARPDECK-HAS || echo WARPDECK-NEEDS'
    out, _ = await _run(connection, target, "/bin/sh", (check + "\n").encode())
    if "WARPDECK-HAS" in out:
        return
    script = (
        f"umask 022; mkdir -p {folder} && cat >{quoted}.new && "
        f'[ "$(wc -c <{quoted}.new)" = {len(data)} ] && mv {quoted}.new {quoted} && echo WARPDECK-OK'
    )
    out, err = await _run(connection, target, f"/bin/sh -c {shlex.quote(script)}", data)
    if "WARPDECK-OK" not in out:
        raise RemoteError(target, f"the agent could not be copied there: {err.strip()[-200:] or 'no space?'}")
    await tell(f"agent copied ({len(data) // 1024} kB)")


async def _start(connection: asyncssh.SSHClientConnection, target: str, site: Site, remote: str) -> None:
    command = f"{shlex.quote(site.python)} -I {shlex.quote(remote)} start --dir {shlex.quote(site.folder)}"
    out, err = await _run(connection, target, command, b"")
    start_result(target, out, err)


async def _attach(
    connection: asyncssh.SSHClientConnection, target: str, site: Site, remote: str
) -> asyncssh.SSHClientProcess[bytes]:
    command = f"{shlex.quote(site.python)} -I {shlex.quote(remote)} attach --dir {shlex.quote(site.folder)}"
    try:
        async with asyncio.timeout(STEP_S):
            process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
                command, encoding=None
            )
            for _ in range(MAX_NOISE_LINES):
                line = await process.stdout.readline()
                if line.startswith(SENTINEL.encode()):
                    answer = json.loads(line[len(SENTINEL) :])
                    if answer.get("ok"):
                        return process
                    raise RemoteError(target, str(answer.get("error")))
                if not line:
                    break
    except (OSError, TimeoutError, asyncssh.Error, ValueError) as error:
        raise RemoteError(target, f"cannot join the agent: {error}") from error
    with contextlib.suppress(OSError):
        process.close()
    raise RemoteError(target, "cannot join the agent: it said nothing")
