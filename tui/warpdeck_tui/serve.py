"""Serves the app to browsers with textual-serve, on the loopback address only, protected by a token.

Each tab gets its own app. All users of a login node can reach its loopback address, and so can pages of other
sites in a browser. Therefore every path begins with the token. The token is in no command line and in no
cookie, because cookies do not distinguish ports. Requests, in particular WebSockets, are refused if they come
from another page or use another name of this machine (DNS rebinding). From another machine, forward the same
port: `ssh -L 8642:127.0.0.1:8642 HOST`.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from textual_serve.server import Server

from warpdeck.base.errors import UserError

HOST = "127.0.0.1"
TOKEN_BYTES = 32
SHUTDOWN_S = 2.0
"""Seconds to wait for open tabs at the end. Their pending requests are not awaited."""
MAX_TABS = 8
"""Largest number of open tabs. Each tab is a process of 60 MB."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " font-src 'self' data:; img-src 'self' data:; connect-src 'self' ws:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DeckServer(Server):
    """The web server. `options` are the app's own options, as on its command line."""

    def __init__(self, port: int, *, options: Sequence[str] = ()) -> None:
        command = shlex.join([sys.executable, "-m", "warpdeck.cli.main", *options])
        super().__init__(f"exec {command}", host=HOST, port=port, title="warpdeck")
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._tabs = 0

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return f"{self.public_url}/{self.token}/"

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing here: `run` prints the address once the server is listening."""

    async def run(self) -> None:
        """Serve until a signal ends the server. Raises OSError if it cannot listen."""
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port).start()
            self._say_where()
            await ended.wait()
        finally:
            await runner.cleanup()

    def _say_where(self) -> None:
        print(f"warpdeck is at {self.url}")
        print(
            f"From another machine: run ssh -L {self.port}:{HOST}:{self.port} THIS-MACHINE, then open the same address"
        )
        print("Anyone with this address can control your jobs. Press Ctrl-C to stop", flush=True)

    async def _make_app(self) -> web.Application:
        inner = await super()._make_app()
        outer = web.Application(middlewares=[self._guard])
        outer.add_subapp(f"/{self.token}", inner)
        return outer

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._is_ours(request):
            raise web.HTTPForbidden(text="403: use the address that `warpdeck serve` printed\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _is_ours(self, request: web.Request) -> bool:
        token = request.path.split("/")[1] if request.path.startswith("/") else ""
        origin = request.headers.get("Origin")
        from_us = origin == self.public_url or (origin is None and "Upgrade" not in request.headers)
        return (
            hmac.compare_digest(token.encode(), self.token.encode())
            and from_us
            and request.headers.get("Host") == f"{HOST}:{self.port}"
        )

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        if self._tabs >= MAX_TABS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_TABS} tabs are already open. Close one\n")
        self._tabs += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._tabs -= 1


def main(*, port: int, options: Sequence[str]) -> int:
    """Serve until Ctrl-C. Raises UserError."""
    try:
        asyncio.run(DeckServer(port, options=options).run())
    except OSError as error:
        raise UserError(
            f"Cannot listen on {HOST}:{port}: {error.strerror}", "Choose another --port"
        ) from error
    return 0
