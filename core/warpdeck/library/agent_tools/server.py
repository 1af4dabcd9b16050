"""The server of the tools, over standard input and output (Model Context Protocol)."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from warpdeck._version import __version__
from warpdeck.base.errors import UserError
from warpdeck.library.asyncclient import AsyncClient

from .tools import AgentTools

P = ParamSpec("P")
T = TypeVar("T")
INSTRUCTIONS = """\
warpdeck runs jobs on a cluster of GPU machines. Call `plan` before `submit`: it tells when a job would start and the GPU-hours that
it uses at most. Options are those of Slurm's sbatch with _ for -, such as {"gpus": 2, "time": "4:00:00", "array": "0-9"}; always give
a time. `submit` takes a snapshot of the code in the folder, so later edits do not change the job. `wait` returns after at most ten
minutes; ask again. You can cancel only jobs that you have submitted."""
READS = ToolAnnotations(read_only_hint=True)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False)
DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True)
EFFECTS = {
    "plan": READS, "submit": CHANGES, "jobs": READS, "job": READS, "wait": READS, "logs": READS, "metrics": READS,
    "diff": READS, "cancel": DESTROYS, "nodes": READS,
}  # fmt: skip
"""Tool -> whether it only reads."""


def serve(agent: str) -> None:
    """Serve the tools of an agent until standard input ends."""
    deck = AsyncClient()

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await deck.aclose()

    server = MCPServer(
        "warpdeck", version=__version__, instructions=INSTRUCTIONS, lifespan=lifespan, log_level="WARNING"
    )
    tools = AgentTools(deck, agent)
    for name, effect in EFFECTS.items():
        method: Callable[..., Awaitable[Any]] = getattr(tools, name)
        server.add_tool(_told(method), name=name, annotations=effect)
    server.run()


def _told(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return the method with errors that the model can read."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except UserError as error:
            raise ToolError(f"{error.message}\n{error.hint}".rstrip()) from error

    return call
