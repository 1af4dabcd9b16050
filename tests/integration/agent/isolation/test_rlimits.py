"""Resource limits of the submitting user, set on processes that were just spawned."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Mapping

from warpdeck_agent.linux.rlimits import impose

GATE = "read -r go; ulimit -S -s; ulimit -S -n"


def at_gate(limits: Mapping[str, int]) -> list[str]:
    """Start a shell, limit it while it waits, and return its stack size in KiB and its descriptor limit."""
    ours, other_end = socket.socketpair()
    with ours, other_end:
        streams = [(os.POSIX_SPAWN_DUP2, other_end.fileno(), number) for number in (0, 1, 2)]
        pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", GATE], os.environ, file_actions=streams)
        other_end.close()
        impose(pid, limits)
        ours.sendall(b"go\n")
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile() as message:
            lines = message.read().split()
        os.waitpid(pid, 0)
    return lines


def test_the_stack_limit_applies_although_the_program_is_still_loading() -> None:
    """The kernel restores the stack limit at the end of an exec, mostly after the spawn has returned."""
    requested = {"STACK": 4096 * 1024, "NOFILE": 77}
    assert [at_gate(requested) for _ in range(40)] == [["4096", "77"]] * 40


def test_unknown_limits_are_ignored_and_hard_limits_respected() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    _, files = at_gate({"NOSUCH": 1, "NOFILE": hard + 1000 if hard > 0 else -1})
    assert files == (str(hard) if hard > 0 else "unlimited")


def test_limits_of_an_ended_process_are_ignored() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    impose(pid, {"STACK": 4096 * 1024, "NOFILE": 77})
