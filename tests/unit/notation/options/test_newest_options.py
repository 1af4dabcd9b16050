"""Options that came after Slurm 22.05: each has its meaning here, or is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.command_lines import parse_srun
from tests.support.newest_options import newest_options

from warpdeck.base.errors import UserError
from warpdeck.client.submission import command_options
from warpdeck.notation.option_values.value_table import with_values
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import REFUSED, SALLOC, SBATCH, SRUN, OptionTable
from warpdeck.notation.options.unsupported import REASONS
from warpdeck.notation.options.variables import SBATCH_VARIABLES, effective, variable_options
from warpdeck.notation.request.job_request import build_request


def request(*words: str) -> dict[str, Any]:
    return build_request(command_options(words, {}, now=0.0), {})[0]


@pytest.mark.parametrize("known", [SBATCH, SALLOC, SRUN], ids=lambda known: known.command)
def test_every_option_of_the_newest_slurm_is_known(known: OptionTable) -> None:
    assert not set(newest_options()[known.command]) - known.options.keys()


@pytest.mark.parametrize("known", [SBATCH, SALLOC, SRUN], ids=lambda known: known.command)
def test_every_option_that_is_refused_names_a_reason_and_a_next_step(known: OptionTable) -> None:
    refused = [name for name, option in known.options.items() if option.here == REFUSED]
    assert not [name for name in refused if not all(REASONS.get(name, ("", "")))]


@pytest.mark.parametrize(
    ("words", "expedite"),
    [(["--requeue"], False), (["--requeue=expedite"], True), (["--requeue=EXPEDITE"], True)],
)
def test_requeue_takes_the_word_expedite(words: list[str], expedite: bool) -> None:
    made = request(*words)
    assert (made["requeue"], made["expedite"]) == (True, expedite)


@pytest.mark.parametrize(
    ("words", "at_limit"),
    [(["--requeue"], False), (["--requeue=limit"], True), (["--requeue=expedite,LIMIT"], True)],
)
def test_requeue_takes_the_word_limit(words: list[str], at_limit: bool) -> None:
    assert request(*words)["requeue_at_limit"] == at_limit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("expedite", "expedite"),
        ("limit", "limit"),
        ("1", "requeue"),
        ("yes", "requeue"),
        ("", "requeue"),
        ("no", None),
    ],
)
def test_the_variable_of_requeue_keeps_its_old_values(text: str, value: str | None) -> None:
    given = effective(variable_options({"SBATCH_REQUEUE": text}, SBATCH_VARIABLES, SBATCH))
    source = OptionSource(cwd="", environ={}, now=0.0)
    assert [each.value for each in with_values(given, source, SBATCH)] == ([value] if value else [])


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("gres/gpu:closest", "closest"),
        ("gres/gpu:verbose,single:2", "single:2"),
        ("gres/gpu:map:0,1", "map_gpu:0,1"),
        ("gres/gpu:verbose,map:1", "map_gpu:1"),
        ("GRES/GPU:none", "none"),
        ("gres/gpu:per_task:1", "per_task:1"),
    ],
)
def test_tres_bind_binds_gpus_like_gpu_bind(text: str, binding: str) -> None:
    assert request(f"--tres-bind={text}")["step_variables"] == {"SLURM_GPU_BIND": binding}
    assert parse_srun([f"--tres-bind={text}", "true"], {}, files={}).ask["gpu_bind"] == binding
    by_variable = parse_srun(["true"], {"SLURM_TRES_BIND": text, "SLURM_JOB_ID": "5"}, files={})
    assert by_variable.ask["gpu_bind"] == binding


def test_srun_ignores_the_named_signals() -> None:
    found = parse_srun(["--ignore-signals=INT,SIGTERM,10", "true"], {}, files={})
    assert found.streams.ignored_signals == (2, 15, 10)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requeue=later"], "Invalid --requeue specification"),
        (["--tres-bind=gres/nic:closest"], "only GPUs are bound to tasks"),
        (["--tres-bind=gres/gpu:closest+gres/nic:closest"], "only GPUs are bound to tasks"),
        (["--tres-bind=gres/gpu:mask:0x3"], "is not supported"),
        (["--segment=2"], "nodes have no blocks"),
        (["--mem-update=20@10"], "the memory of a running job is not changed"),
        (["--resources=flat:2"], "there are no hierarchical resources"),
        (["--exclusive=topo"], "Invalid --exclusive specification"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_a_reason(words: list[str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        request(*words)
    assert said in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--async"], "a step ends with its srun"),
        (["--ignore-signals=KILL"], "Signal KILL cannot be ignored"),
        (["--ignore-signals=far"], "Invalid signal name or number: far"),
        (["--pty=3"], "srun uses its own terminal"),
    ],
)
def test_srun_refuses_what_it_cannot_do_with_a_reason(words: list[str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_srun([*words, "true"], {}, files={})
    assert said in caught.value.message and caught.value.hint
