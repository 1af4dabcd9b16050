"""The load of a chaos run: clients that submit, cancel and wait, and the comparison of their answers with the runs.

Each command appends its own line to a ledger. A run has three errors: lost (an accepted submission with missing or
additional runs), twice (a command that ran more than once), hung (a client that did not end).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.support.agent import holds
from tests.support.home import Home
from tests.support.waiting import eventually

CLIENT_S = 240.0
"""A longer client counts as hung. Clients retry for two minutes, and no job here takes half of that."""
DRAIN_S = 600.0
KILL_EVERY_S = (1.0, 10.0)
TASKS = 10
SBATCH = ("warpdeck.slurm.runtime.entry", "sbatch", "--parsable", "-o", "/dev/null")
SUBMIT = ("warpdeck.cli.main", "submit", "--no-snapshot", "-o", "/dev/null")


class Chaos:
    """A site of one machine, its clients and its faults."""

    pause_s = (0.1, 0.8)
    """Shortest and longest pause between two actions of the same kind."""

    def __init__(self, folder: Path, seed: int, *, nodes: bool = False) -> None:
        self.home = Home(folder / "home")
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self._seed = seed
        self._nodes = nodes
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        self.accepted: dict[str, int] = {}
        """Number of commands that must run, by the names of the accepted submissions."""
        self.cancelled: set[str] = set()
        self.uncertain: set[str] = set()
        """Names of submissions without a successful answer."""
        self.numbers: dict[str, str] = {}
        self.hung: list[str] = []
        self.errors: Counter[str] = Counter()
        self.kills = 0
        self.agent_kills = 0

    def run(self, seconds: float) -> None:
        """Run all clients and kills for this time, and wait until the queue is empty."""
        self._start()
        work: list[Callable[[random.Random], None]] = [
            *(
                self._submit,
                self._submit,
                self._submit_array,
                self._wait,
                self._srun,
                self._srun,
                self._cancel,
            ),
            *self._faults(),
        ]
        threads = [
            threading.Thread(target=self._repeat, args=(each, self._seed * 100 + number))
            for number, each in enumerate(work)
        ]
        for thread in threads:
            thread.start()
        self._over.wait(seconds)
        self._over.set()
        for thread in threads:
            thread.join()
        self._settle()

    def close(self) -> None:
        """End all processes of the site."""
        self.home.close()

    def report(self) -> list[str]:
        """Return lines about the faults."""
        return [f"{self.kills} kills, {self.agent_kills} of the agent"]

    def _start(self) -> None:
        self.home.ok("up")
        self.home.wait_for_idle_node()

    def _faults(self) -> list[Callable[[random.Random], None]]:
        return [self._kill, self._kill_agent, self._drain] if self._nodes else [self._kill]

    def _settle(self) -> None:
        """End all faults, and wait until the queue is empty."""
        self.home.ok("up")
        if self._nodes:
            self.home.slurm("scontrol", "update", "nodename=ALL", "state=resume")
        eventually(lambda: not self.home.json("queue"), timeout_s=DRAIN_S, what="an empty queue")

    def _repeat(self, work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        while not self._over.wait(rng.uniform(*self.pause_s)):
            work(rng)

    def _name(self) -> str:
        with self._lock:
            self._count += 1
            return f"c{self._seed}x{self._count}"

    def _line(self, name: str, task: str = "-") -> str:
        return f"echo {name} {task} >> {self.ledger}"

    def _client(self, what: str, *argv: str) -> subprocess.CompletedProcess[str] | None:
        """Run a client. If it hangs, record that and return None."""
        command, environ = self._command(what, *argv)
        try:
            return subprocess.run(
                command,
                cwd=self.home.path.parent,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=CLIENT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.hung.append(what)
            return None

    def _command(self, what: str, *argv: str) -> tuple[list[str], dict[str, str]]:
        """Return the command line and the environment of a client."""
        return [sys.executable, "-m", *argv], self.home.environ

    def _record(
        self, what: str, name: str, commands: int, done: subprocess.CompletedProcess[str] | None
    ) -> bool:
        """Record the answer to a submission, and return whether it was accepted."""
        if done is not None and done.returncode == 0:
            self.accepted[name] = commands
            return True
        self.uncertain.add(name)
        if done is not None:
            self.errors[f"{what}: {done.stderr.strip()[-120:]}"] += 1
        return False

    def _submit(self, rng: random.Random) -> None:
        name = self._name()
        wrap = f"{self._line(name)}; sleep {rng.choice(('0', '0.3', '2'))}"
        done = self._client("submit", *rng.choice((SBATCH, SUBMIT)), "-J", name, "--wrap", wrap)
        if self._record("submit", name, 1, done) and done is not None:
            self.numbers[name] = done.stdout.split()[-1]

    def _submit_array(self, rng: random.Random) -> None:
        self._array("array", SBATCH)

    def _wait(self, rng: random.Random) -> None:
        self._array("wait", (*rng.choice((SBATCH, SUBMIT)), "--wait"))

    def _array(self, what: str, words: tuple[str, ...]) -> None:
        name, wrap = self._name(), self._line("$SLURM_JOB_NAME", "$SLURM_ARRAY_TASK_ID")
        array = f"--array=0-{TASKS - 1}"
        self._record(what, name, TASKS, self._client(what, *words, "-J", name, array, "--wrap", wrap))

    def _srun(self, rng: random.Random) -> None:
        name = self._name()
        command = f"{self._line(name)}; sleep {rng.choice(('0', '0.5', '2'))}"
        words = ("warpdeck.slurm.runtime.entry", "srun", "-n1", "-J", name, "sh", "-c", command)
        self._record("srun", name, 1, self._client("srun", *words))

    def _cancel(self, rng: random.Random) -> None:
        names = [name for name in list(self.numbers)[-12:] if name not in self.cancelled]
        if names:
            name = rng.choice(names)
            self.cancelled.add(name)
            self._client("cancel", "warpdeck.slurm.runtime.entry", "scancel", self.numbers[name])

    def _kill(self, rng: random.Random) -> None:
        self._over.wait(rng.uniform(*KILL_EVERY_S))
        self.home.kill_controller()
        self.kills += 1
        if rng.random() < 0.7:
            self.home.run("up")

    def _kill_agent(self, rng: random.Random) -> None:
        self._over.wait(rng.uniform(*KILL_EVERY_S))
        pid = holds(self.home.path / "agent" / "agent.lock")
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.agent_kills += 1

    def _drain(self, rng: random.Random) -> None:
        self._over.wait(rng.uniform(*KILL_EVERY_S))
        name = socket.gethostname().partition(".")[0]
        for words in (("state=drain", "reason=chaos"), ("state=resume",)):
            self._client(
                "drain", "warpdeck.slurm.runtime.entry", "scontrol", "update", f"nodename={name}", *words
            )
            time.sleep(rng.uniform(0.0, 2.0))

    def errors_of_runs(self) -> tuple[list[str], list[str]]:
        """Return the lost submissions, and the commands that ran twice."""
        ran = Counter(self.ledger.read_text().splitlines())
        runs_of_name = Counter(line.split()[0] for line in ran)
        twice = [line for line, count in ran.items() if count > 1]
        lost = [
            name
            for name, commands in self.accepted.items()
            if name not in self.cancelled and runs_of_name[name] != commands
        ]
        return lost, twice
