"""A thousand made runs of varied shape raise no alarm, and the same runs with a hang all do.

A run is a sequence of phases. Its looks go through the same functions as real ones: `Rhythm` decides whether the run is
suspected, and `judge` whether that is a hang.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from warpdeck.controller.loop.hang_watch import AGAIN_FACTOR
from warpdeck.controller.planning.hang_verdict import Look, judge
from warpdeck.model import NodeName
from warpdeck_agent.progress.rhythm import Activity, Rhythm
from warpdeck_agent.wire.messages import Frame, RankEvidence

RUNS = 1000
LOOK_S = 5.0
EXAMINE_S = 8.0
HANG_AFTER_S = 180.0
WAIT = Frame("all_reduce", "distributed_c10d.py", 1320, is_library=True)


class Phase(NamedTuple):
    """A part of a run. `stacks` tells what its ranks do: they wait for one rank, all work, or serve requests."""

    length_s: float
    line_every_s: float
    """Seconds between lines of output, 0 for none."""
    io_bytes: float
    """Bytes per second."""
    cores: float
    power_w: float
    stacks: str


class Run(NamedTuple):
    phases: list[Phase]
    ranks: int
    has_gpus: bool


def make_run(rng: random.Random) -> Run:
    """Return a healthy run: a start, then epochs of training, evaluation and checkpoints, or something else."""
    has_gpus = rng.random() < 0.6
    ranks = rng.choice([1, 2, 4, 8])
    cores, power = rng.uniform(0.3, 8.0), rng.uniform(250, 700)
    every_s = rng.choice([0.5, 2.0, 10.0, 30.0, 90.0])
    train = Phase(
        max(600.0, every_s * rng.uniform(20, 60)), every_s, rng.choice([0, 1e5, 1e8]), cores, power, "works"
    )
    startup = Phase(rng.uniform(5, 600), rng.choice([0, 1, 7]), 1e7, 1.0, 60, "works")
    pauses = [
        Phase(
            rng.uniform(10, 3000), 0, 0, cores * rng.uniform(0.6, 1.2), power * rng.uniform(0.6, 1.1), "works"
        ),  # evaluation
        Phase(
            rng.uniform(10, 3000), 0, rng.uniform(2e4, 1e9), 0.1, 80, "waits for one"
        ),  # writes a checkpoint
        Phase(rng.uniform(10, 1500), 0, rng.uniform(2e4, 1e8), 0.2, 80, "works"),  # loads data
        Phase(
            rng.uniform(10, 3000), 0, 0, 1.0, 90, "one works"
        ),  # one rank evaluates on its CPU, the others wait
        Phase(
            rng.uniform(10, 3000), 0, 0, 0.06, 90, "one sends"
        ),  # one rank sends a checkpoint over the network
    ]
    kind = rng.random()
    if kind < 0.15:  # a service: many requests, then none for hours
        return Run(
            [startup, Phase(600, 1, 1e5, 1, 300, "works"), Phase(9000, 0, 0, 0.0, 70, "serves")], 1, has_gpus
        )
    if kind < 0.25:  # prints in the beginning, and then computes for hours
        return Run(
            [Phase(300, 3, 1e6, 1, 60, "works"), Phase(9000, 0, 0, cores, power, "works")], ranks, has_gpus
        )
    phases = [startup]
    for _ in range(rng.randrange(1, 5)):
        phases += [train, *rng.sample(pauses, rng.randrange(0, 3))]
    return Run([*phases, train], ranks, has_gpus)


def take_look(phase: Phase, ranks: int, number: int, rng: random.Random) -> Look:
    """Return what the ranks do at a moment of the phase."""
    found: dict[tuple[NodeName, str], RankEvidence] = {}
    for rank in range(ranks):
        is_apart = rank == 0
        working = [Frame("forward", "model.py", rng.randrange(1, 60)), Frame("main", "train.py", 9)]
        stuck = [Frame("load_batch", "train.py", 41), Frame("main", "train.py", 9)]
        waits, cpu_s, switches, io_bytes = [WAIT, Frame("main", "train.py", 9)], 0.0, 0, 0
        if phase.stacks == "serves":
            frames = [Frame("select", "selectors.py", 468, is_library=True)]
        elif phase.stacks == "works" or (is_apart and phase.stacks == "one works"):
            frames, cpu_s = working, number * EXAMINE_S
        elif is_apart and phase.stacks == "one sends":
            frames, cpu_s, switches = stuck, number * EXAMINE_S * 0.01, number * 300
        elif is_apart and phase.stacks == "waits for one":
            frames, io_bytes = stuck, round(number * EXAMINE_S * phase.io_bytes)
        else:
            frames = stuck if is_apart and phase.stacks == "hangs" else waits
        found[NodeName(f"n{rank // 2}"), str(rank)] = RankEvidence(
            str(rank), rank + 10, frames=frames, cpu_s=cpu_s, io_bytes=io_bytes, switches=switches
        )
    return found


def activities(run: Run, rng: random.Random) -> Iterator[tuple[Phase, Activity]]:
    """Return the agent's looks at the run."""
    at, line_at = 0.0, 0.0
    for phase in run.phases:
        end = at + phase.length_s
        line_at = at
        while at < end:
            at += LOOK_S
            wrote = phase.line_every_s > 0 and at >= line_at
            if wrote:
                line_at = at + phase.line_every_s * rng.uniform(0.7, 1.4) - LOOK_S / 2
            noise = rng.uniform(0.85, 1.15)
            power = phase.power_w * noise if run.has_gpus else None
            yield (
                phase,
                Activity(
                    at, LOOK_S, wrote, round(phase.io_bytes * LOOK_S), phase.cores * noise * LOOK_S, power
                ),
            )


def alarms(run: Run, rng: random.Random) -> tuple[int, int]:
    """Return how often the run was examined, and how often the verdict was a hang."""
    rhythm, examined, found, due_s = Rhythm(0.0), 0, 0, HANG_AFTER_S
    for phase, activity in activities(run, rng):
        rhythm.add(activity)
        quiet_s = rhythm.stall(activity.at)
        if quiet_s is None:
            due_s = HANG_AFTER_S
        elif quiet_s >= due_s:
            due_s = AGAIN_FACTOR * quiet_s
            looks = [take_look(phase, run.ranks, number, rng) for number in range(3)]
            examined += 1
            found += bool(judge(looks, passed_s=2 * EXAMINE_S, quiet_s=quiet_s))
    return examined, found


def test_a_thousand_healthy_runs_raise_no_alarm() -> None:
    rng = random.Random(22)
    examined = 0
    for _ in range(RUNS):
        seen, found = alarms(make_run(rng), rng)
        assert not found
        examined += seen
    assert examined > RUNS / 2, "the runs are hard enough to be examined"


def test_the_same_runs_with_a_hang_are_all_noticed() -> None:
    rng = random.Random(22)
    missed = 0
    for _ in range(RUNS):
        run = make_run(rng)
        train = run.phases[-1]
        if len(run.phases) < 3 or train.stacks != "works" or run.ranks == 1 or not train.line_every_s:
            continue
        hang = Phase(10_000, 0, 0, 1.0 if run.has_gpus else 0.0, 90, "hangs")
        _, found = alarms(Run([*run.phases, hang], run.ranks, run.has_gpus), rng)
        missed += not found
    assert not missed
