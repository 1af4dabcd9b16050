"""Children that act as a user: their output counts, however soon they end."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from warpdeck_agent.users.user_children import UserChild, UserChildren


class SlowPool(ThreadPoolExecutor):
    """Threads whose results arrive only after the child has ended."""

    def submit(self, fn: Any, /, *args: Any, **fields: Any) -> Future[Any]:
        def start() -> Any:
            process, link = fn(*args, **fields)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            return process, link

        return super().submit(start)


async def test_a_child_that_ends_before_it_is_read_has_its_output() -> None:
    with SlowPool(1) as pool:
        child = UserChild(argv=["/bin/sh", "-c", "echo printed"], env={}, limit_s=60.0, most_bytes=100)
        assert await UserChildren(pool).run(child, uid=os.getuid()) == b"printed\n"
