"""Simulate many hosts in one process, each with its own SSH server and agent: `python standins.py PLAN`.

PLAN is a JSON file: {"key", "client", "build", "ports", "hosts": [{"name", "agent"}]}. A host with a folder in
`agent` forwards to the real agent there. The other agents are simulated: they speak the agent's protocol and report
eight GPUs at the requested interval. Their samples are made once, so they load the machine little. They run no
jobs. When all hosts listen, their ports are written to the file `ports`, one per line.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import asyncssh

from warpdeck_agent.wire import JSON, json_frame, read_frame
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import SENTINEL, parse_json
from warpdeck_agent.wire.messages import decode, encode

GPUS = 8
SAMPLES = 16
"""Number of different samples, which all hosts of a process send in turn."""
GIB = 1 << 30
CHUNK_BYTES = 1 << 16
OK = SENTINEL + '{"ok": true}\n'


class Host:
    """One host: the answers of its login shell, and its agent."""

    def __init__(self, name: str, agent: str, build: str, samples: list[bytes]) -> None:
        self.samples = itertools.cycle(samples)
        self.name = name
        self.agent = agent
        self.build = build
        self.rng = random.Random(name)

    async def serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Answer one command."""
        command = process.command or ""
        if re.search(r" attach --dir ", command):
            process.stdout.write(OK.encode())
            await (self._forward(process) if self.agent else self._simulate_agent(process))
        elif re.search(r" start --dir ", command):
            process.stdout.write(OK.encode())
        else:
            script = await process.stdin.read()
            answer = f"WARPDECK-PROBE|/usr/bin/python3|3.11|/nowhere|{self.name}|bench|127.0.0.1|\n"
            process.stdout.write((answer if b"WARPDECK-PROBE" in script else "WARPDECK-HAS\n").encode())
        process.exit(0)

    async def _forward(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Forward bytes to and from a real agent."""
        reader, writer = await asyncio.open_unix_connection(f"{self.agent}/agent.sock")

        async def up() -> None:
            while data := await process.stdin.read(CHUNK_BYTES):
                writer.write(data)
            writer.close()

        task = asyncio.get_running_loop().create_task(up())
        while data := await reader.read(CHUNK_BYTES):
            process.stdout.write(data)
        task.cancel()

    async def _simulate_agent(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Implement the part of the protocol that a node without jobs needs."""
        interval_s: list[float] = []

        def send(message: Any) -> None:
            process.stdout.write(json_frame(encode(message)))

        async def sample() -> None:
            await asyncio.sleep(self.rng.random() * interval_s[0])
            while True:
                process.stdout.write(next(self.samples))
                await asyncio.sleep(interval_s[0])

        tasks: list[asyncio.Task[None]] = []
        try:
            while True:
                kind, payload = await read_frame(process.stdin)  # type: ignore[arg-type]
                message = decode(parse_json(payload)) if kind == JSON else None
                match message:
                    case wire.Hello():
                        send(wire.Welcome(build=self.build, inventory=self._inventory(), user="root"))
                        interval_s[:] = [message.sample_interval_s]
                        tasks.append(asyncio.get_running_loop().create_task(sample()))
                    case wire.SampleEvery():
                        interval_s[:] = [message.interval_s]
                    case wire.AskHealth() | wire.AskCurves() | wire.AskMoment():
                        send(_answer(message))
                    case wire.Quit():
                        return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            for task in tasks:
                task.cancel()

    def _inventory(self) -> wire.Inventory:
        gpus = [
            wire.GpuInfo(
                index=index,
                uuid=f"GPU-{self.name}-{index}",
                name="NVIDIA H100 80GB HBM3",
                mem_bytes=80 * GIB,
                minor=index,
                island=0,
            )
            for index in range(GPUS)
        ]
        return wire.Inventory(
            hostname=self.name,
            boot_id="bench",
            cpus=128,
            mem_bytes=1024 * GIB,
            gpus=gpus,
            driver="550.54.15",
            kernel="6.1.0",
            arch="x86_64",
            python="3.11",
            containment="cgroup v2",
            facilities=[wire.Facility(name="end", strength="enforced", how="cgroup v2")],
        )


def make_samples() -> list[bytes]:
    """Return frames of busy nodes."""
    rng = random.Random(0)
    return [json_frame(encode(_sample(rng))) for _ in range(SAMPLES)]


def _sample(rng: random.Random) -> wire.Sample:
    used_bytes = [rng.randrange(1, 80) * GIB for _ in range(GPUS)]  # never 0, so that a busy GPU stays busy
    gpus = [
        wire.GpuSample(
            index=index,
            util_pct=rng.randrange(101),
            mem_used_bytes=used_bytes[index],
            power_w=round(rng.random() * 700, 1),
            temp_c=rng.randrange(30, 90),
            processes=[
                wire.GpuProcess(
                    pid=4000 + index,
                    mem_bytes=used_bytes[index],
                    job_id=index + 1,
                    user="ann",
                    command="python train.py --config configs/large.yaml",
                )
            ],
        )
        for index in range(GPUS)
    ]
    return wire.Sample(at_unix=time.time(), cpu_pct=60.0, mem_used_bytes=200 * GIB, gpus=gpus)


def _answer(message: wire.AskHealth | wire.AskCurves | wire.AskMoment) -> Any:
    match message:
        case wire.AskHealth():
            return wire.Health(at_unix=time.time(), ask=message.ask)
        case wire.AskCurves():
            return wire.Curves(ask=message.ask)
        case wire.AskMoment():
            return _moment(message)


def _moment(request: wire.AskMoment) -> wire.Moment:
    """Return a past state of busy GPUs at an agent's resolution. One GPU has a foreign process."""
    gpus = [
        wire.GpuSample(index=index, util_pct=97, mem_used_bytes=61 * GIB, power_w=650.5, temp_c=71)
        for index in range(GPUS)
    ]
    strangers = [wire.Strangers(index, {"bob": GIB} if index == 0 else {}) for index in range(GPUS)]
    return wire.Moment(
        ask=request.ask,
        begin_unix=request.at_unix // 60 * 60,
        step_s=60.0,
        since_unix=1.0,
        cpu_pct=60.0,
        mem_used_bytes=200 * GIB,
        gpus=gpus,
        strangers=strangers,
    )


class Server(asyncssh.SSHServer):
    """An SSH server that accepts every client with the client key."""


async def serve(plan: dict[str, Any]) -> None:
    """Listen for all hosts until killed."""
    ports, samples = [], make_samples()
    for each in plan["hosts"]:
        host = Host(each["name"], each["agent"], plan["build"], samples)
        listener = await asyncssh.create_server(
            Server,
            "127.0.0.1",
            0,
            server_host_keys=[plan["key"]],
            authorized_client_keys=plan["client"],
            process_factory=host.serve,
            encoding=None,
            line_editor=False,
        )
        ports.append(listener.get_port())
    Path(plan["ports"]).write_text("".join(f"{port}\n" for port in ports) + "all\n")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text())))
