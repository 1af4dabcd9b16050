"""Handlers that only pass a request to a method of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from warpdeck.ports.caller import Caller

from .connection import Connection, Handler

Method = Callable[[Caller, Any], Awaitable[Any]]
"""A method of the engine that answers a request."""


def direct(method: Method) -> Handler:
    """Return a handler that answers with the result of a method of the engine."""

    async def answer(connection: Connection, message: Any) -> Any:
        return await method(connection.caller, message)

    return answer
