"""A command over a real SSH connection to an asyncssh server: its output is returned, however soon it ends,
and is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncssh
import pytest

from warpdeck.base.errors import RemoteError
from warpdeck.fleet.ssh.deploy import MAX_OUTPUT_BYTES, CommandResult, run_command

Process = asyncssh.SSHServerProcess[bytes]
INPUT = b"echo hello\n"


class Open(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return False


@asynccontextmanager
async def host(
    program: Callable[[Process], Awaitable[None] | None],
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to a loopback server that runs this program for every command."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(
        Open, "127.0.0.1", 0, server_host_keys=[key], process_factory=program, encoding=None
    )
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncssh.connect(
            "127.0.0.1", port, known_hosts=None, username="alice", client_keys=None, config=None
        ) as connection:
            yield connection
    finally:
        server.close()
        await server.wait_closed()


def run(program: Callable[[Process], Awaitable[None] | None], data: bytes = INPUT) -> CommandResult:
    async def whole() -> CommandResult:
        async with host(program) as connection:
            return await run_command(connection, "gpu01", "/bin/sh", data)

    return asyncio.run(whole())


def test_the_output_of_a_command_that_ended_before_its_input_is_returned() -> None:
    def gone(process: Process) -> None:
        process.stdout.write(b"maintenance until noon\n")
        process.exit(1)

    assert run(gone) == CommandResult(out="maintenance until noon\n", err="", code=1)


def test_the_complete_input_arrives() -> None:
    async def counts(process: Process) -> None:
        process.stdout.write(b"%d" % len(await process.stdin.read()))
        process.exit(0)

    assert run(counts, b"x" * 3_000_000) == CommandResult(out="3000000", err="", code=0)


def test_a_command_with_endless_output_is_given_up() -> None:
    sent = 0

    async def floods(process: Process) -> None:
        nonlocal sent
        while not process.is_closing():
            process.stdout.write(b"x" * 65535 + b"\n")
            sent += 65536
            await process.stdout.drain()

    with pytest.raises(RemoteError, match="gpu01: a command printed more than 1024 kB"):
        run(floods)
    assert sent < 8 * MAX_OUTPUT_BYTES
