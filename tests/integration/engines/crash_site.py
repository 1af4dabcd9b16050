"""A Slurm for tests in which gateways, sbatch and slurmctld are interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.integration.engines.killed_gateways import submission
from tests.integration.engines.slurm_rig import commands_of, often
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.engine import Gateway, gateway
from warpdeck.engines.slurm.programs import Programs
from warpdeck.engines.slurm.submitting.opening import open_submissions, shared_folder
from warpdeck.engines.slurm.submitting.submissions import SlurmSubmissions
from warpdeck.model import JobId
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import EngineSubmissions

ME = Caller(Principal(user="root", uid=os.geteuid()))
SETTLE_S = 1.0
"""slurmctld of a test works on no request for longer."""
PAUSED = """#!/bin/sh
case $1 in --version) exec {real} "$@" ;; esac
echo started >{folder}/paused.$$
mv {folder}/paused.$$ {folder}/paused
{before}
{real} "$@"
code=$?
{after}
exit $code
"""


class CrashSite:
    """A Slurm, a home for gateways, and programs with the names of Slurm's commands."""

    def __init__(self, slurm: RealSlurm, home: Home) -> None:
        self.slurm = slurm
        self.home = home
        self.folder = home.path.parent
        self.commands = commands_of(slurm, self.folder)
        self.real = self.folder / "bin" / "sbatch.real"
        self.sbatch = self.folder / "bin" / "sbatch"
        self.sbatch.rename(self.real)
        self.use("", "")

    def use(self, before: str, after: str) -> None:
        """Let sbatch run these lines before and after it submits."""
        text = PAUSED.format(folder=self.folder, real=self.real, before=before, after=after)
        # A shell reads its script while it runs, so a running one keeps its own file.
        written = self.sbatch.with_suffix(".new")
        written.write_text(text)
        written.chmod(0o755)
        written.rename(self.sbatch)

    def jobs(self) -> list[str]:
        """Return the names of the jobs in the queue."""
        return sorted(self.slurm.ok("squeue", "--noheader", "-o", "%j").split())

    def count(self, name: str) -> int:
        return self.jobs().count(name)

    def signal(self, name: str) -> None:
        """Send a signal to slurmctld."""
        pid = (self.slurm.folder / "slurmctld.pid").read_text().strip()
        self.slurm.ok("kill", f"-{name}", pid)

    def is_waiting(self, program: str) -> bool:
        """Return whether the program has a connection to slurmctld."""
        return f'"{program}' in self.slurm.ok("ss", "--tcp", "--processes", "state", "established")

    def restart(self) -> None:
        """Start slurmctld, which was killed."""
        (self.slurm.folder / "slurmctld.pid").unlink(missing_ok=True)
        self.slurm.ok("sh", "-c", "setsid slurmctld -D >>slurmctld.err 2>&1 </dev/null &")
        eventually(lambda: self.slurm.run(["squeue"]).rc == 0, what="slurmctld")

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[tuple[Gateway, SlurmSubmissions]]:
        paths, settings = Paths(str(self.home.path)), often(self.home)
        async with gateway(paths, settings, clock=time.time, commands=self.commands) as made:
            found = open_submissions(
                made.cluster,
                made.poller,
                made.commands,
                made.allowance,
                made.settings,
                made.lookup,
                made.site.version,
                Programs(shared_folder(made.settings)),
            )
            found = replace(found, search=replace(found.search, settle_s=SETTLE_S))
            async with found.running():
                yield made, found

    def process(self) -> subprocess.Popen[str]:
        """Start the program whose gateways are killed."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.integration.engines.killed_gateways", str(self.home.path)],
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, process: subprocess.Popen[str], last: int, name: str, *, hold: bool = True) -> str:
        """Let a gateway submit a job and be killed at a line. Return how it ended."""
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([last, name, f"nonce of {name}", hold]) + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()


async def submit(submissions: EngineSubmissions, site: CrashSite, name: str, *, hold: bool = True) -> JobId:
    message = submission(site.folder, name, f"nonce of {name}", hold=hold)
    return JobId((await submissions.submit(ME, message)).job_id)
