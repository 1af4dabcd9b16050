"""Waits for events on file descriptors, and calls the function that handles each of them."""

from __future__ import annotations

import select
import socket
from typing import Callable, Dict


class DescriptorPoll:
    """The watched descriptors with their functions."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: Dict[int, Callable[[], object]] = {}

    def watch(self, descriptor: int, handler: Callable[[], object]) -> None:
        """Call `handler` whenever the descriptor can be read."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def wake_when_writable(self, link: socket.socket, wanted: bool) -> None:
        """Set whether `run` also returns when a watched socket can be written."""
        self._poll.modify(link, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def close(self, link: socket.socket) -> None:
        """Close a socket, and watch it no longer."""
        if self._handlers.pop(link.fileno(), None) is not None:
            self._poll.unregister(link)
        link.close()

    def run(self, timeout_s: float) -> bool:
        """Wait for events and handle them. Returns False if none occurred in time.

        A negative timeout means that there is none.
        """
        ready = self._poll.poll(timeout_s)
        for descriptor, _ in ready:
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler()
        return bool(ready)
