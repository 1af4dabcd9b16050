"""A chaos run against hosts with real sshd: a controller, its standby, and two nodes, each on a host of its own.

Faults: `kill -9` of the controller, the standby's receiver, agents, supervisors and sshd; lost packets and cut links of each host;
takeovers. Only one fault of the controller happens at a time, because a takeover needs a standby that follows in the mode sync:
a request that was answered while the standby could not be reached is lost by design. For the same reason no client of the
controller's own machine starts the old controller again during a takeover.

A job that was running when its supervisor was killed may end without success, but it never counts as completed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lab.hosts import Lab, enter_namespaces
from tests.lab.standbys import Standby
from tests.support.waiting import eventually
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient

from .load import DRAIN_S, Chaos

SITES, NODES = (1, 2), (3, 4)
LATE = "requests are answered without it"
FOLLOWS_S = 120.0
LONG_LIVED = ("wait", "srun")
"""Clients that stay for the whole job. They run on the standby's machine, so that they live through the takeover."""
SUPERVISOR_S = 30.0
"""A job that ended at most this long after a supervisor was killed may have lost its end with it."""


class HostsChaos(Chaos):
    """A site of four hosts, its clients and its faults."""

    pause_s = (0.5, 4.0)

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed, nodes=True)
        folder.chmod(0o755)
        enter_namespaces()
        self._lab = Lab(len(SITES + NODES))
        self._folder = Path(tempfile.mkdtemp(prefix="wdch", dir="/var/tmp"))
        self._sites = {host: self._make_site(host) for host in SITES}
        self._active = SITES[0]
        self._site_lock = threading.Lock()
        self._moving = False
        """Whether a takeover is in progress. Then the machines of the controller and of the standby have no other fault."""
        self._has_standby = False
        self._clients: Counter[int] = Counter()
        """Numbers of running clients by host."""
        self._faults_of: Counter[str] = Counter()
        self._supervisor_kills: list[float] = []
        self._records: list[list[str]] = []
        """Name, state, start and end of each job at the end of the run."""

    def _make_site(self, host: int) -> Standby:
        path = self._folder / str(host) / "home"
        self._lab.user_home(path.parent)
        return Standby(self._lab, host, folder=path)

    @property
    def _standby(self) -> int:
        return next(host for host in SITES if host != self._active)

    def _start(self) -> None:
        site = self._sites[self._active]
        site.ok("up", "--no-local-node")
        for host in NODES:
            target, key = f"root@{self._lab.address(host)}", self._lab.fingerprint(host)
            site.ok("node", "add", target, "--name", f"gpu{host}", "--accept-host-key", key)
        self._make_standby()

    def _make_standby(self) -> None:
        """Make the other site the standby of the active one, and wait until it follows in the mode sync."""
        target, path = f"root@{self._lab.address(self._standby)}", self._sites[self._standby].path
        key = self._lab.fingerprint(self._standby)
        words = ("standby", target, "--home", str(path), "--keys", "--accept-host-key", key)
        site = self._sites[self._active]
        eventually(lambda: not site.run(*words).returncode, timeout_s=FOLLOWS_S, what="a standby")
        self._has_standby = True
        eventually(self._is_in_sync, timeout_s=FOLLOWS_S, what="the mode sync")

    def _request(self, kind: str, **fields: Any) -> Any:
        """Return the active controller's answer to a request, or None if none answers."""
        try:
            with SyncClient.connect(Paths(str(self._sites[self._active].path)), start=False) as client:
                return client.call(kind, **fields)
        except (UserError, OSError):
            return None

    def _is_in_sync(self) -> bool:
        answer = self._request("standby")
        row = answer["standby"] if answer else None
        return bool(row and row["waits"] and not row["behind_batches"])

    def _command(self, what: str, *argv: str) -> tuple[list[str], dict[str, str]]:
        with self._lock:
            host = self._standby
            if what not in LONG_LIVED and not self._moving and random.random() < 0.7:
                host = self._active
        site = self._sites[host]
        environ = f"WARPDECK_HOME={site.path}", f"HOME={site.path.parent}", "SSH_AUTH_SOCK=", "NO_COLOR=1"
        command = self._lab.command(host, "env", *environ, sys.executable, "-m", *argv)
        return command, {**self._lab.environ, "CHAOS_HOST": str(host)}

    def _client(self, what: str, *argv: str) -> subprocess.CompletedProcess[str] | None:
        with self._counted(what):
            return super()._client(what, *argv)

    @contextlib.contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        """Count the short clients, for which a takeover waits."""
        if what in LONG_LIVED:
            yield
            return
        with self._lock:
            self._clients[0] += 1
        try:
            yield
        finally:
            with self._lock:
                self._clients[0] -= 1

    def _line(self, name: str, task: str = "-") -> str:
        return f"echo {name} {task} ${{SLURM_RESTART_COUNT:-0}} >> {self.ledger}"

    def _faults(self) -> list[Callable[[random.Random], None]]:
        return [
            self._kill,
            self._kill_agent,
            self._kill_supervisor,
            self._kill_sshd,
            self._cut,
            self._take_over,
        ]

    def _pause(self, rng: random.Random, longest_s: float) -> None:
        self._over.wait(rng.uniform(1.0, longest_s))

    def _pids(self, host: int, words: str) -> list[int]:
        try:
            return self._lab.pids(host, words)
        except (AssertionError, subprocess.TimeoutExpired):
            return []

    def _kill_all(self, host: int, words: str) -> bool:
        """Kill the host's processes with these words in their command line. Return whether there was any."""
        found = self._pids(host, words)
        for pid in found:
            self._lab.on(host, "sh", "-c", f"kill -9 {pid} 2>/dev/null || true")
        return bool(found)

    def _kill(self, rng: random.Random) -> None:
        """Kill the controller or the standby's receiver."""
        self._pause(rng, 20.0)
        with self._site_lock:
            if self._over.is_set():
                return
            if rng.random() < 0.3:
                site = self._sites[self._standby]
                killed = self._kill_all(site.host, f"warpdeck.standby.receiver --home {site.path}")
                self._faults_of["standby"] += killed
                return
            self._kill_controller()
            self._faults_of["controller"] += 1
            if rng.random() < 0.7:
                self._sites[self._active].run("up", "--no-local-node")

    def _kill_controller(self) -> None:
        site = self._sites[self._active]
        with contextlib.suppress(OSError, IndexError, AssertionError):
            pid = int((site.path / "controller.lock").read_text().split()[0])
            self._lab.on(
                site.host, "sh", "-c", f"kill -9 {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done"
            )

    def _kill_agent(self, rng: random.Random) -> None:
        self._pause(rng, 20.0)
        self._faults_of["agent"] += self._kill_all(rng.choice(NODES), "serve --dir")

    def _kill_supervisor(self, rng: random.Random) -> None:
        self._pause(rng, 120.0)
        if self._kill_all(rng.choice(NODES), "supervise --dir"):
            self._supervisor_kills.append(time.time())
            self._faults_of["supervisor"] += 1

    def _kill_sshd(self, rng: random.Random) -> None:
        self._pause(rng, 60.0)
        host = rng.choice(NODES if self._moving else (*NODES, self._standby))
        self._lab.sh("sshd", str(host), "stop")
        self._over.wait(rng.uniform(0.0, 15.0))
        self._lab.sh("sshd", str(host), "start")
        self._faults_of["sshd"] += 1

    def _cut(self, rng: random.Random) -> None:
        self._pause(rng, 40.0)
        host = str(rng.choice(NODES if self._moving else (*SITES, *NODES)))
        begin, end = rng.choice((("drop", "undrop"), ("partition", "heal")))
        self._lab.sh(begin, host)
        self._over.wait(rng.uniform(0.5, 25.0))
        self._lab.sh(end, host)
        self._faults_of[begin] += 1

    def _take_over(self, rng: random.Random) -> None:
        self._over.wait(rng.uniform(60.0, 150.0))
        with self._site_lock:
            if self._over.is_set():
                return
            with self._lock:
                self._moving = True
            try:
                self._move()
            except AssertionError as error:
                self._faults_of["takeover given up"] += 1
                print(f"takeover given up: {str(error)[-400:]}", flush=True)
            finally:
                with self._lock:
                    self._moving = False

    def _move(self) -> None:
        """Kill the controller, and let its standby take over. Then make the old machine the standby of the new one."""
        old, new = self._sites[self._active], self._sites[self._standby]
        old.run("up", "--no-local-node")
        eventually(lambda: not self._clients[0], timeout_s=FOLLOWS_S, what="the end of the short clients")
        if not self._has_standby:
            self._make_standby()
        eventually(self._is_in_sync, timeout_s=FOLLOWS_S, what="the mode sync")
        end_of_log = (old.path / "controller.log").stat().st_size
        if not self._is_in_sync():
            return
        self._kill_controller()
        with (old.path / "controller.log").open() as log:
            log.seek(end_of_log)
            if LATE in log.read():
                self._faults_of["takeover given up because the standby was late"] += 1
                return
        new.ok("takeover", "--force")
        self._active, self._has_standby = new.host, False
        self._faults_of["takeover"] += 1
        self._make_standby()

    def _settle(self) -> None:
        site = self._sites[self._active]
        eventually(lambda: site.run("up", "--no-local-node").returncode == 0, what="a controller")
        eventually(self._is_empty, timeout_s=DRAIN_S, what="an empty queue")
        words = ("sacct", "-a", "-n", "-P", "-X", "-S", "1970-01-01", "-o", "JobName,State,Start,End")
        command, environ = self._command("sacct", "warpdeck.slurm.runtime.entry", *words)
        at = command.index(sys.executable)
        command[at:at] = ["SLURM_TIME_FORMAT=%s"]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, check=True, timeout=DRAIN_S
        )
        self._records = [line.split("|") for line in done.stdout.splitlines()]

    def _is_empty(self) -> bool:
        answer = self._request("jobs", limit=100_000)
        return answer is not None and not any(self._waits(row) for row in answer["jobs"])

    def _waits(self, row: dict[str, Any]) -> bool:
        return row["state"] in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "CONFIGURING")

    def errors_of_runs(self) -> tuple[list[str], list[str]]:
        ran = Counter(self.ledger.read_text().splitlines())
        twice = [line for line, count in ran.items() if count > 1]
        tasks_of_name = Counter(name for name, _ in {tuple(line.split()[:2]) for line in ran})
        self._faults_of["runs after a lost one"] = sum(line.split()[2] != "0" for line in ran)
        states: dict[str, list[str]] = {}
        lost = []
        for name, state, start, end in self._records:
            states.setdefault(name, []).append(state)
            if state != "COMPLETED" and name not in self.cancelled:
                self._faults_of[f"jobs that ended {state}"] += 1
                if not self._is_excused(start, end):
                    lost.append(f"{name} ended {state} (start {start}, end {end})")
        for name, commands in self.accepted.items():
            if name in self.cancelled:
                continue
            completed = states.get(name, []).count("COMPLETED")
            if len(states.get(name, [])) != commands:
                lost.append(f"{name} has the records {states.get(name)} instead of {commands}")
            elif tasks_of_name[name] < completed:
                lost.append(f"{name}: {completed} completed, {tasks_of_name[name]} ran")
        return lost, twice

    def _is_excused(self, start: str, end: str) -> bool:
        """Return whether a supervisor was killed while the job ran."""
        if not (start.isdigit() and end.isdigit()):
            return False
        return any(int(start) - 1 <= at <= int(end) + SUPERVISOR_S for at in self._supervisor_kills)

    def report(self) -> list[str]:
        return [", ".join(f"{count} {what}" for what, count in sorted(self._faults_of.items()))]

    def close(self) -> None:
        if keep := os.environ.get("CHAOS_KEEP"):
            ignored = shutil.ignore_patterns("*.sock", "agent")
            shutil.copytree(self._folder, keep, dirs_exist_ok=True, ignore=ignored)
            shutil.copy(self.ledger, keep)
        self._lab.close()
        shutil.rmtree(self._folder, ignore_errors=True)
