"""A proxy before a socket of the controller's that kills the controller between what it has made and its answers.

Everything is passed on until the controller says what it has made: that answer reaches nobody, and after so many the controller
is killed.
The next one binds its own socket in place of the proxy's; at another path a link to the socket behind the proxy takes its place.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading

from tests.home import Home
from warpdeck.paths import Paths
from warpdeck_agent.client.access import connect_path

ANSWERS = (b'"job_id"', b"Submitted batch job", b"Reservation created")
GIVES_UP_S = 60.0
"""How long an answer is held back for the others that are to be lost with it."""


class LostAnswer:
    """Takes the place of the socket until it has lost its answers, and then starts the controller anew."""

    def __init__(self, home: Home, *, answers: int = 1, path: str = "", real: str = "") -> None:
        """`answers`: how many connections lose theirs; `path`: where clients come in place of the controller's socket; `real`: where they are passed on to."""
        self._home = home
        self._left = answers
        own = Paths(str(home.path)).socket
        self._path, self._real = path or own, real or own + ".real"
        self._is_controllers = not path
        if self._is_controllers:
            os.rename(self._path, self._real)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(16)
        self._lock = threading.Lock()
        self.lost = threading.Event()
        self.armed = threading.Event()
        """Answers are lost from here on."""
        self.armed.set()
        threading.Thread(target=self._accept, daemon=True).start()

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
            while not self.lost.is_set():
                for source in select.select([client, server], [], [], 1.0)[0]:
                    data = source.recv(1 << 18)
                    is_answer = source is server and any(each in data for each in ANSWERS)
                    if is_answer and self.armed.is_set():
                        self._lose()
                        self.lost.wait(GIVES_UP_S)
                        return
                    if not data:
                        return
                    other[source].sendall(data)

    def _lose(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
            self._home.kill_controller()
            self._listener.close()
            if not self._is_controllers:
                os.unlink(self._path)
                os.symlink(self._real, self._path)
            self.lost.set()
        threading.Thread(target=lambda: self._home.run("up"), daemon=True).start()
