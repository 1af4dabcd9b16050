"""`warpdeck run` with a command line: the job and the messages of the controller, on one connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.served import Raw, Served, served

from warpdeck.model import JobId


@asynccontextmanager
async def node(folder: Path) -> AsyncIterator[tuple[Served, Raw]]:
    """A controller with one node, and a client."""
    async with served(folder / "h") as site:
        await site.add_node("a")
        raw = await Raw.connect(site.paths)
        yield site, raw
        raw.writer.close()


async def run_answer(raw: Raw, *argv: str, **fields: Any) -> dict[str, Any]:
    """Return the answer to a command."""
    given = {"env": {"HOME": "/home/ann", "PATH": "/bin"}, "cwd": "/work", "errors": 2, **fields}
    return await raw.request("run", words=argv, **given)


async def test_a_command_line_becomes_a_job_with_its_folder_and_environment(short_tmp: Path) -> None:
    async with node(short_tmp) as (site, raw):
        answer = await run_answer(raw, "--gpus", "1", "-J", "try", "-D", "~/x", "prog", "--gpus", "9")
        assert answer["result"] == {"job_id": 1, "notes": []}
        request = site.controller.state.jobs[JobId(1)].request
        assert (request.name, request.argv, request.chdir) == ("try", ("prog", "--gpus", "9"), "/home/ann/x")
        assert (request.submit_dir, request.env["PATH"], request.requeue) == ("/work", "/bin", False)
        assert request.resources.gpus.total == 1


@pytest.mark.parametrize(
    ("argv", "message", "code"),
    [
        (["--gpus", "1"], "no command given", ""),
        (["--gpsu", "1", "true"], "unrecognized option '--gpsu'", "unknown_option"),
        (["-n", "2", "true"], "several tasks", "steps"),
        (["-t", "never", "true"], "Invalid --time specification: 'never'", ""),
        (["--gpus", "64", "true"], "can never start", "BadConstraints"),
        (["a\0b"], "NUL", ""),
    ],
)
async def test_an_invalid_command_line_is_refused_and_creates_no_job(
    short_tmp: Path, argv: list[str], message: str, code: str
) -> None:
    async with node(short_tmp) as (site, raw):
        answer = await run_answer(raw, *argv)
        assert answer["t"] == "error" and message in answer["message"] and answer["code"] == code
        assert not site.controller.state.jobs


async def test_a_used_stream_id_is_refused_for_standard_error(short_tmp: Path) -> None:
    async with node(short_tmp) as (site, raw):
        answer = await run_answer(raw, "true", errors=1)
        assert answer["t"] == "error" and "in use" in answer["message"]
        assert not site.controller.state.jobs


async def test_a_command_cancelled_before_its_start_is_reported(short_tmp: Path) -> None:
    async with node(short_tmp) as (_, raw):
        answer = await raw.request("run", words=["-H", "true"], errors=2)
        assert answer["result"]["job_id"] == 1
        raw.send("cancel", id=3, jobs=["1"])
        while (error := await raw.next())["t"] != "error":
            continue
        assert error["id"] == 1 and "ended before it started (CANCELLED)" in error["message"]
