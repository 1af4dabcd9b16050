"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.waiting import WAIT_S, eventually_async

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)


class Tab:
    """A browser tab, and the data that it received over WebSockets."""

    def __init__(self, link: aiohttp.ClientWebSocketResponse) -> None:
        self._link = link
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.received = b""

    async def listen(self) -> None:
        """Process the messages of the browser until it closes."""
        async for message in self._link:
            message_body = message.json()
            if message_body.get("id") in self._answers:
                self._answers.pop(message_body["id"]).set_result(message_body.get("result", message_body))
            elif message_body.get("method") == "Network.webSocketFrameReceived":
                frame = message_body["params"]["response"]
                self.received += base64.b64decode(frame["payloadData"]) if frame["opcode"] == 2 else b""

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        number = next(self._numbers)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        await self._link.send_json({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(answer, WAIT_S)

    async def evaluate(self, script: str) -> object:
        """Return the value of a JavaScript expression."""
        return (await self.call("Runtime.evaluate", expression=script))["result"].get("value")

    async def receives(self, words: bytes) -> None:
        """Wait until the server has sent these bytes."""
        await eventually_async(lambda: words in self.received, what=f"{words!r} in the browser")


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    """Start a browser that uses the folder for its profile, and return its tab."""
    argv = ["/usr/bin/chromium", *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
    environ = {**os.environ, "HOME": str(folder)}
    process = await asyncio.create_subprocess_exec(*argv, env=environ, stdout=DEVNULL, stderr=DEVNULL)
    try:
        port_file = folder / "profile" / "DevToolsActivePort"
        await eventually_async(
            lambda: port_file.exists() and "\n" in port_file.read_text(), what="the browser"
        )
        origin = f"http://127.0.0.1:{port_file.read_text().split()[0]}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{origin}/json") as answer:
                page = next(each for each in await answer.json() if each["type"] == "page")
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as link:
                tab = Tab(link)
                listening = asyncio.create_task(tab.listen())
                yield tab
                listening.cancel()
                await asyncio.wait([listening])
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), WAIT_S)
