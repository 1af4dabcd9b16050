"""#PBS and #BSUB lines, compared with recorded results of sbatch 22.05 (tests/data), and the requests that they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.command_lines import validate_script

from warpdeck.base.errors import UserError
from warpdeck.client.submission import Draft, draft_script
from warpdeck.notation.foreign.option_mapping import MappedOption
from warpdeck.notation.foreign.pbs_resources import resources
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.validation.result import ValidationResult

NOW = 1_800_000_000.0
DATA = Path(__file__).parents[3] / "data" / "other_directives_22_05.jsonl"
UNSURE = ("begin", "hold")
"""One depends on when it was measured; with the other all were, so that they stay."""


def script(*lines: str) -> str:
    return "#!/bin/bash\n" + "\n".join(lines) + "\n"


def validated(
    *lines: str, environ: dict[str, str] | None = None, words: list[str] | None = None
) -> ValidationResult:
    place = OptionSource(cwd="CWD", environ=environ or {}, now=NOW, is_root=True)
    return validate_script(script(*lines), place, words=words or [])


def drafted(*lines: str, environ: dict[str, str] | None = None, options: list[str] | None = None) -> Draft:
    return draft_script(
        script(*lines), "job.sh", options=options or [], cwd="/", environ=environ or {}, now=NOW
    )


def test_recorded_scripts_have_sbatchs_result() -> None:
    cases = [json.loads(line) for line in DATA.read_text().splitlines()]
    assert len(cases) > 600
    for case in cases:
        found = validated(*case["directives"], environ=case.get("environ"), words=case.get("words"))
        shown, real = (
            [{option: value for option, value in part.items() if option not in UNSURE} for part in parts]
            for parts in (found.shown, case["defined"])
        )
        assert (found.accepted, shown) == (case["accepted"], real), case
        assert found.rejection is None or found.rejection.lines == case["messages"], case


def test_pbs_lines_become_fields_of_the_request() -> None:
    request = drafted(
        "#PBS -N train -q gpu -A lab",
        "#PBS -l nodes=2:ppn=4:gpus=1,walltime=01:00:00,mem=4gb -t 1-3 -h -p 5",
        "#PBS -o out -m ae -M me@lab -W depend=afterok:7",
    ).request
    assert (request["name"], request["partition"], request["account"]) == ("train", "gpu", "lab")
    resources: dict[str, Any] = request["resources"]
    assert (resources["nodes_min"], resources["tasks"], resources["gpus"]["per_node"]) == (2, 8, 1)
    assert (resources["mem_per_node_bytes"], request["time_limit_s"]) == (4 << 30, 3600)
    assert request["hold"] and request["nice"] == 5 and request["array"]["ranges"] == [(1, 3, 1)]


def test_bsub_lines_become_fields_of_the_request() -> None:
    request = drafted("#BSUB -J a -n 2,4 -W 90 -M 2000000", "#BSUB -cwd /data", "#BSUB -x").request
    assert (request["name"], request["resources"]["tasks"], request["time_limit_s"]) == ("a", 4, 5400)
    assert request["chdir"] == "/data" and request["resources"]["mem_per_cpu_bytes"] == 1954 << 20


@pytest.mark.parametrize(
    ("lines", "environ", "options", "name"),
    [
        (["#PBS -N other", "#SBATCH -J own"], {}, [], "other"),
        (["#SBATCH -J own", "true", "#PBS -N other"], {}, [], "other"),
        (["#PBS -N other", "#BSUB -J third"], {}, [], "third"),
        (["#PBS -N other"], {"SBATCH_JOB_NAME": "environment"}, [], "environment"),
        (["#PBS -N other"], {"SBATCH_JOB_NAME": "environment"}, ["-Jline"], "line"),
        (["#PBS -N other", "#SBATCH -J own"], {}, ["--ignore-pbs"], "own"),
        (["#PBS -N other", "#SBATCH -J own"], {"SBATCH_IGNORE_PBS": "1"}, [], "own"),
        (["#PBS -N other", "#SBATCH -J own"], {"SBATCH_IGNORE_PBS": "0"}, [], "other"),
        (["#PBS -N other", "#SBATCH -J own --ignore-pbs"], {}, [], "own"),
        (["x"] * 100 + ["#PBS -N other"], {}, [], "other"),
        (["x"] * 101 + ["#PBS -N other"], {}, [], "job.sh"),
    ],
)
def test_pbs_lines_can_be_disabled(
    lines: list[str], environ: dict[str, str], options: list[str], name: str
) -> None:
    assert drafted(*lines, environ=environ, options=options).request["name"] == name


@pytest.mark.parametrize("others", [[[]], [[], []]])
def test_ignore_pbs_applies_to_all_further_components(others: list[list[str]]) -> None:
    text = script("#PBS -N other", "#SBATCH -J own --ignore-pbs")
    draft = draft_script(text, "job.sh", others=others, cwd="/", environ={}, now=NOW)
    assert [each["name"] for each in draft.components] == ["own"] * len(others)


@pytest.mark.parametrize(
    ("line", "environ", "umask"),
    [
        ("#PBS -W umask=027", {}, "0027"),
        ("#PBS -W umask=63", {}, "0077"),
        ("#PBS -W umask=027", {"SLURM_UMASK": "0002"}, "0027"),
        ("#PBS -W depend=afterok:1", {"SLURM_UMASK": "0002"}, "0002"),
    ],
)
def test_the_umask_of_the_script_replaces_the_submitters_umask(
    line: str, environ: dict[str, str], umask: str
) -> None:
    assert drafted(line, environ=environ).request["env"]["SLURM_UMASK"] == umask


def test_pbs_lines_extend_lists_of_sbatch_lines() -> None:
    environ = {"A": "1", "B": "2", "C": "3"}
    request = drafted("#SBATCH --export=A", "#PBS -v B", environ=environ).request
    assert {"A", "B"} <= request["env"].keys() and "C" not in request["env"]


def test_words_without_effect_are_noted_with_their_line() -> None:
    notes = drafted("#PBS -j oe", "#PBS -V -l walltime=5,pmem=2gb").notes
    assert notes == [
        "job.sh:2: -j oe has no effect",
        "job.sh:3: -V has no effect",
        "job.sh:3: -l pmem=2gb has no effect",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#PBS -Z", "job.sh:2: invalid option -- 'Z'; Unrecognized command line parameter ?"),
        ("#PBS -N a b", "job.sh:2: Invalid argument: b"),
        ("#BSUB -n 4,", "job.sh:2: #BSUB -n format not correct given: '4,'"),
        ("#PBS -N 'a", "job.sh:2: Unmatched `'`"),
        ("#PBS -l walltime=x", "job.sh:2: "),
        ("#PBS -l file=2xb", "job.sh:2: "),
    ],
)
def test_invalid_words_are_refused_with_their_line_and_a_hint(line: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        drafted(line)
    assert caught.value.message.startswith(words) and caught.value.hint


def test_the_size_of_the_options_of_all_components_is_limited() -> None:
    rejection = validated(*["#SBATCH hetjob"] * 110, "#PBS" + " -V" * 1000).rejection
    assert (
        rejection is not None and "the options of the #PBS lines are longer than 16 MiB" in rejection.lines[0]
    )


@pytest.mark.parametrize("line", ["#PBS -v A", "#PBS -l naccelerators=1", "#PBS -l proc=a"])
def test_the_size_of_a_list_that_grows_with_every_line_is_limited(line: str) -> None:
    """The list of each line is kept, so a script of valid size could take all memory."""
    few, many = [line] * 1000, [line] * 6_000
    assert validated(*few).accepted
    rejection = validated(*many).rejection
    assert rejection is not None and "are longer than 16 MiB" in rejection.lines[0]
    with pytest.raises(UserError, match="are longer than 16 MiB"):
        drafted(*many)


def test_a_long_list_of_processor_types_is_one_option() -> None:
    kinds = [f"k{at}" for at in range(10_000)]
    text = ",".join(f"proc={kind},passed" for kind in kinds)
    found = list(resources(text, lambda option: "first"))
    assert [mapped for mapped in found if mapped.option] == [
        MappedOption("constraint", ",".join([*reversed(kinds), "first"]))
    ]


WORDS = st.sampled_from(
    [
        "-l",
        "-W",
        "-m",
        "-n",
        "-cwd",
        "--",
        "nodes=",
        "ppn=",
        "+",
        ":",
        ",",
        "=",
        "select=",
        "ncpus=",
        "umask=",
    ]
)


@given(
    st.sampled_from(["#PBS ", "#BSUB "]), st.lists(WORDS | st.text(max_size=5), max_size=20), st.text("- ")
)
def test_any_line_has_a_result(mark: str, pieces: list[str], between: str) -> None:
    found = validated(mark + between.join(pieces))
    assert found.accepted == (found.rejection is None)


MANY_CHARS = 200_000


@pytest.mark.parametrize(
    "piece",
    ["nodes=" + "n1+" * 100, "mem=1", "nodes=" + "1:ppn=2+" * 100, "x", "proc=a", "ncpus=1:"],
    ids=["hosts", "sizes", "tasks", "words", "features", "chunks"],
)
def test_the_longest_possible_list_is_read_quickly(piece: str) -> None:
    """A parser that reads each character more than once would take minutes."""
    found = validated("#PBS -l " + f"{piece}," * (MANY_CHARS // len(piece)))
    assert found.accepted or found.rejection is not None
