"""The grammar of #SBATCH lines, and the request that they make."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from warpdeck.base.errors import UserError
from warpdeck.model import Request
from warpdeck.notation.options.directives import check_script
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.reading.script import script_options
from warpdeck.notation.request.job_request import parse_request


def built(*lines: str, environ: dict[str, str] | None = None) -> dict[str, Any]:
    text = "#!/bin/bash\n" + "\n".join(lines) + "\ntrue\n"
    request, _ = parse_request(script_options(text, "job.sh"), environ or {}, now=100.0)
    msgspec.convert(request, Request)
    return request


def test_directives_are_read_up_to_the_first_command() -> None:
    request = built("", "# words", "#SBATCH --job-name=a", "true", "#SBATCH --job-name=b")
    assert request["name"] == "a"


@pytest.mark.parametrize("line", [" #SBATCH -J x", "# SBATCH -J x", "##SBATCH -J x", "#sbatch -J x"])
def test_lines_that_only_resemble_directives_are_comments(line: str) -> None:
    assert "name" not in built(line)


def test_a_directive_needs_no_blank_and_ends_at_an_unquoted_hash() -> None:
    assert built("#SBATCH--job-name=a#b")["name"] == "a"
    assert built("#SBATCH -J 'a#b c' # why")["name"] == "a#b c"


def test_later_options_win_and_abbreviations_and_attached_values_are_read() -> None:
    request = built("#SBATCH -n3 --ntasks=5", "#SBATCH -N2-4 --out=x.out -t12:00:00")
    assert request["resources"]["tasks"] == 5
    assert (request["resources"]["nodes_min"], request["resources"]["nodes_max"]) == (2, 4)
    assert (request["output"], request["time_limit_s"]) == ("x.out", 43_200)


def test_directives_become_fields_of_the_request() -> None:
    request = built(
        "#SBATCH --gres=gpu:h100:4 --mem=64G --cpus-per-task=8 --array=0-3%2",
        "#SBATCH --dependency=afterok:7 --hold --no-requeue --comment='zwei Wörter'",
    )
    assert request["resources"]["gpus"] == {"per_node": 4, "type": "h100"}
    assert request["resources"]["mem_per_node_bytes"] == 64 * 2**30
    assert request["array"] == {"ranges": [(0, 3, 1)], "throttle": 2}
    assert request["hold"] and not request["requeue"] and request["comment"] == "zwei Wörter"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#SBATCH --foo=1", "unrecognized option '--foo=1'"),
        ("#SBATCH --reboot", "not supported"),
        ("#SBATCH -J a b", "Invalid directive found in batch script: b"),
        ("#SBATCH –nodes=2", "Invalid directive found"),
        ("#SBATCH --mem=64 G", "Invalid directive found in batch script: G"),
        ("#SBATCH -J 'a", "Unmatched"),
        ("#SBATCH --time", "requires an argument"),
        ("#SBATCH --mem=1G --mem-per-cpu=1G", "exclude each other"),
        ("#SBATCH --time=12h", "Invalid --time specification: '12h'"),
        ("#SBATCH --gpu-bind=mask_gpu:1", "not supported"),
        ("#SBATCH --reservation=a,b", "several reservations"),
        ("#SBATCH --licenses=foo|bar", "is not a license"),
        ("#SBATCH --time-min=UNLIMITED", "is not a minimum time"),
        ("#SBATCH --begin=soon", "Invalid --begin specification: 'soon'"),
    ],
)
def test_an_error_names_the_line_and_the_option(line: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        built(line)
    assert caught.value.hint
    assert "exclude" in words or "job.sh:2" in caught.value.message


def test_options_without_effect_are_noted() -> None:
    _, notes = parse_request([GivenOption("mem-bind", "local", "job.sh:2")], {}, now=0.0)
    assert notes == ["job.sh:2: --mem-bind has no effect here"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("echo\n", "does not look like a batch script"),
        ("#!/bin/sh\r\n", "DOS"),
        ("#!\0", "NULL character"),
    ],
)
def test_files_that_are_not_batch_scripts_are_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_script(text, "job.sh")


def test_export_selects_the_variables_of_the_job() -> None:
    environ = {"A": "1", "B": "2", "SLURM_JOB_ID": "9"}
    assert built(environ=environ)["env"] == {"A": "1", "B": "2"}
    assert built("#SBATCH --export=NONE", environ=environ)["env"] == {}
    assert built("#SBATCH --export=A,C=3", environ=environ)["env"] == {"A": "1", "C": "3"}
    assert built("#SBATCH --export=ALL,A=x", environ=environ)["env"] == {"A": "x", "B": "2"}
