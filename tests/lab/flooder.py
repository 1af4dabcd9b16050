"""python flooder.py FOLDER BUILD KIND: replace a node's agent and send one message repeatedly, as fast as it
is read.

The program listens in FOLDER before the agent does, greets each client and then floods it. With the kind
"welcome" it greets with many invented jobs instead, and with "deaf" it reads nothing.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire
from warpdeck_agent.wire.frames import JSON, FrameDecoder, data_frame, json_frame
from warpdeck_agent.wire.messages import encode

GIB = 1 << 30
WRITE_BYTES = 64 * 1024
CPUS, INVENTED = 2000, 120_000
KINDS = {
    "reports": wire.JobReport(job_id=10**6, restarts=0, phase="exited"),
    "strays": wire.JobReport(job_id=10**6, restarts=0, phase="running"),
    "long reports": wire.JobReport(job_id=10**6, restarts=0, phase="exited", message="x" * 100_000),
    "samples": wire.Sample(at_unix=1.0, cpu_pct=3.0, mem_used_bytes=GIB),
    "remarks": wire.Remark(job_id=1, restarts=0, text="again"),
    "steps": stepwire.StepReport(job_id=1, restarts=0, step=0, phase="exited"),
    "calls": stepwire.CallOpened(stream=2**30, job_id=1, restarts=0),
}


def wait_for_end(link: socket.socket) -> bool:
    """Return whether the link is still open after a while. Received data stay unread."""
    poll = select.poll()
    poll.register(link, select.POLLRDHUP | select.POLLHUP)
    return not poll.poll(100)


def flood(link: socket.socket, build: str, kind: str) -> None:
    """Flood the link. Raise OSError when it is closed."""
    decoder = FrameDecoder()
    greeted = False
    while not greeted:
        data = link.recv(65536)
        if not data:
            return  # The client only checks whether an agent answers.
        greeted = any(frame == JSON for frame, _ in decoder.feed(data))
    inventory = wire.Inventory(
        hostname=socket.gethostname(), boot_id="flood", cpus=CPUS, mem_bytes=GIB, containment="none"
    )
    welcome = encode(wire.Welcome(build=build, inventory=inventory, user="root"))
    if kind == "welcome":
        welcome["jobs"] = [
            {"job_id": 10**6 + at, "restarts": 0, "phase": "running"} for at in range(INVENTED)
        ]
    link.sendall(json_frame(welcome))
    while kind in ("deaf", "welcome"):
        if not wait_for_end(link):
            return
    piece = data_frame(7, b"x") if kind == "data" else json_frame(encode(KINDS[kind]))
    piece *= max(1, WRITE_BYTES // len(piece))
    while True:
        link.sendall(piece)


def main() -> None:
    folder, build, kind = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(folder, "agent.sock"))
    listener.listen()
    while True:
        link, _ = listener.accept()
        began = time.monotonic()
        try:
            flood(link, build, kind)
        except OSError as error:
            print(f"cut after {time.monotonic() - began:.1f} s: {error}", flush=True)
        link.close()


if __name__ == "__main__":
    main()
