"""Every Slurm command prints its help without a controller."""

from __future__ import annotations

import io

import pytest

from warpdeck.base.slurm_version import VERSION
from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.command_table import COMMANDS
from warpdeck.slurm.console.console import Console, ControllerAccess, StandardStreams
from warpdeck.slurm.runtime.commands import run

OURS_ALONE = "seff"
"""A script distributed with Slurm, whose options are its own."""


def answer(command: str, option: str) -> tuple[int, str, str]:
    """Return the command's exit code and its output."""

    def nobody() -> SyncClient:
        raise AssertionError("the controller is not asked")

    def no_file(path: str, size: int) -> bytes:
        raise AssertionError("no file is read")

    out, err = io.StringIO(), io.StringIO()
    place = Console(
        streams=StandardStreams(io.StringIO(), out, err),
        controller=ControllerAccess(nobody),
        env={},
        folder="/",
        user="root",
        host="here",
        read_file=no_file,
    )
    return run(command, [option], place), out.getvalue(), err.getvalue()


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {OURS_ALONE}))
def test_a_command_tells_how_it_is_used(command: str) -> None:
    code, out, err = answer(command, "--usage")
    assert (code, err) == (0, "") and command in out
    code, out, err = answer(command, "--help")
    assert (code, err) == (0, "") and " -" in out


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {OURS_ALONE}))
def test_a_command_tells_its_version(command: str) -> None:
    for option in ("-V", "--version"):
        assert answer(command, option) == (0, VERSION, ""), option
