"""The agent's link to the supervisor.

It starts a supervisor if none runs, sends orders, and receives the starts and ends of launches. There is one
link at a time, and it lasts as long as the agent. If it breaks, the supervisor was killed. The launches that
it watched continue without it, and another supervisor is started for new launches.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any, Callable, Dict, List, Optional

from warpdeck_agent.linux.own_program import own_command
from warpdeck_agent.storage.launch_table import Key
from warpdeck_agent.wire.jsontext import dumps, loads

from .starter import LaunchOrder

START_S = 15.0
"""How long a supervisor may take to answer, in seconds."""
RETRY_S, LONGEST_RETRY_S = 0.01, 1.0
"""Shortest and longest pause between attempts to connect to a starting supervisor. The pause doubles after
each supervisor that exits without an answer.
"""
LINE_BYTES = 1 << 20
"""The longest line from the supervisor. Its lines are short, except the first, which has three numbers for
each launch.
"""


class SupervisorLost(Exception):
    """The supervisor was killed, or cannot be started."""


class SupervisorConnection(asyncio.Protocol):
    """The lines from the supervisor, handled as they arrive without waking a task.

    `first` resolves to the first line. Later lines are buffered until `listen` is called.
    """

    def __init__(self) -> None:
        self.first: asyncio.Future[Dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._transport: Optional[asyncio.Transport] = None
        self._received = b""
        self._kept: List[Dict[str, Any]] = []
        self._take: Optional[Callable[[Dict[str, Any]], None]] = None
        self._on_loss: Optional[Callable[[], None]] = None
        self._is_lost = False

    def listen(self, take: Callable[[Dict[str, Any]], None], on_loss: Callable[[], None]) -> None:
        """Pass all lines after the first to `take`.

        `on_loss` is called once, when the connection has ended.
        """
        self._take, self._on_loss = take, on_loss
        kept, self._kept = self._kept, []
        for message in kept:
            take(message)
        if self._is_lost:
            on_loss()

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            message = loads(line.decode())
            if self._take is not None:
                self._take(message)
            elif self.first.done():
                self._kept.append(message)
            else:
                self.first.set_result(message)
        if len(self._received) > LINE_BYTES:
            self.close()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._is_lost = True
        if not self.first.done():
            self.first.set_exception(ConnectionResetError("the supervisor is exiting"))
        elif self._on_loss is not None:
            self._on_loss()


class Supervision:
    """The connection to the supervisor.

    `on_end` gets each launch when its first process has ended. `on_loss` is called when a supervisor was lost.
    """

    def __init__(
        self, folder: str, *, on_end: Callable[[Key, Dict[str, Any]], None], on_loss: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._on_end = on_end
        self._on_loss = on_loss
        self._link: Optional[SupervisorConnection] = None
        self._starting: Dict[Key, asyncio.Future[int]] = {}
        self._opening = asyncio.Lock()
        self.pid = 0
        """Pid of the connected supervisor, 0 if none."""
        self._process: Optional[subprocess.Popen[bytes]] = None

    async def join(self) -> Dict[Key, int]:
        """Return the launches that a supervisor of an earlier agent still watches, as pids by key.

        Empty if none runs.
        """
        try:
            return await self._connect()
        except OSError:
            return {}

    async def prepare(self) -> None:
        """Start a supervisor unless one runs. Raises SupervisorLost."""
        async with self._opening:
            if self._link is None:
                await self._start()

    async def start(self, order: LaunchOrder) -> int:
        """Start a launch and return the pid of its first process.

        Raises SupervisorLost, in which case the process may or may not run. Raises OSError if the node has no
        resources for another process.
        """
        await self.prepare()
        key = (order.job_id, order.restarts)
        started = self._starting[key] = asyncio.get_running_loop().create_future()
        try:
            assert self._link is not None
            self._link.write(dumps(order._asdict()).encode("utf-8", "surrogatepass") + b"\n")
            return int(await started)
        finally:
            del self._starting[key]

    async def _start(self) -> None:
        deadline = asyncio.get_running_loop().time() + START_S
        pause_s = RETRY_S / 2
        while True:
            if self._process is None or self._process.poll() is not None:
                self._run()  # started again if an exiting supervisor held the lock
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)
            try:
                await self._connect()
                return
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise SupervisorLost(
                        "the supervisor of jobs does not start; see agent.log in the agent's folder"
                    ) from error
            await asyncio.sleep(pause_s)

    def _run(self) -> None:
        """Start a supervisor process. It exits by itself, after this agent or after its last job."""
        self._process = subprocess.Popen(
            [*own_command(), "supervise", "--dir", self._folder],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    async def _connect(self) -> Dict[Key, int]:
        loop = asyncio.get_running_loop()
        descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _, link = await loop.create_unix_connection(
                SupervisorConnection, f"/proc/self/fd/{descriptor}/supervisor.sock"
            )
        finally:
            os.close(descriptor)
        first = await link.first
        self._link = link
        self.pid = int(first.get("pid", 0))
        # called after our caller has recorded the launches
        loop.call_soon(link.listen, self._take, self._lost)
        return {(job, restarts): pid for job, restarts, pid in first["launches"]}

    def _take(self, message: Dict[str, Any]) -> None:
        key = (message["job"], message["restarts"])
        if message["is"] == "ended":
            self._on_end(key, message)
        elif key in self._starting and not self._starting[key].done():
            number = message.get("errno", 0)
            if number:
                self._starting[key].set_exception(OSError(number, os.strerror(number)))
            else:
                self._starting[key].set_result(message["pid"])

    def _lost(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
        self.pid = 0
        if self._process is not None:
            self._process.poll()
        for waiting in list(self._starting.values()):
            if not waiting.done():
                waiting.set_exception(SupervisorLost("the supervisor of jobs was killed"))
        self._on_loss()
