"""Format strings of squeue and sinfo beside a real Slurm, with random spellings of fields.

They include widths of 0, too narrow widths, both alignments, and surrounding text. A minus after a long name
is left out, because Slurm's output for it is no valid format. Jobs wait and nodes are idle, so that the state
does not change meanwhile.
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
"""Possible spellings of a field."""
SQUEUE_LETTERS = "aAcCdDfFgGhHiIjJkKlmnNoPrRsTtuUvwWxXyYz"
SINFO_LETTERS = "aAcCdDfFGhlmNPRtTXYzZw"
SQUEUE_NAMES = (
    "jobid name username state statecompact timelimit numnodes numcpus partition account reasonlist minmemory feature arrayjobid "
    "arraytaskid dependency exc_nodes reqnodes nice comment tres-per-node licenses oversubscribe userid"
)
SINFO_NAMES = (
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
def test_squeue_and_sinfo_print_random_formats_as_in_slurm(pair: Pair, seed: int) -> None:
    rng = random.Random(seed)

    def random_format(fields: Sequence[str], spellings: Sequence[str], separator: str) -> str:
        fields_text = (
            rng.choice(spellings).format(w=rng.choice(WIDTHS), c=rng.choice(fields))
            for _ in range(rng.randint(1, 6))
        )
        return separator.join(fields_text)

    pair.assert_same("squeue", "-S", "i", "-o", random_format(SQUEUE_LETTERS, LETTERS, ""))
    pair.assert_same("squeue", "-S", "i", "-O", random_format(SQUEUE_NAMES.split(), NAMES, ","))
    pair.assert_same(
        "squeue", "-S", "i", env={"SQUEUE_FORMAT2": random_format(SQUEUE_NAMES.split(), NAMES, ",")}
    )
    pair.assert_same("sinfo", "-o", random_format(SINFO_LETTERS, LETTERS, ""))
    pair.assert_same("sinfo", "-O", random_format(SINFO_NAMES.split(), NAMES, ","))
    pair.assert_same("sinfo", env={"SINFO_FORMAT": random_format(SINFO_LETTERS, LETTERS, "")})
