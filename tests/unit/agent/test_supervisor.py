"""What a supervisor takes from an agent that came after it."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.agent import FROM_SOURCE
from tests.waiting import WAIT_S, eventually

from warpdeck_agent.launching import DEFAULT_PATH
from warpdeck_agent.spool import Spool
from warpdeck_agent.starter import SCRIPT, START, Order, install


def joined(folder: Path) -> socket.socket:
    """A link to the supervisor of that folder, as an agent has it."""

    def tried() -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(str(folder / "supervisor.sock"))
        except OSError:
            link.close()
            return None
        return link

    link = eventually(tried, what="the supervisor listens")
    assert link is not None
    link.settimeout(WAIT_S)
    return link


def test_an_order_of_a_later_build_is_carried_out_as_far_as_it_is_understood(short_tmp: Path) -> None:
    spool = Spool(str(short_tmp))
    folder = spool.job(1, 0)
    folder.create(uid=0, gid=0, terminal=False)
    install(spool.file(START), SCRIPT)
    command, env = ["/bin/sh", "-c", "echo on; exit 3"], {"PATH": DEFAULT_PATH}
    order = Order(1, 0, folder.number, command, env, "/", str(short_tmp / "said"), "", False, {})
    said: list[dict[str, Any]] = []
    process = subprocess.Popen([*FROM_SOURCE, "supervise", "--dir", str(short_tmp)])
    try:
        with joined(short_tmp) as link, link.makefile("rb") as lines:
            link.sendall(json.dumps({**order._asdict(), "later": {"builds": "know"}}).encode() + b"\n")
            while not said or said[-1]["is"] != "ended":
                said.append(json.loads(lines.readline()))
        assert process.wait(WAIT_S) == 0, "it goes with the agent and the last job"
    finally:
        process.kill()
        process.wait()
    assert [each["is"] for each in said] == ["running", "started", "ended"]
    assert (folder.exit_status(), (short_tmp / "said").read_text()) == ((3, 0), "on\n")
