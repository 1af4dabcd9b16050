"""squeue's and sinfo's formats beside a real Slurm, spelled in any way: widths of 0 and too narrow ones, to either side, text around.

A minus behind a long name is left out: what Slurm makes of it is no format. Jobs wait and nodes are idle, so that nothing moves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side

pytestmark = pytest.mark.slurm
JOBS = (
    ("-H", "-J", "plain"),
    ("-H", "-J", "sizes", "-n4", "--mem=2G", "-t", "25:00", "-p", "debug", "--comment", "a comment"),
    ("-H", "-J", "gpus", "--gres=gpu:h100:2", "--mem-per-cpu=300", "-t", "3-0", "--nice=7", "--no-requeue"),
    ("-H", "-J", "a\x1b]52;c;AA\x07b\x1b[2J\nFORGED\tc", "--comment=d\x1b[1m\nFORGED"),
    ("-H", "-J", "array", "--array=1-9:2%2", "-w", "n3", "-x", "n4"),
    ("-H", "-J", "sparse", "--array=1,2,4,7,11,16,22,29,37,46,56,67,79,92"),
)
WIDTHS = (0, 1, 2, 3, 5, 8, 12, 20, 30)
LETTERS = ("%{w}{c}", "%.{w}{c}", "%-{w}{c}", "%{w}.5{c}", "{c}%%%{w}{c} ", "%{c}|", "%0{w}{c}x")
NAMES = ("{c}", "{c}:{w}", "{c}:.{w}", "{c}:{w}suf", "{c}:.{w}x y", "{c}:", "{c}::{w}")
"""How a field may be spelled."""
OF_SQUEUE = "aAcCdDfFgGhHiIjJkKlmnNoPrRsTtuUvwWxXyYz"
OF_SINFO = "aAcCdDfFGhlmNPRtTXYzZw"
LONG_OF_SQUEUE = (
    "jobid name username state statecompact timelimit numnodes numcpus partition account reasonlist minmemory feature arrayjobid "
    "arraytaskid dependency exc_nodes reqnodes nice comment tres-per-node licenses oversubscribe userid"
)
LONG_OF_SINFO = (
    "nodelist partition partitionname available time nodes statelong statecompact cpus memory sockets cores threads gres features "
    "weight nodeai cpusstate gresused root size share prioritytier reason"
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(Pair) as both:
        for job in JOBS:
            both.slurm.ok("sbatch", *job, "--wrap", "sleep 1000")
            both.warpdeck.submit(*job)
        yield both


@pytest.mark.parametrize("seed", range(12))  # 72 command lines
def test_any_spelling_of_a_field_prints_what_slurm_s_prints(pair: Pair, seed: int) -> None:
    rng = random.Random(seed)

    def form(fields: Sequence[str], ways: Sequence[str], joint: str) -> str:
        argv = (
            rng.choice(ways).format(w=rng.choice(WIDTHS), c=rng.choice(fields))
            for _ in range(rng.randint(1, 6))
        )
        return joint.join(argv)

    pair.assert_same("squeue", "-S", "i", "-o", form(OF_SQUEUE, LETTERS, ""))
    pair.assert_same("squeue", "-S", "i", "-O", form(LONG_OF_SQUEUE.split(), NAMES, ","))
    pair.assert_same("squeue", "-S", "i", env={"SQUEUE_FORMAT2": form(LONG_OF_SQUEUE.split(), NAMES, ",")})
    pair.assert_same("sinfo", "-o", form(OF_SINFO, LETTERS, ""))
    pair.assert_same("sinfo", "-O", form(LONG_OF_SINFO.split(), NAMES, ","))
    pair.assert_same("sinfo", env={"SINFO_FORMAT": form(OF_SINFO, LETTERS, "")})
