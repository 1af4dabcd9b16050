"""Messages, exit codes and behavior of sbatch on this machine's own node, as measured on the real sbatch."""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

SCRIPT = '#!/bin/bash\n#SBATCH -J named\necho "$SLURM_JOB_NAME $@"\nexit ${CODE:-0}\n'


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module. Its node is up, so that impossible requests are refused."""
    with temporary_home() as new_home:
        new_home.ok("up")
        new_home.wait_for_idle_node()
        yield new_home


@pytest.fixture
def work(short_tmp: Path) -> Path:
    (short_tmp / "job.sh").write_text(SCRIPT)
    return short_tmp


def test_the_job_id_is_printed_as_scripts_expect_it(home: Home, work: Path) -> None:
    result = home.slurm("sbatch", "job.sh", "a", "b c", cwd=work)
    assert result.returncode == 0, result.stderr
    match = re.fullmatch(r"Submitted batch job (\d+)\n", result.stdout)
    assert match is not None, result.stdout
    out = work / f"slurm-{match[1]}.out"
    eventually(lambda: out.exists() and out.read_text() == "named a b c\n")


def test_parsable_prints_the_id_alone_and_quiet_prints_nothing(home: Home, work: Path) -> None:
    assert re.fullmatch(r"\d+\n", home.slurm("sbatch", "--parsable", "job.sh", cwd=work).stdout)
    result = home.slurm("sbatch", "-Q", "job.sh", cwd=work)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_options_without_effect_are_reported_unless_parsable(home: Home, work: Path) -> None:
    argv = ("--account=lab", "--mail-type=END", "--wrap", "true")
    result = home.slurm("sbatch", *argv, cwd=work)
    assert "--account=lab has no effect" in result.stderr and "--mail-type has no effect" in result.stderr
    parsable = home.slurm("sbatch", "--parsable", *argv, cwd=work)
    assert (parsable.returncode, parsable.stderr) == (0, ""), "some programs read both streams as one"


def test_the_cluster_is_printed_if_clusters_are_given(home: Home, work: Path) -> None:
    result = home.slurm("sbatch", "-M", "all", "job.sh", cwd=work)
    assert re.fullmatch(r"Submitted batch job \d+ on cluster warpdeck\n", result.stdout), result.stderr
    parsable = home.slurm("sbatch", "--parsable", "job.sh", cwd=work, SLURM_CLUSTERS="warpdeck")
    assert re.fullmatch(r"\d+;warpdeck\n", parsable.stdout), parsable.stderr


def test_a_script_is_read_from_standard_input_or_the_path(home: Home, work: Path) -> None:
    result = home.slurm(
        "sbatch", "--wait", "--parsable", cwd=work, data="#!/bin/sh\necho $SLURM_JOB_NAME; exit 4\n"
    )
    assert result.returncode == 4
    assert (work / f"slurm-{result.stdout.strip()}.out").read_text() == "sbatch\n"
    (work / "else").mkdir()
    on_path = home.slurm("sbatch", "--wait", "job.sh", cwd=work / "else", PATH=f"/usr/bin:/bin:{work}")
    assert on_path.returncode == 0, on_path.stdout + on_path.stderr


def test_wait_returns_the_exit_code_of_the_job_and_1_for_a_signal(home: Home, work: Path) -> None:
    assert home.slurm("sbatch", "-W", "--wrap", "exit 3", cwd=work).returncode == 3
    assert home.slurm("sbatch", "-W", "--wrap", "kill -9 $$", cwd=work).returncode == 1
    array = home.slurm("sbatch", "-W", "-a", "0-3", "--wrap", "exit $SLURM_ARRAY_TASK_ID", cwd=work)
    assert array.returncode == 3


def test_directives_and_variables_set_options_of_sbatch(home: Home, work: Path) -> None:
    script_text = "#!/bin/sh\n#SBATCH --wait --parsable\nexit 5\n"
    result = home.slurm("sbatch", cwd=work, data=script_text)
    assert (result.returncode, result.stdout.strip().isdecimal()) == (5, True)
    assert home.slurm("sbatch", cwd=work, data="#!/bin/sh\nexit 6\n", SBATCH_WAIT="1").returncode == 6
    tested = home.slurm("sbatch", cwd=work, data="#!/bin/sh\n#SBATCH --test-only\nexit 7\n")
    assert (tested.returncode, tested.stdout, "to start at" in tested.stderr) == (0, "", True)


def test_test_only_prints_start_and_nodes_and_submits_nothing(home: Home, work: Path) -> None:
    home.slurm("sbatch", "--wait", "job.sh", cwd=work)
    result = home.slurm("sbatch", "--test-only", "-c", "1", "job.sh", cwd=work)
    assert result.returncode == 0, result.stderr
    pattern = r"sbatch: Job (\d+) to start at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d using 1 processors on nodes \S+ in partition main\n"
    assert (match := re.match(pattern, result.stderr)) is not None, result.stderr
    assert home.slurm("sbatch", "--parsable", "-H", "job.sh", cwd=work).stdout == f"{match[1]}\n"
    refused = home.slurm("sbatch", "--test-only", "--mem=9000G", "job.sh", cwd=work)
    assert refused.returncode == 1
    assert refused.stderr.startswith("allocation failure: Requested node configuration is not available\n")


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["nosuch.sh"], 1, "sbatch: error: Unable to open file nosuch.sh\n"),
        (["--wrap", "true", "x"], 1, "sbatch: error: Script arguments not permitted with --wrap option\n"),
        (["-w", "nixda", "job.sh"], 1, "failed: Invalid node name specified\n"),
        (["--mem=9000G", "job.sh"], 1, "failed: Requested node configuration is not available\n"),
        (["--reservation=x", "job.sh"], 1, "failed: Requested reservation is invalid\n"),
    ],
)
def test_refusals_have_the_messages_of_slurm(
    home: Home, work: Path, argv: list[str], code: int, message: str
) -> None:
    result = home.slurm("sbatch", *argv, cwd=work)
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr


def test_an_unknown_option_is_refused_as_by_getopt(home: Home, work: Path) -> None:
    result = home.slurm("sbatch", "--foo", "job.sh", cwd=work)
    assert result.returncode == 255
    assert result.stderr.endswith('Try "sbatch --help" for more information\n')


def test_a_file_that_is_no_script_is_refused(home: Home, work: Path) -> None:
    (work / "bad.sh").write_text("echo hello\n")
    result = home.slurm("sbatch", "bad.sh", cwd=work)
    assert result.returncode == 1 and "not look like a batch script" in result.stderr


def test_exported_shell_functions_reach_the_script(home: Home, work: Path) -> None:
    function = {"BASH_FUNC_module%%": "() {  echo loaded $1; }"}
    (work / "load.sh").write_text("#!/bin/bash\nmodule cuda\n")
    result = home.slurm("sbatch", "-W", "--parsable", "load.sh", cwd=work, **function)
    assert (work / f"slurm-{result.stdout.strip()}.out").read_text() == "loaded cuda\n"


def test_get_user_env_sets_the_variables_of_the_login_shell(home: Home, work: Path) -> None:
    for name in (".profile", ".bash_profile"):
        (work / name).write_text("echo hello\nexport LOGIN=yes SAME=login\n")
    argv = ["-W", "--parsable", "--wrap", "echo .$LOGIN.$SAME"]
    for option, expected in (["--get-user-env"], ".yes.mine\n"), ([], "..mine\n"):
        result = home.slurm("sbatch", *option, *argv, cwd=work, HOME=str(work), SAME="mine")
        assert (work / f"slurm-{result.stdout.strip()}.out").read_text() == expected


def test_the_edited_code_runs_unless_the_site_uses_snapshots(home: Home, work: Path) -> None:
    home.ok("up")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    code = work / "code.sh"
    for sbatch_runs, expected in (("snapshot", "sent"), ("folder", "edited")):
        (home.path / "config.toml").write_text(f'[submission]\nsbatch_runs = "{sbatch_runs}"\n')
        home.ok("config", "reload")
        code.write_text("echo sent\n")
        job = home.slurm("sbatch", "--parsable", "-H", "--wrap", "sh code.sh", cwd=work).stdout.strip()
        eventually(lambda job=job: home.json("show", job)["snapshot"], what="the snapshot is recorded")
        code.write_text("echo edited\n")
        home.ok("release", job)
        out = work / f"slurm-{job}.out"
        eventually(lambda out=out: out.exists() and out.read_text(), what="the job's output")
        assert out.read_text() == f"{expected}\n"


def test_the_script_reads_the_input_file(home: Home, work: Path) -> None:
    (work / "data.named").write_text("first line\n")
    result = home.slurm(
        "sbatch", "--parsable", "--wait", "-i", "data.%x", "-J", "named", "--wrap", "cat", cwd=work
    )
    assert result.returncode == 0, result.stderr
    assert (work / f"slurm-{result.stdout.strip()}.out").read_text() == "first line\n"
    result = home.slurm("sbatch", "--wait", "-i", "nowhere", "-o", "none.out", "--wrap", "cat", cwd=work)
    assert result.returncode == 1


def test_soft_limits_of_the_submitter_apply_to_the_script_and_its_steps(home: Home, work: Path) -> None:
    # The controller starts with the limits of this process, which apply to jobs without limits.
    home.ok("up")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = "ulimit -Sn; srun sh -c 'ulimit -Sn'; ulimit -Sn 100; srun sh -c 'ulimit -Sn'"
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        result = home.slurm("sbatch", "--parsable", "--wait", "--wrap", script, cwd=work)
        without_limits = home.slurm(
            "sbatch", "--parsable", "--wait", "--propagate=NONE", "--wrap", "ulimit -Sn", cwd=work
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (work / f"slurm-{result.stdout.strip()}.out").read_text().split() == ["300", "300", "100"]
    assert (work / f"slurm-{without_limits.stdout.strip()}.out").read_text().split() != ["300"]


def test_variables_can_be_read_from_a_file(home: Home, work: Path) -> None:
    (work / "vars").write_text("WD_ONE=1\0WD_TWO=a\nb\0")
    options = ["--export=NONE", "--export-file=vars", "--wrap", 'echo "$WD_ONE $WD_TWO"']
    result = home.slurm("sbatch", "--parsable", "--wait", *options, cwd=work)
    assert (work / f"slurm-{result.stdout.strip()}.out").read_text() == "1 a\nb\n"


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["-t", "x"], "sbatch: error: Invalid --time specification", 255),
        (["-N", "2-1"], "sbatch: error: Maximum node count 1 is less than minimum node count 2", 255),
        (["-n", "0"], 'sbatch: error: Invalid numeric value "0" for --ntasks.', 1),
        (["--hint=x"], 'sbatch: error: unrecognized --hint argument "x", see --hint=help', 1),
        (["--mem-bind=x"], 'sbatch: error: unrecognized --mem-bind argument "x"', 255),
        (["-F", "nowhere"], "sbatch: error: Invalid --nodefile node file", 255),
        (["--gres=tpu:1"], "sbatch: error: Invalid generic resource (gres) specification", 1),
        (["--propagate=x"], "sbatch: error: --propagate=x is not valid.", 1),
        (["-a", "9-0"], "sbatch: error: Batch job submission failed: Invalid job array specification", 1),
        (["-d", "x"], "sbatch: error: Batch job submission failed: Job dependency problem", 1),
        (
            ["--mem=1G", "--mem-per-cpu=1G"],
            "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
            1,
        ),
    ],
)
def test_invalid_values_are_refused_with_the_messages_of_sbatch(
    home: Home, work: Path, options: list[str], message: str, code: int
) -> None:
    result = home.slurm("sbatch", *options, "--wrap", "true", cwd=work)
    assert message in result.stderr.splitlines()
    assert (result.returncode, result.stdout) == (code, "")
    (work / "directive.sh").write_text(f"#!/bin/sh\n#SBATCH {' '.join(options)}\ntrue\n")
    result = home.slurm("sbatch", "directive.sh", cwd=work)
    assert message in result.stderr.splitlines()
    assert result.returncode == code


def test_pbs_directives_have_the_effect_that_they_have_in_sbatch(home: Home, work: Path) -> None:
    script_text = "#!/bin/sh\n#SBATCH -J own\n#PBS -N other -W umask=027\necho $SLURM_JOB_NAME; umask\n#PBS -l walltime=1\n"
    result = home.slurm("sbatch", "--wait", "--parsable", cwd=work, data=script_text)
    assert result.returncode == 0, result.stderr
    assert (work / f"slurm-{result.stdout.strip()}.out").read_text() == "other\n0027\n"
    refused = home.slurm("sbatch", cwd=work, data="#!/bin/sh\n#PBS -Z\n")
    message = (
        "sbatch: invalid option -- 'Z'\nsbatch: error: Unrecognized command line parameter ?\n  line 2: write"
    )
    assert (refused.returncode, refused.stdout) == (1, "") and refused.stderr.startswith(message)
    assert home.slurm("sbatch", "--ignore-pbs", cwd=work, data="#!/bin/sh\n#PBS -Z\n").returncode == 0
