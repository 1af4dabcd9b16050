"""Start this machine's agent and connect to it. It is the same zipapp, started without SSH."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from warpdeck.base import standby_files
from warpdeck.base.errors import RemoteError, UserError
from warpdeck.base.paths import Paths
from warpdeck.base.systemd_units import AGENT, AGENT_SERVICE

from .build import build_local_zipapp
from .openfiles import restore_limit
from .transport import ClaimMachine, Transport, machine_name, start_result

START_S = 30.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"


async def connect_local(paths: Paths, hostname: str, *, claim: ClaimMachine) -> Transport:
    """Start this machine's agent if needed, and connect to it. Raises UserError or RemoteError.

    `hostname` is the recorded name of the node's machine, or "" for a new node. After a takeover, the node may be the machine
    of the controller before, which is not this one.
    """
    found = standby_files.read(paths.taken_over)
    if found and hostname == found["from_host"]:
        raise UserError(
            f"this node is the machine of the controller before, {hostname}",
            f"add it with its address: warpdeck node add USER@{hostname}",
        )
    claim(machine_name(Path(BOOT_ID).read_text(encoding="ascii"), socket.gethostname()))
    program, build = build_local_zipapp(paths.agent)
    if not os.environ.get(AGENT_SERVICE):
        await start_local(paths, program)
    folder = os.open(paths.agent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/agent.sock")
    except OSError as error:
        reason = f"the agent does not answer: {error}"
        if os.environ.get(AGENT_SERVICE):
            reason += f"; see `systemctl status {AGENT}`"
        raise RemoteError("this machine", reason) from error
    finally:
        os.close(folder)
    return Transport(
        reader=reader,
        writer=writer,
        outgoing=writer.transport,
        build=build,
        close=writer.close,
        is_local=True,
    )


async def start_local(paths: Paths, program: str) -> None:
    """Run `agent.pyz start` in a child process."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        program,
        "start",
        "--dir",
        paths.agent,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=restore_limit,
    )
    try:
        async with asyncio.timeout(START_S):
            out, err = await child.communicate()
    except TimeoutError as error:
        child.kill()
        raise RemoteError("this machine", "the agent did not start in time") from error
    start_result("this machine", out.decode(errors="replace"), err.decode(errors="replace"))
