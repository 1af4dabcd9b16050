"""A proxy in front of a socket of the controller that withholds answers, by default those that report a
created object.

The proxy passes everything on until the controller sends such an answer. When enough answers are withheld,
the test has the controller killed and restarted. The new controller binds its own socket in the place of the
proxy's; for another path, a link to the socket behind the proxy takes its place.
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

CREATION_ANSWERS = (b'"job_id"', b"Submitted batch job", b"Reservation created")
GREETINGS = (b'"welcome"',)


class AnswerDroppingProxy:
    """Takes the place of the socket until the answers are dropped."""

    def __init__(
        self, home: Home, *, path: str = "", real: str = "", answers: tuple[bytes, ...] = CREATION_ANSWERS
    ) -> None:
        """Start a proxy.

        `path` is the socket for clients, by default the controller's. `real` is the socket to which they are
        passed on. `answers` are pieces of the answers to withhold.
        """
        self._home = home
        self._answers = answers
        controller_socket = Paths(str(home.path)).socket
        self._path, self._real = path or controller_socket, real or controller_socket + ".real"
        self._is_controllers = not path
        if self._is_controllers:
            os.rename(self._path, self._real)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(16)
        self._lost = threading.Event()
        self._held: list[bytes] = []
        self.armed = threading.Event()
        """Set while answers are withheld."""
        self.armed.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for_held_answers(self, answers: int = 1) -> None:
        """Wait until this many answers are withheld."""
        eventually(lambda: len(self._held) >= answers, what=f"{answers} answers are withheld")

    def drop_answers_and_restart(self) -> None:
        """Kill the controller and start a new one."""
        self._home.kill_controller()
        # Otherwise accept would continue, and a client would wait in vain.
        self._listener.shutdown(socket.SHUT_RDWR)
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
