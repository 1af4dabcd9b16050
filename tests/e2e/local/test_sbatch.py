"""sbatch's messages, exit codes and habits, on this machine's own node; each was measured at the real sbatch."""

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
    """One for all tests of the module; its node is there, so that what it cannot give is refused."""
    with temporary_home() as made:
        made.ok("up")
        made.wait_for_idle_node()
        yield made


@pytest.fixture
def work(short_tmp: Path) -> Path:
    (short_tmp / "job.sh").write_text(SCRIPT)
    return short_tmp


def test_the_id_is_said_in_the_words_that_scripts_look_for(home: Home, work: Path) -> None:
    done = home.slurm("sbatch", "job.sh", "a", "b c", cwd=work)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"Submitted batch job (\d+)\n", done.stdout)
    assert found is not None, done.stdout
    out = work / f"slurm-{found[1]}.out"
    eventually(lambda: out.exists() and out.read_text() == "named a b c\n")


def test_parsable_prints_the_id_alone_and_quiet_prints_nothing(home: Home, work: Path) -> None:
    assert re.fullmatch(r"\d+\n", home.slurm("sbatch", "--parsable", "job.sh", cwd=work).stdout)
    done = home.slurm("sbatch", "-Q", "job.sh", cwd=work)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_decides_nothing_is_remarked_on_except_to_programs(home: Home, work: Path) -> None:
    words = ("--account=lab", "--mail-type=END", "--wrap", "true")
    said = home.slurm("sbatch", *words, cwd=work)
    assert "--account=lab has no effect" in said.stderr and "--mail-type has no effect" in said.stderr
    parsable = home.slurm("sbatch", "--parsable", *words, cwd=work)
    assert (parsable.returncode, parsable.stderr) == (0, ""), "some read both streams as one"


def test_who_names_clusters_is_told_the_jobs_cluster(home: Home, work: Path) -> None:
    said = home.slurm("sbatch", "-M", "all", "job.sh", cwd=work)
    assert re.fullmatch(r"Submitted batch job \d+ on cluster warpdeck\n", said.stdout), said.stderr
    parsable = home.slurm("sbatch", "--parsable", "job.sh", cwd=work, SLURM_CLUSTERS="warpdeck")
    assert re.fullmatch(r"\d+;warpdeck\n", parsable.stdout), parsable.stderr


def test_a_script_comes_from_standard_input_or_from_the_path(home: Home, work: Path) -> None:
    done = home.slurm(
        "sbatch", "--wait", "--parsable", cwd=work, data="#!/bin/sh\necho $SLURM_JOB_NAME; exit 4\n"
    )
    assert done.returncode == 4
    assert (work / f"slurm-{done.stdout.strip()}.out").read_text() == "sbatch\n"
    (work / "else").mkdir()
    found = home.slurm("sbatch", "--wait", "job.sh", cwd=work / "else", PATH=f"/usr/bin:/bin:{work}")
    assert found.returncode == 0, found.stdout + found.stderr


def test_wait_ends_with_the_jobs_exit_code_and_1_for_a_signal(home: Home, work: Path) -> None:
    assert home.slurm("sbatch", "-W", "--wrap", "exit 3", cwd=work).returncode == 3
    assert home.slurm("sbatch", "-W", "--wrap", "kill -9 $$", cwd=work).returncode == 1
    array = home.slurm("sbatch", "-W", "-a", "0-3", "--wrap", "exit $SLURM_ARRAY_TASK_ID", cwd=work)
    assert array.returncode == 3


def test_a_script_and_variables_tell_sbatch_itself_what_to_do(home: Home, work: Path) -> None:
    said = "#!/bin/sh\n#SBATCH --wait --parsable\nexit 5\n"
    done = home.slurm("sbatch", cwd=work, data=said)
    assert (done.returncode, done.stdout.strip().isdecimal()) == (5, True)
    assert home.slurm("sbatch", cwd=work, data="#!/bin/sh\nexit 6\n", SBATCH_WAIT="1").returncode == 6
    tried = home.slurm("sbatch", cwd=work, data="#!/bin/sh\n#SBATCH --test-only\nexit 7\n")
    assert (tried.returncode, tried.stdout, "to start at" in tried.stderr) == (0, "", True)


def test_test_only_says_when_and_where_and_submits_nothing(home: Home, work: Path) -> None:
    home.slurm("sbatch", "--wait", "job.sh", cwd=work)
    done = home.slurm("sbatch", "--test-only", "-c", "1", "job.sh", cwd=work)
    assert done.returncode == 0, done.stderr
    words = r"sbatch: Job (\d+) to start at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d using 1 processors on nodes \S+ in partition main\n"
    assert (found := re.match(words, done.stderr)) is not None, done.stderr
    assert home.slurm("sbatch", "--parsable", "-H", "job.sh", cwd=work).stdout == f"{found[1]}\n"
    never = home.slurm("sbatch", "--test-only", "--mem=9000G", "job.sh", cwd=work)
    assert never.returncode == 1
    assert never.stderr.startswith("allocation failure: Requested node configuration is not available\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nosuch.sh"], 1, "sbatch: error: Unable to open file nosuch.sh\n"),
        (["--wrap", "true", "x"], 1, "sbatch: error: Script arguments not permitted with --wrap option\n"),
        (["-w", "nixda", "job.sh"], 1, "failed: Invalid node name specified\n"),
        (["--mem=9000G", "job.sh"], 1, "failed: Requested node configuration is not available\n"),
        (["--reservation=x", "job.sh"], 1, "failed: Requested reservation is invalid\n"),
    ],
)
def test_refusals_are_in_slurms_words(home: Home, work: Path, words: list[str], code: int, said: str) -> None:
    done = home.slurm("sbatch", *words, cwd=work)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_an_unknown_option_ends_as_getopt_has_it(home: Home, work: Path) -> None:
    done = home.slurm("sbatch", "--foo", "job.sh", cwd=work)
    assert done.returncode == 255
    assert done.stderr.endswith('Try "sbatch --help" for more information\n')


def test_a_script_that_is_none_is_refused(home: Home, work: Path) -> None:
    (work / "bad.sh").write_text("echo hello\n")
    done = home.slurm("sbatch", "bad.sh", cwd=work)
    assert done.returncode == 1 and "not look like a batch script" in done.stderr


def test_exported_shell_functions_reach_the_script(home: Home, work: Path) -> None:
    function = {"BASH_FUNC_module%%": "() {  echo loaded $1; }"}
    (work / "load.sh").write_text("#!/bin/bash\nmodule cuda\n")
    done = home.slurm("sbatch", "-W", "--parsable", "load.sh", cwd=work, **function)
    assert (work / f"slurm-{done.stdout.strip()}.out").read_text() == "loaded cuda\n"


def test_the_login_shells_variables_come_where_they_are_asked_for(home: Home, work: Path) -> None:
    for name in (".profile", ".bash_profile"):
        (work / name).write_text("echo hello\nexport LOGIN=yes SAME=login\n")
    words = ["-W", "--parsable", "--wrap", "echo .$LOGIN.$SAME"]
    for option, said in (["--get-user-env"], ".yes.mine\n"), ([], "..mine\n"):
        done = home.slurm("sbatch", *option, *words, cwd=work, HOME=str(work), SAME="mine")
        assert (work / f"slurm-{done.stdout.strip()}.out").read_text() == said


def test_what_was_edited_meanwhile_runs_unless_the_site_wants_what_was_sent(home: Home, work: Path) -> None:
    home.ok("up")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    code = work / "code.sh"
    for sbatch_runs, ran in (("snapshot", "sent"), ("folder", "edited")):
        (home.path / "config.toml").write_text(f'[submission]\nsbatch_runs = "{sbatch_runs}"\n')
        home.ok("config", "reload")
        code.write_text("echo sent\n")
        job = home.slurm("sbatch", "--parsable", "-H", "--wrap", "sh code.sh", cwd=work).stdout.strip()
        eventually(lambda job=job: home.json("show", job)["snapshot"], what="its snapshot is there")
        code.write_text("echo edited\n")
        home.ok("release", job)
        out = work / f"slurm-{job}.out"
        eventually(lambda out=out: out.exists() and out.read_text(), what="its output")
        assert out.read_text() == f"{ran}\n"


def test_the_script_reads_the_file_of_input(home: Home, work: Path) -> None:
    (work / "data.named").write_text("first line\n")
    done = home.slurm(
        "sbatch", "--parsable", "--wait", "-i", "data.%x", "-J", "named", "--wrap", "cat", cwd=work
    )
    assert done.returncode == 0, done.stderr
    assert (work / f"slurm-{done.stdout.strip()}.out").read_text() == "first line\n"
    done = home.slurm("sbatch", "--wait", "-i", "nowhere", "-o", "none.out", "--wrap", "cat", cwd=work)
    assert done.returncode == 1


def test_soft_limits_of_the_submitter_hold_for_the_script_and_its_steps(home: Home, work: Path) -> None:
    home.ok("up")  # with the limits of this process, which jobs without others have
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = "ulimit -Sn; srun sh -c 'ulimit -Sn'; ulimit -Sn 100; srun sh -c 'ulimit -Sn'"
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        done = home.slurm("sbatch", "--parsable", "--wait", "--wrap", script, cwd=work)
        free = home.slurm(
            "sbatch", "--parsable", "--wait", "--propagate=NONE", "--wrap", "ulimit -Sn", cwd=work
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (work / f"slurm-{done.stdout.strip()}.out").read_text().split() == ["300", "300", "100"]
    assert (work / f"slurm-{free.stdout.strip()}.out").read_text().split() != ["300"]


def test_variables_come_from_a_file(home: Home, work: Path) -> None:
    (work / "vars").write_text("WD_ONE=1\0WD_TWO=a\nb\0")
    words = ["--export=NONE", "--export-file=vars", "--wrap", 'echo "$WD_ONE $WD_TWO"']
    done = home.slurm("sbatch", "--parsable", "--wait", *words, cwd=work)
    assert (work / f"slurm-{done.stdout.strip()}.out").read_text() == "1 a\nb\n"


@pytest.mark.parametrize(
    ("words", "said", "code"),
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
def test_a_value_that_cannot_be_is_refused_in_sbatchs_words(
    home: Home, work: Path, words: list[str], said: str, code: int
) -> None:
    done = home.slurm("sbatch", *words, "--wrap", "true", cwd=work)
    assert said in done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (code, "")
    (work / "directive.sh").write_text(f"#!/bin/sh\n#SBATCH {' '.join(words)}\ntrue\n")
    done = home.slurm("sbatch", "directive.sh", cwd=work)
    assert said in done.stderr.splitlines()
    assert done.returncode == code


def test_lines_of_other_schedulers_count_as_they_do_for_sbatch(home: Home, work: Path) -> None:
    said = "#!/bin/sh\n#SBATCH -J own\n#PBS -N other -W umask=027\necho $SLURM_JOB_NAME; umask\n#PBS -l walltime=1\n"
    done = home.slurm("sbatch", "--wait", "--parsable", cwd=work, data=said)
    assert done.returncode == 0, done.stderr
    assert (work / f"slurm-{done.stdout.strip()}.out").read_text() == "other\n0027\n"
    refused = home.slurm("sbatch", cwd=work, data="#!/bin/sh\n#PBS -Z\n")
    words = (
        "sbatch: invalid option -- 'Z'\nsbatch: error: Unrecognized command line parameter ?\n  line 2: write"
    )
    assert (refused.returncode, refused.stdout) == (1, "") and refused.stderr.startswith(words)
    assert home.slurm("sbatch", "--ignore-pbs", cwd=work, data="#!/bin/sh\n#PBS -Z\n").returncode == 0
