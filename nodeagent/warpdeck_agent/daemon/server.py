"""The agent: all services on the node behind one Unix socket, which serves one controller at a time.

A newer connection replaces an older one. `controller_session` handles the messages on a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import time
import traceback
from typing import Any, Awaitable, Callable, Dict, Optional

from warpdeck_agent.attach.inside_job import ProcessStarter
from warpdeck_agent.attach.job_access import JobAccess
from warpdeck_agent.code.trees import TreeStore, Upload
from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.gpu.gpus import SILENT, GpuReader, GpuWatch
from warpdeck_agent.health.inventory import take_inventory
from warpdeck_agent.linux.linger import describe_session
from warpdeck_agent.monitor.node_monitor import NodeMonitor
from warpdeck_agent.registry.launch_registry import LaunchRegistry
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.users import job_programs, login_path
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.messages import Key
from warpdeck_agent.wire.past_launches import format_past
from warpdeck_agent.wire.steps import StepReport

from .controller_session import ControllerSession
from .idle_end import IdleEnd
from .obeyed_controller import ObeyedController
from .step_session import StepSession

CLEAN_S = 600.0
"""Interval in seconds between cleanups of the folders of forgotten jobs."""
PROBE_S = 5.0
"""If the probe of a submit folder takes longer than this, in seconds, the folder counts as hanging. The
controller waits twice as long for the answer.
"""
RETRY_S = 1.0
"""Delay in seconds before a background task is restarted after a bug."""
CLOSE_S = 1.0
"""How long connections may take to close when the agent ends, in seconds."""


class Agent:
    """All services on the node, behind one socket."""

    def __init__(self, folder: str, build: str) -> None:
        self._spool = Spool(folder)
        self._build = build
        self.controller = ObeyedController(self._spool)
        self._trees = TreeStore(self._spool.path)
        gpus = GpuWatch(GpuReader(lambda: self.jobs.launches.job_tags()))
        self.jobs = LaunchRegistry(
            self._spool, self._trees, self._tell, gpus=gpus, show_gpus=lambda read: self.monitor.show(read)
        )
        self.monitor = NodeMonitor(self._spool, self.jobs, gpus, self._tell)
        self.folders = FolderChecks(answer_s=PROBE_S)
        self.process_starter = ProcessStarter(self._spool)
        self._access = JobAccess(self._spool, self.jobs.find_begun, self._call_link)
        self.idle_end = IdleEnd(self._has_jobs)
        self._session: Optional[ControllerSession] = None
        self._connections: Dict[asyncio.Task[Any], ControllerSession] = {}
        self._stop = asyncio.Event()
        self._welcomed_without_gpus = False
        self._waiting_for_tree: Dict[str, Dict[Key, wire.Launch]] = {}
        self._last_start = wire.ControllerStart()

    async def run(self) -> None:
        """Serve until a Quit message or a signal. Jobs continue afterwards."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await self.jobs.adopt()
        job_programs.install(self._spool.path)
        login_path.install(self._spool.path, uid=os.geteuid())
        folder = os.open(self._spool.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        address = f"/proc/self/fd/{folder}/agent.sock"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)
        old = os.umask(0o077)
        try:
            server = await asyncio.start_unix_server(self._serve, address)
        finally:
            os.umask(old)
        await self._access.start()
        background = [
            loop.create_task(_restart_on_error(work))
            for work in (self._clean_regularly, self.monitor.run, self._tell_late_gpus, self._end_idle)
        ]
        await self._stop.wait()
        await self.jobs.control.finish_kills()
        server.close()
        self._access.close()
        for task in background:
            task.cancel()
        self.jobs.close()
        for session in self._connections.values():
            session.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=CLOSE_S)

    def _has_jobs(self) -> bool:
        return any(True for _ in self.jobs.launches) or self.jobs.queue.any_is_under_way

    async def _end_idle(self) -> None:
        await self.idle_end.wait()
        print("the controller was stopped and no job is here: the agent ends", flush=True)
        self.quit()

    def quit(self) -> None:
        self._stop.set()

    async def welcome(self, *, with_past: bool = False) -> wire.Welcome:
        """Return the first message to a new controller, with the list of forgotten launches if it wants them."""
        gpus, gpu_error = await self.monitor.discover()
        self._welcomed_without_gpus = gpu_error == SILENT
        containment = f"{self.jobs.node.containment.summary}; the agent runs in {describe_session()}"
        inventory = take_inventory(
            gpus,
            driver=self.monitor.driver,
            gpu_error=gpu_error,
            containment=containment,
            facilities=self.jobs.node.containment.facilities,
        )
        return wire.Welcome(
            build=self._build,
            inventory=inventory,
            jobs=self.jobs.launches.reports(),
            steps=self.jobs.steps.reports(),
            starting=[list(key) for key in self.jobs.queue.under_way],
            past=format_past(self.jobs.forgetting.past.proofs()) if with_past else "",
            pid=os.getpid(),
            user=_own_name(),
        )

    def launch(self, request: wire.Launch) -> None:
        """Start a launch, or ask for its code first."""
        tree = request.tree
        if tree is not None and not self._trees.has(tree.sha256):
            known = self.jobs.launches.find(request.job_id, request.restarts)
            if known is None:
                waiting = self._waiting_for_tree.setdefault(tree.sha256, {})
                waiting[request.job_id, request.restarts] = request
                if len(waiting) == 1:  # The tasks of an array share one tree, so it is requested once.
                    self._tell(
                        wire.NeedTree(job_id=request.job_id, restarts=request.restarts, tree=tree.sha256)
                    )
                return
        self.jobs.queue.start(request)

    def tree_arrived(self, sha256: str, error: str) -> None:
        """Start all launches that waited for this tree, or refuse them if the upload failed with `error`."""
        for request in self._waiting_for_tree.pop(sha256, {}).values():
            if error:
                self._tell(wire.LaunchFailed(job_id=request.job_id, restarts=request.restarts, message=error))
            else:
                self.jobs.queue.start(request)

    def upload(self, put: wire.PutTree) -> Upload:
        return Upload(self._trees, put.sha256, put.size_bytes)

    def _call_link(self) -> Optional[StepSession]:
        return None if self._session is None else self._session.steps

    def _tell(self, message: Any) -> None:
        if isinstance(message, (wire.LaunchFailed, StepReport)) and message.check:
            self.monitor.health.discard_node_checks()
        if self._session is not None:
            self._session.tell(message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = ControllerSession(self, reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = session
        try:
            await session.run(self._take_over)
        finally:
            del self._connections[task]
            if self._session is session:
                self._session = None
            session.close()

    def end_replaced(self, start: wire.ControllerStart) -> None:
        """End the connection of another start of the controller, because the agent obeys `start` from now on."""
        if self._session is not None and self._session.start != start:
            self._session.close()
            self._session = None

    def _take_over(self, session: ControllerSession) -> None:
        if self._session is not None:
            self._session.close()
        self._session = session
        self.idle_end.controller_came()
        self._waiting_for_tree.clear()  # The new controller sends its launches again.
        if session.start != self._last_start:
            self._last_start = session.start
            self.jobs.queue.drop_prefetched()

    async def _tell_late_gpus(self) -> None:
        """Send a new Welcome to a controller that connected while the GPU driver was still starting."""
        await self.monitor.wait_for_gpus()
        if self._welcomed_without_gpus:
            self._tell(await self.welcome())

    async def _clean_regularly(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_S)
            self.jobs.forgetting.clean()
            self._trees.clean(self.jobs.queue.trees_in_use(), now_unix=time.time())


async def _restart_on_error(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` to its end. If it fails because of a bug, log the error and start it again."""
    while True:
        try:
            return await work()
        except Exception:
            traceback.print_exc()
        await asyncio.sleep(RETRY_S)


def _own_name() -> str:
    """Return our user's name, or the user id if the account is not listed (in containers)."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
