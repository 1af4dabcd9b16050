"""A proxy before a socket of the controller's that loses answers, by default those that tell what was made.

Everything is passed on until the controller gives such an answer: that reaches nobody. When so many answers are held back the test
has the controller killed and started anew: that one binds its own socket in place of the proxy's; at another path a link to the
socket behind the proxy takes its place.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading

from tests.support.home import Home
from tests.support.waiting import eventually
from warpdeck.base.paths import Paths
from warpdeck_agent.client.access import connect_path

MADE = (b'"job_id"', b"Submitted batch job", b"Reservation created")
GREETINGS = (b'"welcome"',)


class LostAnswers:
    """Takes the place of the socket until its answers are lost."""

    def __init__(
        self, home: Home, *, path: str = "", real: str = "", answers: tuple[bytes, ...] = MADE
    ) -> None:
        """`path`: where clients come in place of the controller's socket; `real`: where they are passed on to. `answers`: words of
        those that are lost."""
        self._home = home
        self._answers = answers
        own = Paths(str(home.path)).socket
        self._path, self._real = path or own, real or own + ".real"
        self._is_controllers = not path
        if self._is_controllers:
            os.rename(self._path, self._real)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(16)
        self._lost = threading.Event()
        self._held: list[bytes] = []
        self.armed = threading.Event()
        """Answers are held back from here on."""
        self.armed.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, answers: int = 1) -> None:
        """Until so many answers are held back."""
        eventually(lambda: len(self._held) >= answers, what=f"{answers} answers are held back")

    def lose(self) -> None:
        """Kills the controller, and starts it anew."""
        self._home.kill_controller()
        self._listener.shutdown(socket.SHUT_RDWR)  # or accept goes on, and a client comes to nobody
        self._listener.close()
        if not self._is_controllers:
            os.unlink(self._path)
            os.symlink(self._real, self._path)
        self._lost.set()
        self._home.ok("up")

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, contextlib.closing(connect_path(self._real)) as server:
            other = {client: server, server: client}
            while not self._lost.is_set():
                for source in select.select([client, server], [], [], 1.0)[0]:
                    data = source.recv(1 << 18)
                    is_answer = source is server and any(each in data for each in self._answers)
                    if is_answer and self.armed.is_set():
                        self._held.append(data)
                        self._lost.wait()
                        return
                    if not data:
                        return
                    other[source].sendall(data)
