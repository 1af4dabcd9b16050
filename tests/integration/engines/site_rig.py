"""A site gateway and the gateways of two users over a real Slurm, each as a process of its own account."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.slurm_parity.peer.real_slurm import RealSlurm, first_below
from tests.support.waiting import WAIT_S, eventually

from warpdeck.base.controller_daemon import is_running
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths, SiteGatewayPaths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.client.blocking_client import SyncClient
from warpdeck.engines.slurm.cluster.questions import Question, form_of
from warpdeck.engines.slurm.site_gateway.wire import MAX_REPLY_BYTES, Asked, Reply
from warpdeck.protocol.site_rows import EngineRow

USERS = ("games", "nobody")
SERVICE = "daemon"
"""The account of the site gateway. Slurm's daemons know only users of this machine."""
OFTEN = "requests_per_minute = 6000\nidle_requests_per_minute = 6000\n"


class SiteRig:
    """Starts the processes, and ends them in the end."""

    def __init__(self, slurm: RealSlurm, folder: Path) -> None:
        self.slurm = slurm
        self._folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """Processes by their home. Each is nsenter, whose only child is the process in the namespaces."""

    def site_gateway(
        self, *, account: str = SERVICE, settings: str = "", name: str = "site"
    ) -> SiteGatewayPaths:
        """Start a site gateway."""
        paths = SiteGatewayPaths(self.home(name, account, settings))
        self.start("warpdeck.daemon.site_gateway_process", paths, account)
        return paths

    def gateway(self, user: str, *, site: Paths, owner: str = SERVICE, settings: str = "") -> Paths:
        """Start the gateway of a user, whose settings name the site gateway."""
        lines = f'site_gateway = "{site.home}"\nsite_gateway_owner = "{owner}"\n{settings}'
        paths = Paths(self.home(user, user, lines), wanted_engine="slurm")
        self.start("warpdeck.daemon.gateway_process", paths, user)
        return paths

    def home(self, name: str, user: str, settings: str) -> str:
        """Create a home with settings, which belongs to the user."""
        home = self._folder / name
        home.mkdir(mode=0o711)
        (home / "config.toml").write_text(f'[slurm]\nfolder = "{home}/shared"\n{settings}')
        uid = pwd.getpwnam(user).pw_uid
        os.chown(home, uid, uid)
        return str(home)

    def start(self, module: str, paths: Paths, user: str) -> None:
        """Start a process, and wait until it answers."""
        argv = self.slurm.python("-m", module, "--home", paths.home, user=user)
        self.processes[paths.home] = process = self.spawn(argv, home=paths.home)

        def answers() -> bool:
            assert process.poll() is None, f"{module} of {user} ended: {self.log(paths)}"
            return is_running(paths)

        eventually(answers, what=f"{module} of {user} answers")

    def spawn(self, argv: list[str], *, home: str) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return subprocess.Popen(
            argv,
            env={**kept, "HOME": home, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def log(self, paths: Paths) -> str:
        return Path(paths.log).read_text(errors="replace")[-3000:] if os.path.exists(paths.log) else ""

    def signal(self, home: str, number: int) -> None:
        """Send a signal to a process."""
        os.kill(first_below(self.processes[home].pid), number)

    def kill(self, home: str) -> None:
        """Kill a process without any chance to clean up."""
        self.signal(home, signal.SIGKILL)
        process = self.processes.pop(home)
        process.send_signal(signal.SIGCONT)  # nsenter stops itself when its child is stopped.
        process.wait(WAIT_S)

    def close(self) -> None:
        for home in [*self.processes]:
            self.kill(home)


@contextmanager
def site_rig(slurm: RealSlurm) -> Iterator[SiteRig]:
    """Yield a rig whose folder every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="wds", dir="/tmp"))
    folder.chmod(0o755)
    rig = SiteRig(slurm, folder)
    try:
        yield rig
    finally:
        rig.close()
        shutil.rmtree(folder, ignore_errors=True)


def engine_row(paths: Paths) -> EngineRow:
    """Return the line that `warpdeck status` shows about the engine."""
    with SyncClient.connect(paths, start=False) as client:
        return msgspec.convert(client.call("status")["engine"], EngineRow)


def job_names(paths: Paths) -> set[str]:
    """Return the names of the jobs that this user's gateway shows."""
    with SyncClient.connect(paths, start=False) as client:
        return {str(row["name"]) for row in client.call("jobs")["jobs"]}


def ask(paths: SiteGatewayPaths, question: Question, **fields: Any) -> Reply:
    """Ask the site gateway as root, and return the first line of its reply."""

    async def exchange() -> bytes:
        reader, writer = await asyncio.open_unix_connection(paths.socket, limit=MAX_REPLY_BYTES)
        writer.write(msgspec.json.encode(Asked(question=question, form=form_of(question), **fields)) + b"\n")
        line = await reader.readline()
        writer.close()
        return line

    return msgspec.json.decode(asyncio.run(exchange()), type=Reply)


async def screen(paths: Paths, seen: set[str]) -> None:
    """Follow the changes of the cluster as an open app does, and note the names of the jobs."""
    client = await AsyncioClient.connect(paths)
    try:
        async for delta in client.subscribe():
            seen.update(row.name for row in delta.jobs)
    except UserError:
        pass
    finally:
        await client.close()
