"""Measure a controller with the agents of a large site: 500 SSH connections, eight GPUs behind each.

Most agents are simulated (see standins). A few are the real program with the fake NVML library. The load of the
controller and of an agent is measured without clients, while an app shows the nodes, and while Prometheus
scrapes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.nvml import build_fake_nvml, write_state
from tests.support.agent import holds, lock_holder
from tests.support.waiting import eventually
from warpdeck.client.blocking_client import SyncClient
from warpdeck.fleet.build import build_zipapp

from .footprint import STORED, fill
from .loopback import free_port
from .rig import Rig, cpu_percent, rss_mb
from .table import Line, Measured, Table

AGENTS = int(os.environ.get("WARPDECK_BENCH_AGENTS", "500"))
WITH_JOBS = "WARPDECK_BENCH_JOBS" in os.environ
"""Whether the database also contains the 100,000 jobs of `footprint`."""
REAL = 3
HOSTS_OF_PROCESS = 50
GPUS = 8
ADDERS = 8
"""Number of nodes added at the same time."""
CONNECT_S = 300.0
MEASURE_S = 20.0
SCRAPE_EVERY_S = 15.0
"""The default interval of Prometheus."""

ADDED = Line(f"{AGENTS} agents joined, each", "ms")
RECONNECTED = Line(f"{AGENTS} agents connected after a restart of the controller", "s")
MEMORY = Line(
    f"controller with {AGENTS} agents over SSH" + f", {STORED:,} jobs" * WITH_JOBS, "MB", budget=300
)
IDLE = Line(f"controller with {AGENTS} agents, CPU of one core", "%", budget=2)
WATCHED = Line(f"the same, an app shows all {AGENTS * GPUS} GPUs", "%")
SCRAPED = Line("the same, Prometheus scrapes every 15 s", "%")
SCRAPE = Line(f"one scrape of {AGENTS} nodes", "ms")
PER_AGENT = Line("controller, memory for each agent", "kB")
AGENT_MEMORY = Line(f"real agent beside them, {GPUS} GPUs", "MB", budget=30)
AGENT_CPU = Line(f"real agent beside them, {GPUS} GPUs, CPU of one core", "%", budget=0.5)


def measure(table: Table) -> None:
    """Measure all rows of this module, in about two minutes."""
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as name, ExitStack() as stack:
        folder = Path(name)
        rig = Rig(folder, HOME=str(folder / "user"), SSH_AUTH_SOCK="")
        stack.callback(rig.close)
        port = free_port()
        rig.home.path.mkdir()
        (rig.home.path / "config.toml").write_text(f"metrics_port = {port}\n")
        rig.up("--no-local-node")
        before = rss_mb(rig.controller_pid())
        agents = [stack.enter_context(real_agent(folder, number)) for number in range(REAL)]
        hosts = stack.enter_context(standins(folder, agents))
        measure_adding(table, rig, hosts)
        measure_controller(table, rig, port, before=before)
        pids = [lock_holder(agent / "agent.lock") for agent in agents]
        table.add(AGENT_MEMORY, Measured([rss_mb(pid) for pid in pids]))
        table.add(AGENT_CPU, Measured([cpu_percent(pid, over_s=MEASURE_S / 2) for pid in pids]))


def measure_adding(table: Table, rig: Rig, hosts: list[tuple[str, str]]) -> None:
    """Add all hosts as nodes, several at a time, and measure the controller's time for each."""
    begun = time.perf_counter()
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", str(rig.folder / "hostkey.pub")], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    local = threading.local()

    def add(host: tuple[str, str]) -> None:
        if not hasattr(local, "client"):
            local.client = SyncClient.connect(rig.paths, start=False)
        name, target = host
        local.client.call("node_add", target=target, name=name, accept_host_key=fingerprint)

    with ThreadPoolExecutor(ADDERS) as pool:
        list(pool.map(add, hosts))
    table.add(ADDED, Measured([(time.perf_counter() - begun) * 1e3 / len(hosts)]))
    eventually(lambda: all_are_up(rig), timeout_s=CONNECT_S, what="all nodes connected")


def all_are_up(rig: Rig) -> bool:
    """Return whether every node is connected."""
    return all(each["state"] == "idle" for each in rig.nodes())


def measure_controller(table: Table, rig: Rig, port: int, *, before: float) -> None:
    """Measure the controller without clients, with an app, and with Prometheus."""
    rig.hang_up()
    rig.home.ok("down")
    if WITH_JOBS:
        asyncio.run(fill(rig.home.path / "state.db"))
    begun = time.perf_counter()
    rig.home.ok("up", "--no-local-node")
    eventually(lambda: all_are_up(rig), timeout_s=CONNECT_S, what="all nodes connected again")
    table.add(RECONNECTED, Measured([time.perf_counter() - begun]))
    rig.hang_up()
    pid = rig.controller_pid()
    table.add(IDLE, Measured([cpu_percent(pid, over_s=MEASURE_S)]))
    with watching(rig):
        table.add(WATCHED, Measured([cpu_percent(pid, over_s=MEASURE_S)]))
    took: list[float] = []
    with scraping(port, took):
        table.add(SCRAPED, Measured([cpu_percent(pid, over_s=2 * SCRAPE_EVERY_S)]))
    table.add(SCRAPE, Measured(took))
    table.add(MEMORY, Measured([rss_mb(pid)]))
    table.add(PER_AGENT, Measured([(rss_mb(pid) - before) * 1e3 / AGENTS]))


@contextmanager
def real_agent(folder: Path, number: int) -> Iterator[Path]:
    """Start an agent with eight GPUs as on a node, and return its folder."""
    library = build_fake_nvml(folder / "nvml")
    state, own = folder / f"nvml{number}.state", folder / f"agent{number}"
    write_state(state, gpus=GPUS, util=80)
    program, _ = build_zipapp(str(folder))
    own.mkdir()
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML_STATE": str(state)}
    argv = [sys.executable, "-I", program, "start", "--dir", str(own)]
    subprocess.run(argv, check=True, capture_output=True, env=environ)
    pid = lock_holder(own / "agent.lock")
    try:
        yield own
    finally:
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: not holds(own / "agent.lock"), what="the end of the agent")


@contextmanager
def standins(folder: Path, agents: list[Path]) -> Iterator[list[tuple[str, str]]]:
    """Return (name, target) of all hosts. The first hosts lead to the real agents."""
    ssh = folder / "user" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    for key in (folder / "hostkey", ssh / "id_ed25519"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, capture_output=True
        )
    _, build = build_zipapp(str(folder))
    folders = [str(agent) for agent in agents] + [""] * (AGENTS - len(agents))
    names = [f"sim{number:04}" for number in range(AGENTS)]
    processes, hosts = [], []
    try:
        for first in range(0, AGENTS, HOSTS_OF_PROCESS):
            some = list(zip(names, folders, strict=True))[first : first + HOSTS_OF_PROCESS]
            ports = folder / f"ports{first}"
            plan = {
                "key": str(folder / "hostkey"),
                "client": str(ssh / "id_ed25519.pub"),
                "build": build,
                "ports": str(ports),
                "hosts": [{"name": name, "agent": agent} for name, agent in some],
            }
            (folder / f"plan{first}").write_text(json.dumps(plan))
            argv = [sys.executable, "-m", "tests.bench.standins", str(folder / f"plan{first}")]
            processes.append(subprocess.Popen(argv))
            eventually(
                lambda ports=ports: ports.exists() and "all" in ports.read_text(),
                what="the ports of the hosts",
            )
            found = ports.read_text().split()[:-1]
            hosts += [(name, f"root@127.0.0.1:{port}") for (name, _), port in zip(some, found, strict=True)]
        yield hosts
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def watching(rig: Rig) -> Iterator[None]:
    """Run a client that subscribes to all nodes, like the app's nodes screen."""
    client = SyncClient.connect(rig.paths, start=False)
    number = client.begin("subscribe", topics=["jobs", "nodes"])
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            for _ in client.events(number, timeout_s=1.0):
                pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()
        client.close()


@contextmanager
def scraping(port: int, took: list[float]) -> Iterator[None]:
    """Scrape like Prometheus, and append the time of each scrape in ms to `took`."""
    over = threading.Event()

    def scrape() -> None:
        while True:
            begun = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                answer.read()
            took.append((time.perf_counter() - begun) * 1e3)
            if over.wait(SCRAPE_EVERY_S):
                return

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        yield
    finally:
        over.set()
        scraper.join()
