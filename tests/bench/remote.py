"""Start latency of a job, and of a shell from the app, on a node reached over SSH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from . import jobs, screen
from .loopback import is_possible, open_loopback
from .rig import Rig
from .table import Table


def measure(table: Table) -> None:
    """Measure a controller with one node: this machine, over the loopback address."""
    if not is_possible():
        table.left_out(jobs.SSH_START, "no sshd is installed")
        return
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as folder, open_loopback(Path(folder)) as host:
        rig = Rig(Path(folder), HOME=str(host.home), SSH_AUTH_SOCK="")
        try:
            rig.up("--no-local-node")
            argv = ["node", "add", host.target, "--name", "over-ssh"]
            rig.home.ok(*argv, "--accept-host-key", host.fingerprint())
            rig.wait_for_nodes()
            table.add(jobs.SSH_START, jobs.start_latency(rig))
            table.add(screen.PROMPT, screen.shell_prompt(rig))
        finally:
            with _without_agent_folder(rig):
                rig.home.run("node", "rm", "--force", "over-ssh")
                rig.close()


@contextmanager
def _without_agent_folder(rig: Rig) -> Iterator[None]:
    """Remove the agent's folder from this machine afterwards."""
    base = Path("/var/lib/warpdeck") if os.geteuid() == 0 else Path.home() / ".warpdeck"
    controller = str(rig.client.welcome["controller"])
    yield
    for folder in base.glob(f"{controller[:8]}-*"):
        shutil.rmtree(folder)
