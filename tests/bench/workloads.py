"""Generate synthetic workloads of many kinds from seeds, because there are few real logs to judge rules by.

A user submits *campaigns* of jobs with the same size and time limit, all at once (an array) or one after the other.
The run times of a campaign are similar except for some spread and early failures (Feitelson 2015, Workload Modeling,
ch. 8). The kinds differ in the jobs' sizes and run times, in the distribution of campaigns and users, and in the
daily cycle of the load. Sizes and run times of the kind "supercomputer" are those of Lublin and Feitelson (2003).
Those of the GPU clusters follow the published shares of Philly (Jeon et al. 2019), Helios (Hu et al. 2021) and
Alibaba PAI (Weng et al. 2022). Time limits are like those of real users: a few round numbers, mostly far too long
(Tsafrir et al. 2005). The load is exact: the time between submissions is stretched until the requested work is that
share of the machine.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from warpdeck.sim.resource_model import GpuNodes, Machine, Pool
from warpdeck.sim.trace import Trace, TraceJob

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
ROUND_S = tuple(
    minutes * MINUTE_S
    for minutes in (5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1080, 1440, 2160, 2880, 4320, 10_080)
)
"""Time limits that users choose."""
LONGEST_S = 7 * DAY_S
LEAVES_DEFAULT = 0.15
"""Share of campaigns submitted with the default limit of the site."""
THINKS_S = 20 * MINUTE_S
"""Mean time between two jobs of a campaign."""
FAILS_EARLY = 0.12
"""Share of jobs that fail after a few percent of their run time."""
USERS = 60
LEAST_DAYS, JOBS_A_DAY = 7, 200
SURGE_FROM, SURGE_TO = 0.4, 0.6
"""Start and end of the surge as a share of the whole time."""


Size = Callable[[Random, int], int]
"""(generator, units of the machine) -> units of the job."""
RunTime = Callable[[Random, int], float]
"""(generator, units of the job) -> seconds."""


class Kind(NamedTuple):
    """A kind of workload."""

    name: str
    units: int
    """CPUs of the machine, or GPUs in nodes of 8."""
    gpus: bool
    size: Size
    run_s: RunTime
    repeats: float = 1.0
    """Mean number of jobs in a campaign."""
    at_once: float = 0.0
    """Share of campaigns submitted all at once."""
    skew: float = 1.0
    """Dominance of the busiest users: the exponent of a Zipf law over them."""
    tide: float = 0.7
    """Decrease of the load at nights and on weekends; 0 means none."""
    surge: float = 1.0
    """Factor of the load in the middle fifth of the time."""


def machine_of(kind: Kind) -> Machine:
    """Return the machine of the kind."""
    return GpuNodes(kind.units // 8, gpus_per_node=8) if kind.gpus else Pool(kind.units)


def make_trace(kind: Kind, *, seed: int, jobs: int, load: float) -> Trace:
    """Return a log of `jobs` jobs.

    Their work is the share `load` of the machine's capacity between the first and the last submission.
    """
    rng = Random(f"{kind.name}/{seed}")
    found: list[TraceJob] = []
    moments = _moments(rng, kind, jobs)
    while len(found) < jobs:
        found += _campaign(rng, kind, moments, first_id=len(found))
    del found[jobs:]
    found.sort(key=lambda job: job.submit_s)
    work = sum(job.run_s * max(job.cpus, job.gpus) for job in found)
    first_s, span_s = found[0].submit_s, found[-1].submit_s - found[0].submit_s
    stretch = work / (load * kind.units * span_s)
    return Trace(
        jobs=tuple(
            job._replace(job_id=str(number), submit_s=round((job.submit_s - first_s) * stretch))
            for number, job in enumerate(found)
        )
    )


def _moments(rng: Random, kind: Kind, jobs: int) -> Callable[[], float]:
    """Return a function that draws starts of campaigns: fewer at night, more in a surge."""
    days = max(LEAST_DAYS, jobs // JOBS_A_DAY)
    weights = [_busy(hour, days * 24, kind) for hour in range(days * 24)]
    cumulated = list(itertools.accumulate(weights))

    def draw() -> float:
        hour = bisect.bisect_left(cumulated, rng.random() * cumulated[-1])
        return (hour + rng.random()) * HOUR_S

    return draw


def _busy(hour: int, hours: int, kind: Kind) -> float:
    day, weekday = hour % 24, hour // 24 % 7
    by_day = 1 - kind.tide / 2 * (1 + math.cos((day - 2) / 24 * 2 * math.pi))
    by_week = 1 - kind.tide / 2 if weekday >= 5 else 1.0
    return by_day * by_week * (kind.surge if SURGE_FROM <= hour / hours < SURGE_TO else 1.0)


def _campaign(rng: Random, kind: Kind, moments: Callable[[], float], *, first_id: int) -> list[TraceJob]:
    """Return the jobs of one user. Jobs submitted at once never exceed the machine."""
    size = max(1, min(kind.units, kind.size(rng, kind.units)))
    count = 1 + int(rng.expovariate(1 / (kind.repeats - 1))) if kind.repeats > 1 else 1
    count = min(count, max(1, kind.units // size))
    user = _zipf(rng, USERS, kind.skew)
    typical_s = kind.run_s(rng, size)
    limit_s = _limit(rng, typical_s)
    spread = rng.choice((0.02, 0.1, 0.3, 0.6))
    together = rng.random() < kind.at_once
    at_s, found = moments(), []
    for number in range(first_id, first_id + count):
        run_s = typical_s * math.exp(rng.gauss(0, spread))
        if rng.random() < FAILS_EARLY:
            run_s *= rng.random() * 0.1
        run_s = round(max(1.0, min(run_s, limit_s)))
        found.append(
            TraceJob(
                job_id=str(number),
                submit_s=at_s,
                run_s=run_s,
                limit_s=limit_s,
                gpus=size if kind.gpus else 0,
                cpus=0 if kind.gpus else size,
                user=f"u{user}",
            )
        )
        at_s += 0.0 if together else run_s * rng.random() + rng.expovariate(1 / THINKS_S)
    return found


def _limit(rng: Random, run_s: float) -> float:
    """Return the next round number above the user's estimate, which is up to ten times too long."""
    guess = run_s * rng.choice((1.1, 1.5, 2.0, 3.0, 5.0, 10.0))
    if rng.random() < LEAVES_DEFAULT:
        return rng.choice((DAY_S, LONGEST_S)) if guess < LONGEST_S else guess
    return next((limit for limit in ROUND_S if guess <= limit), LONGEST_S)


def _zipf(rng: Random, count: int, skew: float) -> int:
    weights = [1 / (rank + 1) ** skew for rank in range(count)]
    return rng.choices(range(count), weights)[0]


def lognormal(median_s: float, sigma: float) -> RunTime:
    """Return a distribution of run times that does not depend on the size."""
    return lambda rng, _: min(LONGEST_S, max(1.0, median_s * math.exp(rng.gauss(0, sigma))))


def growing(median_s: float, sigma: float, power: float) -> RunTime:
    """Return a distribution of run times with a median that grows with a power of the size."""
    return lambda rng, size: min(LONGEST_S, median_s * size**power * math.exp(rng.gauss(0, sigma)))


def lublin_size(rng: Random, units: int) -> int:
    """Draw a size: a serial job, or a two-stage uniform distribution of the logarithm that prefers powers of two."""
    if rng.random() < 0.244:
        return 1
    top = math.log2(units)
    low, middle = 0.8, max(0.9, top - 2.5)
    log = rng.uniform(low, middle) if rng.random() < 0.86 else rng.uniform(middle, top)
    return 2 ** round(log) if rng.random() < 0.76 else round(2**log)


def lublin_run_s(rng: Random, size: int) -> float:
    """Draw a run time: a hyper-gamma distribution of the logarithm, with more long jobs among the larger sizes."""
    short = min(0.95, max(0.05, 0.78 - 0.0054 * size))
    log = rng.gammavariate(4.2, 0.94) if rng.random() < short else rng.gammavariate(312, 0.03)
    return min(LONGEST_S, math.exp(log))


def of_shares(shares: dict[int, float]) -> Size:
    """Return a distribution of sizes with these weights."""
    sizes, weights = list(shares), list(shares.values())
    return lambda rng, _: rng.choices(sizes, weights)[0]


def mixture(short: RunTime, long: RunTime, share: float) -> RunTime:
    """Return a mixture of both distributions. `share` is the probability of the short one."""
    return lambda rng, size: (short if rng.random() < share else long)(rng, size)


PHILLY = of_shares({1: 80, 2: 6, 4: 6, 8: 5, 16: 2, 32: 0.7, 64: 0.3})
HELIOS = of_shares({1: 60, 2: 8, 4: 10, 8: 16, 16: 4, 32: 1.5, 64: 0.5})
PAI = of_shares({1: 55, 2: 15, 4: 8, 8: 6, 16: 6, 24: 3, 40: 3, 96: 1})
CAPABILITY = of_shares({32: 35, 64: 15, 128: 15, 256: 12, 512: 10, 1024: 8, 2048: 4, 4096: 1})
SHORT_AND_LONG_RUNS = mixture(lognormal(60, 1.5), lognormal(7200, 1.4), 0.6)


def _cpus(name: str, units: int, size: Size, run_s: RunTime, **more: float) -> Kind:
    return Kind(name, units, gpus=False, size=size, run_s=run_s, **more)


def _gpus(name: str, units: int, size: Size, run_s: RunTime, **more: float) -> Kind:
    return Kind(name, units, gpus=True, size=size, run_s=run_s, **more)


CHOSEN_ON = (
    _cpus("supercomputer", 256, lublin_size, lublin_run_s),
    _gpus("philly", 256, PHILLY, growing(900, 2.0, 0.3), repeats=4, at_once=0.5),
    _cpus("arrays", 512, lublin_size, lognormal(1200, 1.5), repeats=60, at_once=1.0),
    _cpus("campus", 128, lublin_size, lublin_run_s, repeats=6, at_once=0.3, skew=1.3),
)
"""Kinds used, with other seeds, to choose the default ordering rule."""
HELD_OUT = (
    _gpus("helios", 320, HELIOS, SHORT_AND_LONG_RUNS, repeats=8, at_once=0.7),
    _gpus("pai", 512, PAI, growing(600, 1.7, 0.1), repeats=20, at_once=0.8),
    _cpus("capability", 4096, CAPABILITY, growing(400, 1.2, 0.3), repeats=3, at_once=0.2),
    _cpus("one-heavy-user", 256, lublin_size, lognormal(1800, 1.7), repeats=25, at_once=0.6, skew=2.5),
    _gpus("surge", 256, PHILLY, lognormal(1500, 1.8), repeats=5, at_once=0.5, surge=4.0),
    _cpus("flat", 1024, lublin_size, lognormal(3600, 1.0), tide=0.0),
)
"""Kinds used to judge the rule. No rule may be tuned on them."""
LOADS = (("log", 0.6), ("menu", 0.75), ("exact", 0.9))
"""(limits, load): each kind is judged with each pair."""
