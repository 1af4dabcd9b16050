"""The part of a controller connection that handles steps and calls."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine, Dict, Optional

from warpdeck_agent.attach.job_access import JobCall
from warpdeck_agent.launch.launch import LocalStep
from warpdeck_agent.linux.file_reading import LogError
from warpdeck_agent.steps.step_registry import StepRegistry
from warpdeck_agent.steps.step_streams import StepInput, StepOutput
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.wire.steps import (
    CALL_WINDOW_BYTES,
    ForgetStep,
    OpenStep,
    PortReserved,
    ReservePort,
    StepFenced,
    StepKill,
    StepLaunch,
)


class StepSession:
    """Steps and calls on one connection. It implements `job_access.CallLink`.

    `make_out` makes an OutStream for a stream id and a window in bytes. `drop_out` removes it.
    """

    def __init__(
        self,
        steps: StepRegistry,
        ports: Ports,
        tell: Callable[[Any], None],
        *,
        make_out: Callable[[int, int], OutStream],
        drop_out: Callable[[int], None],
    ) -> None:
        self._steps = steps
        self._ports = ports
        self.tell = tell
        self._make_out = make_out
        self._drop_out = drop_out
        self.calls: Dict[int, JobCall] = {}
        self._inputs: Dict[int, StepInput] = {}
        self._handlers: Dict[type, Callable[[Any], None]] = {
            StepLaunch: steps.start,
            StepKill: steps.kill,
            ForgetStep: steps.forget,
            StepFenced: steps.fenced,
            ReservePort: self._reserve_port,
        }

    def handle(self, message: Any) -> bool:
        """Handle a message if it is about steps. Returns whether it is."""
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(message)
        return handler is not None

    def _reserve_port(self, request: ReservePort) -> None:
        port = self._ports.reserve((request.job_id, request.restarts))
        self.tell(PortReserved(ask=request.ask, port=port))

    def handle_data(self, stream: int, data: bytes) -> bool:
        """Pass data on if its stream belongs to a step or a call. Returns whether it does."""
        if stream in self._inputs:
            self._inputs[stream].feed(data)
        elif stream in self.calls:
            self.calls[stream].feed(data)
        else:
            return False
        return True

    def close_call(self, stream: int) -> bool:
        """Close the call `stream` at the controller's request. Returns whether there is one."""
        call = self.calls.get(stream)
        if call is not None:
            call.close()
        return call is not None

    def end_call(self, stream: int) -> None:
        """Remove a call that has ended."""
        if self.calls.pop(stream, None) is not None:
            self._drop_out(stream)

    def open_call(self, stream: int, writer: asyncio.StreamWriter) -> JobCall:
        """Add a new call on this link."""
        call = self.calls[stream] = JobCall(self._make_out(stream, CALL_WINDOW_BYTES), writer, self.tell)
        return call

    def join_step(self, request: OpenStep, out: OutStream) -> Coroutine[Any, Any, None]:
        """Connect the stream of a step in both directions.

        Input for the step is accepted from now on. The returned coroutine sends the step's output, and raises
        LogError if the step is not on this node.
        """
        step = self._steps.get(request.job_id, request.restarts, request.step)
        if step is not None:
            self._inputs[request.stream] = StepInput(step, request.stream, self.tell)
        return self._relay(request, step, out)

    async def _relay(self, request: OpenStep, step: Optional[LocalStep], out: OutStream) -> None:
        if step is None:
            raise LogError("the step no longer exists on this node")
        reading: Optional[asyncio.Task[None]] = None
        try:
            await step.progress.started.wait()  # before that, not all tasks and files exist
            reading = asyncio.get_running_loop().create_task(self._inputs[request.stream].run())
            await StepOutput(step, out, request).run(self.tell)
        finally:
            if reading is not None:
                reading.cancel()
            del self._inputs[request.stream]

    def close(self) -> None:
        """Close all calls, because the link has ended."""
        for call in self.calls.values():
            call.close()
        self.calls.clear()
