"""The app in a browser: access control, and the app in a tab."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from yarl import URL

from tests.support.home import Home
from tests.support.waiting import WAIT_S
from tests.tui.browser import chromium
from warpdeck.cli.main import main


class Served(NamedTuple):
    """A process of `warpdeck serve` with its origin and the secret in its address."""

    origin: str
    token: str


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        home = Home(Path(folder) / "home", HOME=folder, XDG_CONFIG_HOME=f"{folder}/config")
        home.ok("up", "--no-local-node")
        argv = [sys.executable, "-m", "warpdeck.cli.main", "serve", "--port", str(free_port())]
        with subprocess.Popen(argv, env=home.environ, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            origin, _, token = address.rstrip("/").rpartition("/")
            yield Served(origin, token)
            process.terminate()
            process.communicate(timeout=WAIT_S)
        home.close()


def free_port() -> int:
    """Return a free port below those that the kernel assigns itself, so that it stays free until the server listens."""
    for port in range(10_000 + os.getpid() % 10_000, 30_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Site(NamedTuple):
    """The server, and a client that sends the headers of a browser."""

    served: Served
    visitor: aiohttp.ClientSession

    async def status(self, path: str, **headers: str) -> int:
        async with self.visitor.get(
            URL(f"{self.served.origin}{path}", encoded=True), headers=headers
        ) as answer:
            return answer.status

    async def websocket_status(self, path: str, **headers: str) -> int:
        """Return the status of a refused WebSocket, or 101 if it is accepted."""
        try:
            async with self.visitor.ws_connect(f"{self.served.origin}{path}", headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


@pytest.fixture
async def site(served: Served) -> AsyncIterator[Site]:
    async with aiohttp.ClientSession() as visitor:
        yield Site(served, visitor)


async def test_requests_without_the_token_are_refused(site: Site) -> None:
    token = site.served.token
    assert await site.status(f"/{token}/") == 200
    assert await site.status(f"/{token}/static/js/textual.js") == 200
    for path in (
        "/",
        "/ws",
        "/static/js/textual.js",
        f"/{token[:-1]}/",
        f"/{token}x/",
        "/%2e/",
        f"//{token}/",
    ):
        assert await site.status(path) == 403, path


async def test_requests_of_other_origins_are_refused_even_with_the_token(site: Site) -> None:
    path, own = f"/{site.served.token}/", site.served.origin
    assert await site.status(path, Origin=own) == 200
    assert await site.status(path, Origin="http://evil.example") == 403
    assert await site.status(path, Origin="null") == 403
    assert await site.status(path, Host=site.served.origin.replace("http://127.0.0.1", "evil.example")) == 403


async def test_the_websocket_requires_token_and_origin(site: Site) -> None:
    path, own = f"/{site.served.token}/ws", site.served.origin
    assert await site.websocket_status(path) == 403
    assert await site.websocket_status(path, Origin="http://evil.example") == 403
    assert await site.websocket_status("/ws", Origin=own) == 403
    assert await site.websocket_status(path, Origin=own) == 101


async def test_the_page_loads_nothing_from_other_origins(site: Site) -> None:
    async with site.visitor.get(f"{site.served.origin}/{site.served.token}/") as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert site.served.token not in str(answer.cookies)


async def test_a_tab_shows_the_app_and_sends_keys(site: Site) -> None:
    address = f"{site.served.origin}/{site.served.token}/ws?width=100&height=30"
    async with site.visitor.ws_connect(address, headers={"Origin": site.served.origin}) as tab:
        shown = b""

        async def shows(words: bytes) -> None:
            nonlocal shown
            while words not in shown:
                message = await tab.receive()
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), shown
                shown += message.data if isinstance(message.data, bytes) else b""
            shown = b""

        async with asyncio.timeout(WAIT_S):
            await shows(b" jobs of ")
            await tab.send_json(["stdin", "?"])
            await shows(b"Key latency")


@pytest.mark.chromium
async def test_a_real_browser_shows_the_app_and_sends_keys(served: Served, short_tmp: Path) -> None:
    """The browser applies the content security policy and sends its origin."""
    async with chromium(short_tmp) as tab:
        await tab.call("Network.enable")
        await tab.call("Page.navigate", url=f"{served.origin}/{served.token}/")
        await tab.receives(b" jobs of ")
        await tab.evaluate("document.querySelector('.xterm-helper-textarea').focus()")
        await tab.call("Input.dispatchKeyEvent", type="keyDown", key="?", text="?")
        await tab.receives(b"Key latency")
        assert "-first-byte" in str(await tab.evaluate("document.body.className"))


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_an_invalid_port_gives_one_message(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", port]) == 2
    assert port in capsys.readouterr().err


def test_a_port_in_use_gives_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
