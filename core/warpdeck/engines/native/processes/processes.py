"""Commands that clients run: jobs of one command, sessions with a terminal, steps and allocations."""

from __future__ import annotations

from warpdeck.ports.caller import ClientIdentity
from warpdeck.ports.engine import Progress
from warpdeck.ports.engine_streams import CommandText, EndedStep
from warpdeck.protocol import requests as ask
from warpdeck.protocol.results import OpenedJob

from .allocations import Allocations, HeldAllocation
from .runs import Runs, StartedRun
from .sessions import Sessions
from .step_requests import StepRequests
from .step_streams import StepStreams


class NativeProcesses:
    """The `EngineProcesses` of the controller."""

    def __init__(self, runs: Runs, sessions: Sessions, steps: StepRequests, allocations: Allocations) -> None:
        self._runs = runs
        self._sessions = sessions
        self._steps = steps
        self._allocations = allocations
        self.leases = allocations.leases

    async def run(self, client: ClientIdentity, message: ask.Run) -> StartedRun:
        return await self._runs.run(client.who, message)

    async def session(self, client: ClientIdentity, message: ask.Session) -> OpenedJob:
        return await self._sessions.open(client, message)

    async def srun(
        self, client: ClientIdentity, message: ask.Srun, progress: Progress
    ) -> StepStreams | CommandText | EndedStep:
        return await self._steps.srun(client, message, progress)

    async def srun_attach(self, client: ClientIdentity, message: ask.SrunAttach) -> StepStreams:
        return self._steps.attach(client, message)

    async def salloc(self, client: ClientIdentity, message: ask.Salloc, progress: Progress) -> HeldAllocation:
        return await self._allocations.allocate(client, message, progress)

    async def salloc_attach(self, client: ClientIdentity, message: ask.SallocAttach) -> HeldAllocation:
        return self._allocations.attach(client, message)

    def start(self) -> None:
        self.leases.start()

    def stop(self) -> None:
        self.leases.stop()
