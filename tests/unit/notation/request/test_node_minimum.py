"""Minimum hardware of nodes (--tmp, --extra-node-info), and the number of nodes with --use-min-nodes and --spread-job."""

from __future__ import annotations

from typing import Any

import pytest

from warpdeck.base.errors import UserError
from warpdeck.notation.options.getopt import given_words
from warpdeck.notation.options.option_table import SBATCH
from warpdeck.notation.request.job_request import parse_request


def resources(*words: str) -> dict[str, Any]:
    options, _ = given_words([f"--{word}" for word in words], SBATCH, "command line")
    found: dict[str, Any] = parse_request(options, {}, now=0.0)[0]["resources"]
    return found


@pytest.mark.parametrize(
    ("words", "least"),
    [
        (["tmp=100"], {"tmp_disk_bytes": 100 * 2**20}),
        (["tmp=1T"], {"tmp_disk_bytes": 2**40}),
        (["tmp=5G", "tmp=0"], {"tmp_disk_bytes": None}),
        (["extra-node-info=2"], {"sockets": 2, "cores": None, "threads": None}),
        (["extra-node-info=2:8:1"], {"sockets": 2, "cores": 8, "threads": 1}),
        (["extra-node-info=2-4:*"], {"sockets": 2, "cores": None, "threads": None}),
        (["extra-node-info=1:1:1:1"], {"sockets": 1, "cores": 1, "threads": 1}),
        (["extra-node-info=1k"], {"sockets": 1024, "cores": None, "threads": None}),
        (["sockets-per-node=2", "cores-per-socket=16"], {"sockets": 2, "cores": 16}),
    ],
)
def test_minimum_hardware_is_part_of_the_request(words: list[str], least: dict[str, int | None]) -> None:
    assert resources(*words)["node_minimum"] == least


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("tmp=much", "much"),
        ("extra-node-info=2:x", '--extra-node-info=2:x: Invalid numeric value "x" for second arg of -B'),
        ("sockets-per-node=-1", 'Invalid numeric value "-1" for --sockets-per-node'),
        ("sockets-per-node=2-4", 'Invalid numeric value "2-4" for --sockets-per-node'),
        ("cores-per-socket=" + "9" * 40, "to big for --cores-per-socket: '9999"),
        ("cores-per-socket=20000000", "--cores-per-socket=20000000 is out of range"),
    ],
)
def test_an_invalid_count_is_named(word: str, named: str) -> None:
    with pytest.raises(UserError, match=named):
        resources(word)


def test_spread_job_uses_many_nodes_and_use_min_nodes_few() -> None:
    assert resources("ntasks=4")["nodes_open"]
    spread = resources("ntasks=4", "spread-job")
    assert (spread["nodes_min"], spread["nodes_max"], spread["nodes_open"]) == (1, 4, False)
    assert "spread" not in spread
    assert resources("nodes=1-4", "use-min-nodes")["use_min_nodes"]
