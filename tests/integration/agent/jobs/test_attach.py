"""The relay between a controller's SSH connection and the agent: its behavior when the agent exits."""

from __future__ import annotations

import select
import socket
import subprocess
from pathlib import Path

import pytest
from tests.support.agent import ANSWER_S, FROM_SOURCE


@pytest.mark.parametrize("unread", [b"", b"words that nobody reads"], ids=["in silence", "with words unread"])
def test_the_relay_ends_silently_with_a_killed_agent(short_tmp: Path, unread: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_tmp / "agent.sock"))
        listener.listen()
        listener.settimeout(ANSWER_S)
        argv = [*FROM_SOURCE, "attach", "--dir", str(short_tmp)]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as relay:
            agent, _ = listener.accept()
            with agent:
                assert relay.stdin is not None
                relay.stdin.write(unread)
                relay.stdin.flush()
                assert not unread or select.select([agent], [], [], ANSWER_S)[0], "the frames have arrived"
            code = relay.wait(ANSWER_S)  # the relay's own input is still open
            output, complaint = relay.communicate()
    assert (code, complaint) == (0, b"")
    assert b'"attached": true' in output
