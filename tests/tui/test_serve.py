"""The app in a browser: who is let in, and that a tab has the app."""

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
    """`warpdeck serve` as a process: its origin, and the secret in its address."""

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
    """One that the kernel gives to nobody in the moment until it is listened on: below those that it gives away itself."""
    for port in range(10_000 + os.getpid() % 10_000, 30_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Site(NamedTuple):
    """The server, and a visitor who sends what browsers send."""

    served: Served
    visitor: aiohttp.ClientSession

    async def status(self, path: str, **headers: str) -> int:
        async with self.visitor.get(
            URL(f"{self.served.origin}{path}", encoded=True), headers=headers
        ) as answer:
            return answer.status

    async def shakes_hands(self, path: str, **headers: str) -> int:
        """The status with which a WebSocket is refused; 101 if it is not."""
        try:
            async with self.visitor.ws_connect(f"{self.served.origin}{path}", headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


@pytest.fixture
async def site(served: Served) -> AsyncIterator[Site]:
    async with aiohttp.ClientSession() as visitor:
        yield Site(served, visitor)


async def test_without_the_token_nobody_is_let_in(site: Site) -> None:
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


async def test_pages_of_others_are_not_let_in_though_they_had_the_token(site: Site) -> None:
    path, own = f"/{site.served.token}/", site.served.origin
    assert await site.status(path, Origin=own) == 200
    assert await site.status(path, Origin="http://evil.example") == 403
    assert await site.status(path, Origin="null") == 403
    assert await site.status(path, Host=site.served.origin.replace("http://127.0.0.1", "evil.example")) == 403


async def test_the_websocket_wants_token_and_origin(site: Site) -> None:
    path, own = f"/{site.served.token}/ws", site.served.origin
    assert await site.shakes_hands(path) == 403
    assert await site.shakes_hands(path, Origin="http://evil.example") == 403
    assert await site.shakes_hands("/ws", Origin=own) == 403
    assert await site.shakes_hands(path, Origin=own) == 101


async def test_nothing_of_a_page_comes_from_elsewhere(site: Site) -> None:
    async with site.visitor.get(f"{site.served.origin}/{site.served.token}/") as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert site.served.token not in str(answer.cookies)


async def test_a_tab_has_the_app_and_keys(site: Site) -> None:
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
            await shows(b"warpdeck  jobs of")
            await tab.send_json(["stdin", "?"])
            await shows(b"My jobs or all")


@pytest.mark.chromium
async def test_a_real_browser_shows_it_and_types(served: Served, short_tmp: Path) -> None:
    """With the policy that forbids scripts of others, and the origin that browsers send."""
    async with chromium(short_tmp) as tab:
        await tab.call("Network.enable")
        await tab.call("Page.navigate", url=f"{served.origin}/{served.token}/")
        await tab.gets(b"warpdeck  jobs of")
        await tab.says("document.querySelector('.xterm-helper-textarea').focus()")
        await tab.call("Input.dispatchKeyEvent", type="keyDown", key="?", text="?")
        await tab.gets(b"My jobs or all")
        assert "-first-byte" in str(await tab.says("document.body.className"))


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_that_is_none_is_one_sentence(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", port]) == 2
    assert port in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
