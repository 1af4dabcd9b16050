"""Results for command lines of srun and salloc, compared with recorded results of Slurm 22.05 (tests/data)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.command_lines import validate_launch

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SALLOC_22_05, SRUN_22_05
from warpdeck.notation.validation.result import ValidationResult

NOW = 1_800_000_000.0
DATA = Path(__file__).parents[3] / "data" / "launch_22_05.jsonl"
TABLES = {"salloc": SALLOC_22_05, "srun": SRUN_22_05}


def _id_of(text: str) -> int | None:
    return 0 if text in ("0", "root") else None


def validated(command: str, *words: str, environ: dict[str, str] | None = None) -> ValidationResult:
    place = OptionSource(
        cwd="CWD", environ=environ or {}, now=NOW, is_root=True, user_id=_id_of, group_id=_id_of
    )
    return validate_launch(words, place, known=TABLES[command])


def test_recorded_command_lines_have_slurms_result() -> None:
    cases = [json.loads(line) for line in DATA.read_text().splitlines()]
    refused = dict.fromkeys(TABLES, 0)
    for case in cases:
        command, *words = case["words"]
        found = validated(command, *words, "true", environ=case.get("env"))
        rejection = found.rejection
        told = (
            None
            if rejection is None
            else ([_printed(command, line) for line in rejection.lines], rejection.exit_code)
        )
        real = None if case["accepted"] else (case["said"], case["exit"])
        assert (told, *found.shown) == (real, *([case["shown"]] if "shown" in case else found.shown)), case
        refused[command] += rejection is not None
    assert min(refused.values()) > 100


def _printed(command: str, line: str) -> str:
    return line if line.startswith("Try ") else f"{command}: {line}"


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        (["-r1", "true"], {}, "fatal: --relative option invalid for job allocation request"),
        (["-r1", "true"], {"SLURM_JOB_ID": "7"}, ""),
        (["--gpus-per-task=1", "true"], {"SLURM_JOB_ID": "7"}, ""),
        (["--gpus-per-task=1", "true"], {}, "error: Invalid generic resource (gres) specification"),
        (["--signal=B:USR1", "true"], {}, "error: Invalid --signal specification"),
        (["-n1", "sh", "-n", "x"], {}, ""),
    ],
)
def test_inside_a_job_resources_are_not_asked_for_again(
    words: list[str], environ: dict[str, str], said: str
) -> None:
    rejection = validated("srun", *words, environ=environ).rejection
    assert (rejection.lines[-1] if rejection else "") == said


@given(
    st.sampled_from(sorted(TABLES)),
    st.lists(
        st.one_of(st.text(max_size=20), st.sampled_from(sorted(SRUN_22_05.options)).map("--{}=x".format))
    ),
)
def test_any_words_have_a_result(command: str, words: list[str]) -> None:
    validated(command, *words)
