"""Requests from options that lay out tasks or read files. The counts were measured with the real sbatch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from warpdeck.base.errors import UserError
from warpdeck.client.submission import command_options, draft_script
from warpdeck.model import Resources
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.options.option_table import HONORED, REFUSED, SALLOC, SBATCH, SRUN
from warpdeck.notation.options.submit_files import LIMITS_FILE
from warpdeck.notation.options.unsupported import REASONS, unsupported
from warpdeck.notation.request.job_request import build_request, parse_request
from warpdeck.policy.resources.demand import needs

KERNEL = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max stack size            8388608              unlimited            bytes
Max open files            1024                 1048576              files
"""
FILES = {
    "hosts": "n2\nn1,n3 # the last\nn2*2\n",
    "./hosts": "n2\nn1,n3",
    "empty": "# nobody\n",
    "odd": "-n1\n",
    "vars": "A=1\0B=two\nlines\0",
    "words": "no variable\0",
    LIMITS_FILE: KERNEL,
}


def read(path: str) -> str:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def request(*words: str, environ: Mapping[str, str] | None = None, reads: bool = True) -> dict[str, Any]:
    made, _ = build_request(
        command_options(words, environ or {}, now=0.0), environ or {}, read=read if reads else None
    )
    return made


def shape(*words: str) -> tuple[int, list[int], int]:
    """Return (least number of nodes, CPUs of each node, GPUs of the first node) as the planner sees them."""
    made = request(*words)["resources"]
    asked = msgspec.convert(made, Resources, strict=False)
    found = needs(asked, asked.nodes_min, default_mem_per_cpu_bytes=0)
    cpus = [need.cpus for need, count in found for _ in range(count)]
    return len(cpus), cpus, found[0][0].gpus


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--mincpus=4"], (1, [4], 0)),
        (["--mincpus=2", "-c8"], (1, [8], 0)),
        (["-n20", "-O"], (1, [1], 0)),
        (["-n40", "-O", "-N2", "-c3"], (2, [3, 3], 0)),
        (["--ntasks-per-gpu=2", "--gpus=4"], (1, [8], 4)),
        (["--ntasks-per-gpu=2", "-n4"], (1, [4], 2)),
        (["--ntasks-per-gpu=2", "--gres=gpu:2", "-N2"], (2, [4, 4], 2)),
        (["--tres-per-task=cpu=3,gres/gpu:2", "-n2"], (1, [6], 4)),
        (["--tres-per-task=gres/gpu"], (1, [1], 1)),
        (["-n7", "-N3", "--gpus=5", "--cpus-per-gpu=4"], (3, [8, 8, 4], 2)),
    ],
)
def test_options_determine_the_resources_of_each_node(
    words: list[str], expected: tuple[int, list[int], int]
) -> None:
    assert shape(*words) == expected


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["-m", "cyclic:block"], {"SLURM_DISTRIBUTION": "cyclic:block"}),
        (["-m", "plane=2"], {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "2"}),
        (["-m", "plane=2", "-m", "block"], {"SLURM_DISTRIBUTION": "block"}),
        (["--gpu-bind=verbose,single:2"], {"SLURM_GPU_BIND": "single:2"}),
        (["-O"], {"SLURM_OVERCOMMIT": "1"}),
        (["--export=NONE"], {"SLURM_EXPORT_ENV": "NONE", "SLURM_GET_USER_ENV": "1"}),
        (["--export=all"], {}),
        (["--get-user-env=10L"], {"SLURM_GET_USER_ENV": "1"}),
        (["--export=ALL"], {}),
    ],
)
def test_options_about_steps_are_passed_on_in_variables(words: list[str], variables: dict[str, str]) -> None:
    assert request(*words).get("step_variables", {}) == variables


def test_node_names_are_read_from_files() -> None:
    assert request("-F", "hosts")["resources"]["nodelist"] == ["n2", "n1", "n3"]
    assert request("-x", "./hosts")["resources"]["exclude"] == ["n2", "n1", "n3"]
    made = request(environ={"SLURM_HOSTFILE": "hosts"})
    assert made["resources"]["nodelist"] == ["n2", "n1", "n3"]
    assert made["step_variables"] == {"SLURM_DISTRIBUTION": "arbitrary"}
    assert made["env"] == {"SLURM_HOSTFILE": "hosts"}
    assert request("-w", "n9", environ={"SLURM_HOSTFILE": "hosts"})["resources"]["nodelist"] == ["n9"]


def test_variables_of_an_export_file_are_added_to_exported_variables() -> None:
    made = request("--export=NONE", "--export-file=vars", environ={"A": "0", "C": "3"})
    assert made["env"] == {"A": "1", "B": "two\nlines"}
    both = request("--export=ALL", "--export-file=vars", environ={"A": "0", "C": "3"})
    assert both["env"] == {"A": "1", "B": "two\nlines", "C": "3"}


def test_variables_of_an_export_file_replace_the_submitters_variables() -> None:
    made = request("--export-file=vars", environ={"A": "0", "C": "3", "HOME": "/home/ann"})
    assert made["env"] == {"A": "1", "B": "two\nlines", "HOME": "/home/ann"}


@pytest.mark.parametrize("value", ["", "=10", "=10L", "=5s", "=L", "=-1"])
def test_get_user_env_accepts_a_timeout_and_a_mode(value: str) -> None:
    assert request(f"--get-user-env{value}")["user_env"] is True


def test_propagate_selects_the_soft_limits_of_the_job() -> None:
    assert request()["limits"] == {"CPU": -1, "STACK": 8388608, "NOFILE": 1024}
    assert request("--propagate=STACK,nofile")["limits"] == {"NOFILE": 1024, "STACK": 8388608}
    assert request("--propagate=RLIMIT_CPU")["limits"] == {"CPU": -1}
    assert "limits" not in request("--propagate=NONE")
    assert "limits" not in request(reads=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-F", "nowhere"], "cannot read nowhere: No such file"),
        (["-F", "empty"], "empty contains no node names"),
        (["-F", "odd"], "Invalid hostfile odd contents on line 1"),
        (["--export-file=words"], "'no variable' is not NAME=VALUE"),
        (["--propagate=far"], "there is no limit FAR"),
        (["--get-user-env=x"], "Invalid --get-user-env specification: 'x'"),
        (["--ntasks-per-gpu=2", "-n5"], "has to be a multiple of --ntasks-per-gpu"),
        (["--ntasks-per-gpu=2"], "needs --gpus or --ntasks"),
        (["--ntasks-per-gpu=2", "--gpus=2", "-N1-2"], "a range of --nodes"),
        (["--ntasks-per-gpu=2", "--gpus-per-task=1"], "excludes --gpus-per-task"),
        (["--ntasks-per-gpu=2", "--gpus=0.5"], "a part of a GPU"),
        (["--tres-per-task=fpga:1"], "'fpga:1' is not a count"),
        (["--mincpus=0"], 'Invalid numeric value "0" for --mincpus'),
        (["-m", "far"], "Invalid --distribution specification"),
    ],
)
def test_impossible_values_are_refused_with_one_message(words: list[str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        request(*words)
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("words", ["--ntasks=50000000", "--cpus-per-task=10000001"])
def test_an_error_about_a_count_names_both_limits(words: str) -> None:
    with pytest.raises(UserError, match="is out of range") as caught:
        request(words)
    assert caught.value.hint == "write 1 to 10,000,000"


def test_options_that_name_files_are_refused_if_files_cannot_be_read() -> None:
    with pytest.raises(UserError, match="cannot be read from here"):
        request("-F", "hosts", reads=False)


def test_every_refused_option_has_a_reason() -> None:
    tables = (SBATCH, SALLOC, SRUN)
    refused = {one.name for known in tables for one in known.options.values() if one.here == REFUSED}
    honoured = {one.name for known in tables for one in known.options.values() if one.here == HONORED}
    assert not REASONS.keys() - refused
    assert not REASONS.keys() & honoured
    for name in refused:
        error = unsupported(name, "line 3")
        assert f"--{name} is not supported" in error.message
        assert error.hint


def test_unknown_limits_are_refused_even_if_no_limits_are_sent() -> None:
    with pytest.raises(UserError, match="there is no limit FAR"):
        request("--propagate=far", reads=False)


@pytest.mark.parametrize(
    ("words", "environ", "field", "mib"),
    [
        (["--mem-per-cpu=100"], {"SBATCH_MEM_PER_NODE": "1G"}, "mem_per_cpu_bytes", 100),
        (["--mem=1G"], {"SBATCH_MEM_PER_GPU": "50"}, "mem_per_node_bytes", 1024),
        ([], {"SBATCH_MEM_PER_NODE": "1G"}, "mem_per_node_bytes", 1024),
    ],
)
def test_any_written_memory_option_overrides_memory_variables(
    words: list[str], environ: dict[str, str], field: str, mib: int
) -> None:
    for script in ("", "".join(f"#SBATCH {word}\n" for word in words)):
        options = [] if script else words
        draft = draft_script(
            f"#!/bin/sh\n{script}", "job", options=options, cwd="/", environ=environ, now=0.0
        )
        found = {name: size for name, size in draft.request["resources"].items() if name.startswith("mem")}
        assert found == {field: mib << 20}


@pytest.mark.parametrize("value", ["warpdeck", "all", "warpdeck,all"])
def test_the_name_of_this_cluster_is_accepted(value: str) -> None:
    request, notes = parse_request([GivenOption("clusters", value, "command line")], {}, now=0.0)
    assert request["resources"] == {"gpus": {}, "nodes_open": True} and not notes


def test_another_cluster_is_refused_by_name() -> None:
    with pytest.raises(
        UserError, match="--clusters is not supported: there is one cluster here, called warpdeck"
    ):
        parse_request([GivenOption("clusters", "warpdeck,other", "command line")], {}, now=0.0)
