"""Deploy the agent to a host over SSH: probe, upload, start, attach.

This needs no root rights, no package and no internet access. Shell startup files of the user run even for
remote commands and may print anything. Every answer is therefore marked with a sentinel, and programs are
called by absolute path. Every step has a time-out and reports its progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
from pathlib import Path

import asyncssh
import msgspec

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.base.paths import Paths
from warpdeck.fleet.build import build_zipapp
from warpdeck.fleet.transport import (
    ClaimMachine,
    Progress,
    Transport,
    agent_answer,
    last_line,
    machine_name,
    start_result,
)
from warpdeck_agent.wire.environment import SHARE_MACHINE

from .connect import connect

STEP_S = 60.0
MAX_NOISE_LINES = 500
"""Maximum number of lines that the shell's startup files may print before the agent's first answer."""

PROBE = r"""
oldest=
for python in /usr/bin/python3 /usr/local/bin/python3 /opt/python3/bin/python3 \
    /usr/bin/python3.14 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11 /usr/bin/python3.10 /usr/bin/python3.9 \
    "$(command -v python3 2>/dev/null)"; do
    [ -n "$python" ] && [ -x "$python" ] || continue
    version=$("$python" -I -S -c 'import sys
print("%d.%d" % sys.version_info[:2])
sys.exit(sys.version_info < (3, 9))' 2>/dev/null) || { oldest=${version:-$oldest}; version=; continue; }
    break
done
[ -n "$version" ] || { python= version=$oldest; }
if [ "$(id -u)" = 0 ]; then base=/var/lib/warpdeck; else base=$HOME/.warpdeck; fi
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
set -- $SSH_CONNECTION
echo
echo "WARPDECK-PROBE|$python|$version|$base|$(uname -n)|$boot|$3|"
"""
PROBED = re.compile(r"WARPDECK-PROBE\|([^|]*)\|([^|]*)\|([^|]+)\|([^|]+)\|([^|]*)\|([^|]*)\|")
_UNSAFE_CHARS = re.compile(r"[^A-Za-z0-9._-]")
CHUNK_BYTES = 65536
MAX_OUTPUT_BYTES = 1 << 20
"""Maximum output of a remote command, in bytes."""


class DeployTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Result of probing a host."""

    python: str
    version: str
    folder: str
    machine: str
    address: str = ""
    """The address of the host to which the connection was made."""


class AgentReader:
    """The bytes of an agent."""

    def __init__(self, stream: asyncssh.SSHReader[bytes]) -> None:
        self._stream = stream

    async def readexactly(self, n: int) -> bytes:
        """Return the next `n` bytes. Raises asyncio.IncompleteReadError, or OSError if the connection broke."""
        try:
            return await self._stream.readexactly(n)
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a remote command. `code` is None if a signal ended it."""

    out: str
    err: str
    code: int | None

    def last_line(self) -> str:
        """Return the last line of the command's output."""
        return last_line(self.out, self.err)


async def connect_ssh(
    target: str,
    paths: Paths,
    *,
    controller_id: str,
    claim: ClaimMachine,
    accept_host_key: str = "",
    progress: Progress | None = None,
) -> Transport:
    """Start an agent of our build on the host and return a stream to it. Raises UserError or RemoteError."""
    report = progress or _ignore_progress
    await report(f"connecting to {target}")
    connection = await connect(target, paths, accept_host_key=accept_host_key)
    try:
        probed = await _probe(connection, target, controller_id)
        claim(probed.machine)
        await report(f"python {probed.version} at {probed.python}")
        program, build = build_zipapp(paths.agent)
        remote = await _upload(connection, target, program, probed.folder, report)
        await _start(connection, target, probed, remote)
        process = await _attach(connection, target, probed, remote)
    except BaseException:
        connection.close()
        raise
    return Transport(
        reader=AgentReader(process.stdout),
        writer=process.stdin,
        outgoing=process.stdin.channel,
        build=build,
        close=connection.close,
        address=probed.address,
    )


async def _ignore_progress(_: str) -> None:
    return None


async def run_command(
    connection: asyncssh.SSHClientConnection, target: str, command: str, data: bytes
) -> CommandResult:
    """Run a remote command with its input. Raises RemoteError."""
    try:
        async with asyncio.timeout(STEP_S):
            process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
                command, encoding=None
            )
            with contextlib.suppress(BrokenPipeError):
                if data:
                    process.stdin.write(data)
                    process.stdin.write_eof()
            out, err = await asyncio.gather(
                _read_output(target, process.stdout), _read_output(target, process.stderr)
            )
            await process.wait()
    except TimeoutError as error:
        raise RemoteError(target, f"a command took more than {STEP_S:.0f} s") from error
    except (OSError, asyncssh.Error) as error:
        raise RemoteError(target, f"connection lost: {error}") from error
    return CommandResult(out=out, err=err, code=process.exit_status)


async def _read_output(target: str, stream: asyncssh.SSHReader[bytes]) -> str:
    """Return the output of a command.

    Raises RemoteError if the output is longer than any output of our commands and of startup files.
    """
    output = bytearray()
    while piece := await stream.read(CHUNK_BYTES):
        output += piece
        if len(output) > MAX_OUTPUT_BYTES:
            raise RemoteError(
                target,
                f"a command printed more than {MAX_OUTPUT_BYTES // 1024} kB; check the output of its shell's startup files",
            )
    return output.decode("utf-8", "replace")


async def _probe(connection: asyncssh.SSHClientConnection, target: str, controller_id: str) -> DeployTarget:
    done = await run_command(connection, target, "/bin/sh", PROBE.encode())
    match = PROBED.search(done.out)
    if match is None:
        code = "" if done.code in (0, None) else f" (exit code {done.code})"
        raise UserError(
            f"the login shell of {target} exits before it runs a command{code}: {done.last_line()}",
            f"check the output of `ssh {target} true`",
        )
    python, version, base, host, boot_id, address = match.groups()
    if not python:
        found = f"only Python {version}" if version else "no Python"
        raise UserError(
            f"{target} has {found}; the agent needs Python 3.9 or newer",
            "install python3 there",
        )
    return DeployTarget(
        python=python,
        version=version,
        folder=f"{base}/{controller_id[:8]}-{_UNSAFE_CHARS.sub('-', host)}",
        machine=machine_name(boot_id, host),
        address=address.partition("%")[0],
    )


async def _upload(
    connection: asyncssh.SSHClientConnection, target: str, program: str, folder: str, report: Progress
) -> str:
    """Copy the agent to the host and return its path there.

    If a file with the same name and size exists, nothing is copied. The name contains the hash of the
    content.
    """
    data = Path(program).read_bytes()
    remote = f"{folder}/{Path(program).name}"
    path, quoted_folder = shlex.quote(remote), shlex.quote(folder)
    check = f'[ "$(wc -c <{path} 2>/dev/null)" = {len(data)} ] && echo WARPDECK-HAS || echo WARPDECK-NEEDS'
    has = await run_command(connection, target, "/bin/sh", (check + "\n").encode())
    if "WARPDECK-HAS" in has.out:
        return remote
    script = (
        f"umask 022; mkdir -p {quoted_folder} && cat >{path}.new && "
        f'[ "$(wc -c <{path}.new)" = {len(data)} ] && mv {path}.new {path} && echo WARPDECK-OK || rm -f {path}.new'
    )
    done = await run_command(connection, target, f"/bin/sh -c {shlex.quote(script)}", data)
    if "WARPDECK-OK" not in done.out:
        raise RemoteError(target, f"cannot copy the agent to {folder}: {done.last_line()}")
    await report(f"agent copied ({len(data) // 1024} kB)")
    return remote


async def _start(
    connection: asyncssh.SSHClientConnection, target: str, probed: DeployTarget, remote: str
) -> None:
    sharing = f"env {SHARE_MACHINE}=1 " if os.environ.get(SHARE_MACHINE) else ""
    python, folder = shlex.quote(probed.python), shlex.quote(probed.folder)
    command = f"{sharing}{python} -I {shlex.quote(remote)} start --dir {folder}"
    done = await run_command(connection, target, command, b"")
    start_result(target, done.out, done.err)


async def _attach(
    connection: asyncssh.SSHClientConnection, target: str, probed: DeployTarget, remote: str
) -> asyncssh.SSHClientProcess[bytes]:
    command = (
        f"{shlex.quote(probed.python)} -I {shlex.quote(remote)} attach --dir {shlex.quote(probed.folder)}"
    )
    try:
        async with asyncio.timeout(STEP_S):
            process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
                command, encoding=None
            )
            for _ in range(MAX_NOISE_LINES):
                line = await process.stdout.readline()
                answer = agent_answer(line.decode("utf-8", "replace"))
                if answer is not None and answer.get("ok"):
                    return process
                if answer is not None:
                    raise RemoteError(target, str(answer.get("error")))
                if not line:
                    break
    except (OSError, TimeoutError, asyncssh.Error, ValueError) as error:
        raise RemoteError(target, f"cannot connect to the agent: {error}") from error
    with contextlib.suppress(OSError):
        process.close()
    raise RemoteError(target, "cannot connect to the agent: no output")
