"""What sbatch says of a script, beside the verdicts and values that the real sbatch 22.05 gave (tests/data)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.command_lines import validate_script

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SBATCH, SBATCH_22_05, with_plugins
from warpdeck.notation.validation.result import ValidationResult

NOW = 1_800_000_000.0
DATA = Path(__file__).parents[2] / "data" / "sbatch_22_05.jsonl"
RELATIVE = ("begin", "deadline")
"""Counted from when they were measured; test_moments has them."""


def verdict(text: str, **settings: Any) -> ValidationResult:
    place = OptionSource(cwd="CWD", environ=settings.pop("environ", {}), now=NOW, is_root=True)
    return validate_script(text, place, **settings)


def judged(*lines: str, **settings: Any) -> ValidationResult:
    return verdict("#!/bin/bash\n" + "\n".join(lines) + "\n", **settings)


def test_every_measured_script_has_the_real_verdict_and_values() -> None:
    cases = [json.loads(line) for line in DATA.read_text().splitlines()]
    assert len(cases) > 100
    for case in cases:
        found = judged(*case["directives"])
        ours, real = (
            [{k: v for k, v in part.items() if k not in RELATIVE} for part in parts]
            for parts in (found.shown, case["defined"])
        )
        assert (found.accepted, ours) == (case["accepted"], real), case["directives"]
        assert found.rejection is None or found.rejection.lines == case["messages"]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["#SBATCH hetjob", "#SBATCH -n 2"], [{}, {"ntasks": "2"}]),
        (
            ["#SBATCH -n1 -t 5", "#SBATCH packjob", "#SBATCH -p gpu"],
            [{"ntasks": "1", "time": "00:05:00"}, {"partition": "gpu", "time": "00:05:00"}],
        ),
        (["#SBATCH -N 4 -n 2"], [{"nodes": "2", "ntasks": "2"}]),
        (["#SBATCH --mincpus=2 -c 4"], [{"cpus-per-task": "4", "mincpus": "4"}]),
        (["#SBATCH -w n[1-4] -n 2"], [{"nodelist": "n[1-2]", "ntasks": "2"}]),
        (["#SBATCH --requeue --no-requeue"], [{"no-requeue": "no-requeue", "requeue": "no-requeue"}]),
        (["#SBATCH --mail-type=END", "#SBATCH --mail-type=begin"], [{"mail-type": "BEGIN,END"}]),
        (["#SBATCH -D /x -o a.out"], [{"chdir": "/x", "output": "/x/a.out"}]),
        (
            ["#SBATCH --gres=gpu:1,gpu:a:1 -m plane=4"],
            [{"distribution": "plane=4", "gres": "gres:gpu:1,gres:gpu:a:1"}],
        ),
    ],
)
def test_values_follow_from_each_other(lines: list[str], shown: list[dict[str, str]]) -> None:
    assert judged(*lines).shown == shown


@pytest.mark.parametrize(
    ("line", "words", "hint"),
    [
        ("-J a b", "error: Invalid directive found in batch script: b", "quote"),
        ("-t 12h", "error: Invalid --time specification", "D-HH:MM:SS"),
        (":", "fatal: job.sh: line 3: Unexpected `:` in [:]", "remove the line"),
        ("-w n[3-1]", "error: memory allocation failure", "node["),
        (
            "--mem=1 --mem-per-cpu=1",
            "fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
            "keep one",
        ),
        ("-M far", "error: 'far' can't be reached now", "leave"),
        ("-n 2 --gpus=3 --gpus-per-task=2", "error: Invalid generic resource (gres) specification", "divide"),
    ],
)
def test_a_refusal_has_slurms_words_the_line_and_a_way_out(line: str, words: str, hint: str) -> None:
    fault = judged("#SBATCH -J ok", f"#SBATCH {line}").rejection
    assert fault is not None
    assert fault.lines[-1].startswith(words) and hint in fault.hint
    assert fault.line in (0, 3)


def test_each_frequency_that_is_none_is_told_of() -> None:
    fault = judged("#SBATCH --acctg-freq=v,30,map:1").rejection
    assert fault is not None
    assert fault.lines == [f"error: Invalid --acctg-freq specification: {word}" for word in ("v", "map:1")]


def test_words_that_are_left_over_end_sbatch_as_a_value_does_that_is_none() -> None:
    left, value, together = (
        judged(f"#SBATCH {line}").rejection for line in ("-n 2 y", "-t 12h", "--mem=1 --mem-per-cpu=1")
    )
    assert left is not None and value is not None and together is not None
    assert (left.exit_code, value.exit_code, together.exit_code) == (255, 255, 1)


@pytest.mark.parametrize(
    ("line", "word"),
    [("--hint=help", "nomultithread"), ("--mem-bind=Help", "local"), ("--gres=list", "gpu[[:type]:count]")],
)
def test_who_asks_an_option_for_its_values_is_told_them(line: str, word: str) -> None:
    fault = judged(f"#SBATCH {line}").rejection
    assert fault is not None and word in fault.lines[0]


def test_variables_outrank_the_script_and_yield_to_the_command_line() -> None:
    environ = {
        "SBATCH_TIMELIMIT": "20",
        "SBATCH_REQUEUE": "0",
        "SBATCH_OVERCOMMIT": "yes",
        "SBATCH_REQ_SWITCH": "2",
    }
    found = judged("#SBATCH -t 10 --requeue", environ=environ)
    assert found.shown == [{"overcommit": "set", "time": "00:20:00"}]
    assert judged("#SBATCH -t 10", environ=environ, words=["-t30"]).shown[0]["time"] == "00:30:00"


def test_options_of_plugins_are_known_when_the_site_says_so() -> None:
    line = "#SBATCH --image=nersc/pytorch:24.08.01"
    refused = judged(line).rejection
    assert refused is not None and refused.lines[0] == "unrecognized option '--image=nersc/pytorch:24.08.01'"
    known = with_plugins(SBATCH_22_05, {"image": "required"})
    assert judged(line, known=known).shown == [{"image": "nersc/pytorch:24.08.01"}]
    assert judged("#SBATCH --container-image=a", known=SBATCH).accepted


def test_all_166_long_options_of_slurm_are_known() -> None:
    known = {name for table in _tables() for name in table.options}
    assert len(known - {name for name in known if name.startswith(("container-", "no-container-"))}) >= 160
    assert {"tres-per-task", "segment", "container-id", "wait-for-children"} <= known


def _tables() -> list[Any]:
    from warpdeck.notation.options.option_table import SALLOC, SRUN

    return [SBATCH, SALLOC, SRUN]


WORDS = st.sampled_from(
    [
        "#!/bin/sh",
        "#SBATCH",
        "#SLURM",
        " -",
        "--",
        "=",
        ":",
        "hetjob",
        '"',
        "'",
        "\\",
        "#",
        "\0",
        "\r\n",
        "\n",
        "[1-",
    ]
    + [f"--{name}" for name in SBATCH_22_05.options]
    + [f"-{letter}" for letter in SBATCH_22_05.shorts]
)


@given(st.lists(WORDS | st.text(max_size=6) | st.sampled_from(["9" * 60, "1-2", "gpu:2"]), max_size=30))
def test_any_text_has_a_verdict(pieces: list[str]) -> None:
    for text in ("".join(pieces), "#!/bin/sh\n#SBATCH " + " ".join(pieces)):
        found = verdict(text)
        assert found.accepted == (found.rejection is None)
        assert found.accepted or (found.rejection and found.rejection.lines)


@given(st.binary(max_size=200))
def test_any_bytes_have_a_verdict(data: bytes) -> None:
    verdict((b"#!/bin/sh\n#SBATCH " + data).decode(errors="surrogateescape"))


def test_a_very_long_line_has_a_verdict() -> None:
    assert judged("#SBATCH -J " + "x" * 200_000).shown[0]["job-name"] == "x" * 200_000
    assert judged("#SBATCH --array=" + "1," * 100_000 + "1").accepted


def test_nodes_that_are_one_too_many_are_the_last_by_name() -> None:
    assert judged("#SBATCH -w n3,n1,n2 -n 2").shown == [{"nodelist": "n[1-2]", "ntasks": "2"}]


MANY_LINES = 10_000


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH hetjob",
        "#SBATCH -n 2",
        "#SBATCH -J " + "x" * 10,
        "#SBATCH --gres=gpu:a:1,gpu:b:2",
    ],
)
def test_a_script_of_very_many_lines_is_read(line: str) -> None:
    lines = [line] * MANY_LINES
    found = judged(*lines)
    assert found.accepted and len(found.shown) == 1 + lines.count("#SBATCH hetjob")


@pytest.mark.parametrize(
    "line", ["--comment=", "--exclude=", "--dependency=", "--gres=gres:", '--comment="', "--propagate=AS,"]
)
def test_a_value_as_long_as_a_script_may_be_is_read_once(line: str) -> None:
    """What takes more than one look at each letter takes minutes here."""
    closing = '"' if line.endswith('"') else ""
    found = judged(f"#SBATCH {line}{'AS,' * 500_000}{closing}", *["#SBATCH hetjob"] * 500)
    assert found.rejection is None or "gres" in line
    assert found.shown


def test_the_nodes_that_all_components_name_have_a_limit() -> None:
    found = judged(*["#SBATCH -w n[1-60000]", "#SBATCH hetjob"] * 1000)
    assert found.rejection is not None
    assert found.rejection.lines == [
        "error: the components name more than 1,000,000 nodes",
        "error: memory allocation failure",
    ]
    assert len(found.shown) == 16
