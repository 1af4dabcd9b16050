"""srun's command line: the step, its streams, the job that is created for it, and errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.command_lines import parse_salloc, parse_srun

from warpdeck.base.errors import UserError
from warpdeck.model.step import StepOptions
from warpdeck.notation.step.step_options import SrunOptions


def parse(*words: str, **environ: str) -> SrunOptions:
    return parse_srun(list(words), environ, files={})


def ask(*words: str, **environ: str) -> StepOptions:
    return msgspec.convert(parse(*words, "true", **environ).ask, StepOptions)


def refused(*words: str, **environ: str) -> UserError:
    with pytest.raises(UserError) as caught:
        parse(*words, **environ)
    return caught.value


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["-n4"], "tasks", 4),
        (["--ntasks=4"], "tasks", 4),
        (["-c", "2"], "cpus_per_task", 2),
        (["--ntasks-per-node=3"], "tasks_per_node", 3),
        (["--tasks-per-node", "3"], "tasks_per_node", 3),
        (["-r1"], "relative", 1),
        (["-W", "0"], "wait_s", 0),
        (["--exact"], "exact", True),
        (["--exclusive"], "exact", True),
        (["--overlap"], "overlap", True),
        (["-O"], "overcommit", True),
        (["-I"], "immediate", True),
        (["-K"], "kill_on_bad_exit", True),
        (["-K0"], "kill_on_bad_exit", False),
        (["-K7"], "kill_on_bad_exit", True),
        (["-n", "+5"], "tasks", 5),
        (["-N", "1k"], "nodes_max", 1024),
        (["--cpu-bind=CORES"], "cpu_bind", "cores"),
        (["--cpu-bind=map_cpu:0*2,1"], "cpu_bind", "map_cpu:0,0,1"),
        (["--jobid=12_3"], "tasks", None),
        (["-D", "/data"], "chdir", "/data"),
        (["-J", "mine"], "name", "mine"),
        (["-w", "gpu[1-2]"], "nodelist", ("gpu1", "gpu2")),
        (["-x", "gpu3"], "exclude", ("gpu3",)),
        (["-m", "cyclic:block"], "distribution", "cyclic"),
        (["-m", "plane=2"], "plane_size", 2),
        (["-m", "block,pack"], "packed", True),
        (["--ntasks-per-gpu=2"], "gpu_bind", "single:2"),
        (["--ntasks-per-gpu=2", "--gpu-bind=none"], "gpu_bind", "none"),
        (["-t", "1:00"], "time_limit_s", 60),
        (["--cpu-bind=verbose,map_cpu:0,2"], "cpu_bind", "map_cpu:0,2"),
        (["--cpu-bind=none"], "cpu_bind", "none"),
        (["--cpu-bind=verbose,map_cpu:0,2"], "bind_verbose", True),
        (["--cpu-bind=v,q"], "bind_verbose", False),
        (["--gpu-bind=single:2"], "gpu_bind", "single:2"),
        (["--mpi=pmi2"], "mpi", "pmi2"),
        (["--mpi=pmi1"], "mpi", "pmi2"),
        (["--mpi=none"], "mpi", "none"),
        (["--task-prolog=/etc/p"], "task_prolog", "/etc/p"),
        (["--task-epilog", "/etc/e"], "task_epilog", "/etc/e"),
    ],
)
def test_options_become_fields_of_the_step(words: list[str], field: str, value: Any) -> None:
    assert getattr(ask(*words), field) == value


def test_nodes_can_be_a_range() -> None:
    found = ask("-N", "2-4")
    assert (found.nodes_min, found.nodes_max) == (2, 4)


def test_container_options_belong_to_the_step_only() -> None:
    words = ["--container-image=ubuntu", "--container-mounts=/data:/data:ro", "--container-workdir=/w"]
    found = parse(*words, "true")
    container = msgspec.convert(found.ask, StepOptions).container
    assert container is not None
    assert (container.image, container.workdir) == ("ubuntu", "/w")
    assert (container.mounts[0].source, container.mounts[0].flags) == ("/data", ("ro",))
    assert found.job_options == []


def test_options_about_an_allocation_belong_to_the_job_too() -> None:
    found = parse("-n2", "-p", "debug", "--mem=1G", "-o", "out", "true")
    assert [given.option for given in found.job_options] == ["ntasks", "partition", "mem"]


def test_options_about_streams_are_read() -> None:
    found = parse("-l", "-o", "out.%t", "-e", "none", "-i", "0", "--open-mode=append", "-Q", "true").streams
    assert (found.label, found.output, found.error, found.input, found.append, found.quiet) == (
        True,
        "out.%t",
        "none",
        "0",
        True,
        True,
    )


def test_words_after_the_command_belong_to_the_command() -> None:
    assert ask("-n2", "sh", "-n4").argv == ("sh", "-n4", "true")
    assert parse("--", "-x").ask["argv"] == ["-x"]


def test_the_last_of_equal_options_counts() -> None:
    assert ask("-n2", "-n3").tasks == 3


def test_variables_set_options_and_the_command_line_overrides_them() -> None:
    environ = {"SLURM_MPI_TYPE": "pmi2", "SLURM_LABELIO": "1", "SLURM_KILL_BAD_EXIT": "1"}
    found = parse("true", **environ)
    assert (found.ask["mpi"], found.streams.label, found.ask["kill_on_bad_exit"]) == ("pmi2", True, True)
    assert parse("--mpi=none", "true", **environ).ask["mpi"] == "none"
    assert not parse("true", SLURM_LABELIO="0").streams.label
    assert not parse("true", SLURM_LABELIO="no", SLURM_JOB_ID="7").streams.label


def test_jobid_overrides_the_callers_job() -> None:
    assert parse("true", SLURM_JOB_ID="7").job == "7"
    assert parse("--jobid=8", "true", SLURM_JOB_ID="7").job == "8"


def test_export_selects_the_variables_of_the_tasks() -> None:
    environ = {"HOME": "/h", "WORD": "w"}
    assert parse("--export=NONE", "true", **environ).ask["env"] == {}
    assert parse("--export=WORD,NEW=1", "true", **environ).ask["env"]["NEW"] == "1"
    assert parse("true", **environ).ask["env"]["WORD"] == "w"
    assert "WORD" not in parse("true", **environ, SLURM_EXPORT_ENV="NONE").ask["env"]


def test_mpi_types_are_listed_without_a_command() -> None:
    assert "pmi2" in parse("--mpi=list").answer


def test_a_file_of_programs_is_requested_and_then_used() -> None:
    words = ["--multi-prog", "programs"]
    assert parse(*words).needed_file == "programs"
    assert "programs" not in parse(*words).ask
    found = parse_srun(words, {}, files={"programs": "0 echo a\n"})
    assert found.ask["programs"] == [{"ranks": [(0, 0)], "argv": ["echo", "a"]}]


@pytest.mark.parametrize(("word", "told"), [("-V", "slurm 22.05"), ("--usage", "usage: "), ("-h", "usage: ")])
def test_options_that_print_a_text_need_no_command(word: str, told: str) -> None:
    assert parse("-n4", word).answer.startswith(told)


def test_options_of_a_sites_plugins_have_no_effect_in_srun_and_salloc() -> None:
    plugins = {"auto-resume": "required"}
    found = parse_srun(["--auto-resume=1", "-n2", "true"], {}, files={}, plugins=plugins)
    assert (found.ask["tasks"], found.ask["argv"]) == (2, ["true"])
    assert [given.option for given in found.job_options] == ["ntasks"]
    held = parse_salloc(["--auto-resume", "1", "-n2", "sh"], {}, plugins=plugins)
    assert ([given.option for given in held.options], held.command) == (["ntasks"], ["sh"])
    assert "unrecognized option" in refused("--auto-resume=1", "true").message


def test_a_file_of_nodes_is_requested_and_then_used() -> None:
    assert parse("-F", "hosts", "true").needed_file == "hosts"
    found = parse_srun(["-F", "hosts", "true"], {}, files={"hosts": "n2,n1\nn2\n"})
    assert (found.ask["nodelist"], found.needed_file) == (["n2", "n1"], "")
    assert [given[:3] for given in found.job_options] == [("nodelist", "n2,n1", "srun")]
    assert parse("-w", "./hosts", "true").needed_file == "./hosts"


def test_slurm_hostfile_sets_the_node_of_each_task_unless_nodes_are_named() -> None:
    environ = {"SLURM_HOSTFILE": "hosts"}
    found = parse_srun(["true"], environ, files={"hosts": "n2\nn1\nn2*2\n"})
    assert (found.ask["hosts"], found.ask["distribution"]) == (["n2", "n1", "n2", "n2"], "arbitrary")
    assert "hosts" not in parse_srun(["-w", "n1", "true"], environ, files={}).ask


def test_a_step_has_the_soft_limits_of_its_srun() -> None:
    files = {"/proc/self/limits": KERNEL}
    assert parse_srun(["true"], {}, files=files).ask["limits"] == {"NOFILE": 1024, "STACK": -1}
    assert parse_srun(["--propagate=NOFILE", "true"], {}, files=files).ask["limits"] == {"NOFILE": 1024}
    assert parse_srun(["--propagate=NONE", "true"], {}, files=files).ask["limits"] == {}


KERNEL = """Limit                     Soft Limit           Hard Limit           Units
Max stack size            unlimited            unlimited            bytes
Max open files            1024                 1048576              files
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "No command given to execute."),
        (["-n0", "true"], 'Invalid numeric value "0" for --ntasks'),
        (["-n", "many", "true"], 'Invalid numeric value "many" for --ntasks'),
        (["-N4-2", "true"], "--nodes=4-2: Maximum node count 2 is less than minimum node count 4"),
        (["-N0", "true"], "--nodes=0 is out of range"),
        (["-Kx", "true"], 'Invalid numeric value "x" for --kill-on-bad-exit'),
        (["--mpi=pmix", "true"], "--mpi=pmix is not supported"),
        (["--gpu-bind=far", "true"], "Invalid --gpu-bind argument: gpu:far"),
        (["--cpu-bind=map_cpu:x", "true"], "--cpu-bind=map_cpu:x: Failed to validate number"),
        (["-m", "far", "true"], "Invalid --distribution specification"),
        (["-n3", "--ntasks-per-gpu=2", "true"], "has to be a multiple of --ntasks-per-gpu"),
        (["--propagate=far", "true"], "--propagate=far: there is no limit FAR"),
        (["--tres-per-task=fpga:1", "true"], "--tres-per-task=fpga:1"),
        (["--exclusive=x", "true"], "Invalid --exclusive specification"),
        (["--cpu-bind=map_ldom:0", "true"], "--cpu-bind=map_ldom:0 is not supported"),
        (["--open-mode=x", "true"], "Invalid --open-mode specification: 'x'"),
        (["--task-prolog=here", "true"], "--task-prolog=here is not an absolute path"),
        (["--container-mounts=/a", "true"], "the container has no image"),
        (["--container-name=no/slash", "true"], "--container-name=no/slash"),
        (["--bcast", "true"], "--bcast is not supported"),
    ],
)
def test_impossible_values_are_refused_with_one_message(words: list[str], said: str) -> None:
    error = refused(*words)
    assert said in error.message
    assert error.hint or said == "No command given to execute."


def test_the_hint_for_an_unsupported_mpi_type_names_mpirun() -> None:
    assert "mpirun" in refused("--mpi=pmix", "true").hint


def test_an_invalid_variable_is_named() -> None:
    assert "SLURM_MPI_TYPE" in refused("true", SLURM_MPI_TYPE="pmix").message


def test_options_of_salloc_itself_do_not_reach_the_job() -> None:
    found = parse_salloc(["-N2", "--no-shell", "-K", "sh", "-c", "x"], {})
    assert ([given.option for given in found.options], found.command) == (["nodes"], ["sh", "-c", "x"])
    assert not found.has_shell


def test_exclusive_overrides_the_variable_for_overlap() -> None:
    inside = {"SLURM_JOB_ID": "1", "SLURM_OVERLAP": "1"}
    assert "overlap" not in parse_srun(["--exclusive", "true"], inside, files={}).ask
    assert parse_srun(["--exclusive=user", "true"], inside, files={}).ask["overlap"]
