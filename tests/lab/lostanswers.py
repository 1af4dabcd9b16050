"""A proxy before the controller's socket that kills the controller between what it has made and its answer.

Everything is passed on until the controller says which job it has made: that answer reaches nobody, and the controller is killed.
The next one binds its own socket in place of the proxy's.
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

ANSWERS = (b'"job_id"', b"Submitted batch job")


class LostAnswer:
    """Takes the place of the socket until it has lost one answer, and then starts the controller anew."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = Paths(str(home.path)).socket
        self._real = self._path + ".real"
        os.rename(self._path, self._real)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(16)
        self._lock = threading.Lock()
        self.lost = threading.Event()
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
                    if source is server and any(each in data for each in ANSWERS):
                        self._lose()
                        return
                    if not data:
                        return
                    other[source].sendall(data)

    def _lose(self) -> None:
        with self._lock:
            if self.lost.is_set():
                return
            self._home.kill_controller()
            self._listener.close()
            self.lost.set()
        threading.Thread(target=lambda: self._home.run("up"), daemon=True).start()
