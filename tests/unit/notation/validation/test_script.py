"""Results for batch scripts, compared with recorded results of sbatch 22.05 (tests/data)."""

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
DATA = Path(__file__).parents[3] / "data" / "sbatch_22_05.jsonl"
RELATIVE = ("begin", "deadline")
"""Counted from when they were measured; test_deadlines has them."""


def validate(text: str, **settings: Any) -> ValidationResult:
    place = OptionSource(cwd="CWD", environ=settings.pop("environ", {}), now=NOW, is_root=True)
    return validate_script(text, place, **settings)


def validated(*lines: str, **settings: Any) -> ValidationResult:
    return validate("#!/bin/bash\n" + "\n".join(lines) + "\n", **settings)


def test_recorded_scripts_have_sbatchs_result() -> None:
    cases = [json.loads(line) for line in DATA.read_text().splitlines()]
    assert len(cases) > 100
    for case in cases:
        found = validated(*case["directives"])
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
def test_values_are_derived_from_each_other(lines: list[str], shown: list[dict[str, str]]) -> None:
    assert validated(*lines).shown == shown


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
def test_a_rejection_has_slurms_message_the_line_and_a_hint(line: str, words: str, hint: str) -> None:
    rejection = validated("#SBATCH -J ok", f"#SBATCH {line}").rejection
    assert rejection is not None
    assert rejection.lines[-1].startswith(words) and hint in rejection.hint
    assert rejection.line in (0, 3)


def test_every_invalid_accounting_frequency_is_reported() -> None:
    rejection = validated("#SBATCH --acctg-freq=v,30,map:1").rejection
    assert rejection is not None
    assert rejection.lines == [
        f"error: Invalid --acctg-freq specification: {word}" for word in ("v", "map:1")
    ]


def test_left_over_words_have_the_exit_code_of_invalid_values() -> None:
    left, value, together = (
        validated(f"#SBATCH {line}").rejection for line in ("-n 2 y", "-t 12h", "--mem=1 --mem-per-cpu=1")
    )
    assert left is not None and value is not None and together is not None
    assert (left.exit_code, value.exit_code, together.exit_code) == (255, 255, 1)


@pytest.mark.parametrize(
    ("line", "word"),
    [("--hint=help", "nomultithread"), ("--mem-bind=Help", "local"), ("--gres=list", "gpu[[:type]:count]")],
)
def test_options_list_their_values_on_request(line: str, word: str) -> None:
    rejection = validated(f"#SBATCH {line}").rejection
    assert rejection is not None and word in rejection.lines[0]


def test_variables_override_the_script_and_the_command_line_overrides_variables() -> None:
    environ = {
        "SBATCH_TIMELIMIT": "20",
        "SBATCH_REQUEUE": "0",
        "SBATCH_OVERCOMMIT": "yes",
        "SBATCH_REQ_SWITCH": "2",
    }
    found = validated("#SBATCH -t 10 --requeue", environ=environ)
    assert found.shown == [{"overcommit": "set", "time": "00:20:00"}]
    assert validated("#SBATCH -t 10", environ=environ, words=["-t30"]).shown[0]["time"] == "00:30:00"


def test_options_of_a_sites_plugins_are_accepted() -> None:
    line = "#SBATCH --image=nersc/pytorch:24.08.01"
    refused = validated(line).rejection
    assert refused is not None and refused.lines[0] == "unrecognized option '--image=nersc/pytorch:24.08.01'"
    known = with_plugins(SBATCH_22_05, {"image": "required"})
    assert validated(line, known=known).shown == [{"image": "nersc/pytorch:24.08.01"}]
    assert validated("#SBATCH --container-image=a", known=SBATCH).accepted


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
def test_any_text_has_a_result(pieces: list[str]) -> None:
    for text in ("".join(pieces), "#!/bin/sh\n#SBATCH " + " ".join(pieces)):
        found = validate(text)
        assert found.accepted == (found.rejection is None)
        assert found.accepted or (found.rejection and found.rejection.lines)


@given(st.binary(max_size=200))
def test_any_bytes_have_a_result(data: bytes) -> None:
    validate((b"#!/bin/sh\n#SBATCH " + data).decode(errors="surrogateescape"))


def test_a_very_long_line_has_a_result() -> None:
    assert validated("#SBATCH -J " + "x" * 200_000).shown[0]["job-name"] == "x" * 200_000
    assert validated("#SBATCH --array=" + "1," * 100_000 + "1").accepted


def test_surplus_nodes_are_removed_from_the_end_of_the_sorted_list() -> None:
    assert validated("#SBATCH -w n3,n1,n2 -n 2").shown == [{"nodelist": "n[1-2]", "ntasks": "2"}]


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
def test_a_script_with_very_many_lines_is_read(line: str) -> None:
    lines = [line] * MANY_LINES
    found = validated(*lines)
    assert found.accepted and len(found.shown) == 1 + lines.count("#SBATCH hetjob")


@pytest.mark.parametrize(
    "line", ["--comment=", "--exclude=", "--dependency=", "--gres=gres:", '--comment="', "--propagate=AS,"]
)
def test_the_longest_possible_value_is_read_quickly(line: str) -> None:
    """A parser that reads each character more than once would take minutes."""
    closing = '"' if line.endswith('"') else ""
    found = validated(f"#SBATCH {line}{'AS,' * 500_000}{closing}", *["#SBATCH hetjob"] * 500)
    assert found.rejection is None or "gres" in line
    assert found.shown


def test_the_number_of_nodes_named_by_all_components_is_limited() -> None:
    found = validated(*["#SBATCH -w n[1-60000]", "#SBATCH hetjob"] * 1000)
    assert found.rejection is not None
    assert found.rejection.lines == [
        "error: the components name more than 1,000,000 nodes",
        "error: memory allocation failure",
    ]
    assert len(found.shown) == 16
