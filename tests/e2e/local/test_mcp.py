"""`warpdeck mcp`, called by the client of the MCP SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.support.home import Home, temporary_home

TRAIN = """\
#!/bin/sh
echo "loss=0.9 step=1"
echo "loss=$1 step=2"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    with temporary_home() as home:
        home.ok("up")
        yield home


class Agent:
    """A coding agent."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: object) -> Any:
        answer = await self._client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        found = answer.structured_content
        return found["result"] if isinstance(found, dict) and set(found) == {"result"} else found

    async def refused(self, tool: str, **arguments: object) -> str:
        answer = await self._client.call_tool(tool, arguments)
        assert answer.is_error
        return str(answer.content)


@asynccontextmanager
async def started(site: Home) -> AsyncIterator[Agent]:
    """Start the server as the program of an agent does."""
    argv = ["-m", "warpdeck.cli.main", "mcp", "--name", "tester"]
    async with Client(StdioServerParameters(command=sys.executable, args=argv, env=site.environ)) as client:
        yield Agent(client)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "train.sh").write_text(TRAIN)
    return tmp_path


async def test_an_agent_plans_submits_waits_and_reads_the_result(site: Home, code: Path) -> None:
    async with started(site) as agent:
        options = {"time": "0:30:00", "mem": "50M"}
        plan = await agent.call("plan", folder=str(code), command="true", options=options)
        assert plan["verdict"] == "now" and plan["gpu_hours_at_most"] == 0
        assert not await agent.call("jobs", finished=True), "a plan submits nothing"

        made = await agent.call(
            "submit",
            purpose="try\na rate",
            folder=str(code),
            script="train.sh",
            arguments=["0.25"],
            options=options,
        )
        ended = await agent.call("wait", job=made["job"])
        assert ended["ended"] and ended["state"] == "COMPLETED", ended
        assert ended["comment"] == "agent tester: try a rate"
        assert await agent.call("logs", job=made["job"]) == "loss=0.9 step=1\nloss=0.25 step=2"
        metrics = (await agent.call("metrics", job=made["job"]))["metrics"]
        assert metrics["loss"] == {"first": 0.9, "last": 0.25, "lowest": 0.25, "highest": 0.9, "count": 2}
        (code / "train.sh").write_text(TRAIN.replace("0.9", "0.8"))
        assert '+echo "loss=0.8 step=1"' in await agent.call("diff", job=made["job"])
        assert [row["job"] for row in await agent.call("jobs", finished=True)] == [made["job"]]
        assert {node["state"] for node in await agent.call("nodes")} == {"idle"}


async def test_an_agent_cancels_its_own_jobs_only(site: Home, code: Path) -> None:
    async with started(site) as agent:
        mine = site.json("submit", "--no-snapshot", "--hold", "--wrap", "true")["job_id"]
        similar = site.json(
            "submit", "--no-snapshot", "--hold", "--comment", "agent tester2: x", "--wrap", "true"
        )
        made = [
            (
                await agent.call(
                    "submit",
                    purpose=f"job {number}",
                    folder=str(code),
                    command="true",
                    options={"hold": True},
                )
            )["job"]
            for number in range(3)
        ]
        assert "does not belong to this agent" in await agent.refused("cancel", jobs=[str(mine)])
        assert "does not belong to this agent" in await agent.refused("cancel", jobs=[made[0], str(mine)])
        assert site.state(made[0]) == "PENDING", "nothing is canceled if one job is refused"
        held = await agent.call("job", job=made[0])
        assert held["reason"] and held["state"] == "PENDING"
        assert (await agent.call("wait", job=made[0], seconds=0))["ended"] is False
        assert await agent.call("cancel", jobs=[made[0]]) == [made[0]]
        assert sorted(await agent.call("cancel", jobs=["all"])) == sorted(made[1:])
        assert [site.state(job) for job in made] == ["CANCELLED"] * 3
        assert site.state(mine) == site.state(similar["job_id"]) == "PENDING"


async def test_mistakes_are_told_to_the_agent(site: Home, code: Path) -> None:
    async with started(site) as agent:
        folder = str(code)
        wrong = await agent.refused("submit", purpose="x", folder=folder, command="true", options={"gpu": 1})
        assert "unrecognized option" in wrong or "gpu" in wrong
        refused = await agent.refused(
            "submit", purpose="x", folder=folder, command="true", options={"env": "x"}
        )
        assert "env is not an option of sbatch" in refused
        assert "exactly one of" in await agent.refused("submit", purpose="x", folder=folder)
        assert "there is no script" in await agent.refused(
            "submit", purpose="x", folder=folder, script="none.sh"
        )
        assert "agent" in await agent.refused("plan", folder=folder, command="true", options={"comment": "x"})
        assert "read between 1 and" in await agent.refused("logs", job="1", last_bytes=10**9)
        assert "cannot wait" in await agent.refused("wait", job="1", seconds=1e9)
        assert await agent.refused("job", job="99999")
        assert await agent.refused("job", job="; rm -rf /")


def test_a_name_with_other_characters_is_refused(site: Home) -> None:
    done = site.run("mcp", "--name", "a: b")
    assert done.returncode == 2 and "cannot be the name of an agent" in done.stderr
