"""sbatch through the user's submitter and through the Python client: both must submit the same job."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, running
from tests.support.waiting import WAIT_S, eventually

from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import folder_of, listens, log_of
from warpdeck.model import Request
from warpdeck.slurm.shims.sbatch_script import LOOK, script

PYTHON_CODE = 7
"""Exit code of the program that stands for the Python client, in tests of which of the two is used."""
AT_ONCE = 4
LINE_S = 120.0
"""Time limit for a line with sixty submissions."""

Result = tuple[int, str, str]
"""(exit code, output, errors)."""
Results = tuple[Result, Result]
"""Results of the submitter and of the Python client."""


@dataclass(frozen=True)
class Case:
    """A command line. Its shell runs `before` first."""

    argv: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)
    before: str = ""


class Site:
    """A home with a submitter, and the two ways of submission as programs."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.paths = Paths(str(home.path))
        self.sbatch = Path(home.ok("shims", "--folder").strip()) / "sbatch"
        through_python = _program(
            folder.parent / "python" / "python", f"#!/bin/sh\necho python client\nexit {PYTHON_CODE}\n"
        )
        script_text = script(
            head="#",
            home=self.paths.home,
            folder=folder_of(self.paths),
            interpreter=str(through_python),
            folders=[],
        )
        self.through_submitter = _program(folder.parent / "with-submitter" / "sbatch", script_text)
        without_folder = self.sbatch.read_text().replace(folder_of(self.paths), "/nowhere")
        self.through_python = _program(folder.parent / "without-submitter" / "sbatch", without_folder)

    def run(self, program: Path, argv: Sequence[str | bytes], *, before: str = "", **environ: str) -> Result:
        """Return (exit code, output, errors) of a command line, after its shell has run `before`."""
        result = subprocess.run(
            ["bash", "-c", f'{before}\nexec "$0" "$@"', program, *argv],
            cwd=self.folder,
            env={**self.home.environ, "PWD": str(self.folder), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command line."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.home.environ,
            capture_output=True,
            text=True,
            timeout=LINE_S,
            check=False,
        )

    def run_case(self, program: Path, case: Case) -> Result:
        return self.run(program, case.argv, before=case.before, **case.environ)

    def uses_python_client(self, *argv: str | bytes, before: str = "", **environ: str) -> bool:
        """Return whether the submitter does not answer this command line, so that the Python client is used."""
        result = self.run(self.through_submitter, argv, before=before, **environ)
        assert result[:2] == (PYTHON_CODE, "python client\n") or (result[0] == 0 and result[2] == ""), result
        return result[0] == PYTHON_CODE

    def start_submitter(self) -> int:
        """Return the submitter's pid once it listens."""

        def submitter_listens() -> bool:
            self.run(
                self.sbatch, ["-H", "--wrap", "true"]
            )  # The command runs again, because the last one may have met a submitter that was ending.
            return listens(self.paths)

        try:
            eventually(submitter_listens, what="a submitter listens")
        except AssertionError as error:
            log = Path(log_of(self.paths))
            raise AssertionError(f"{error}\n{log.read_text() if log.exists() else ''}") from error
        return self.submitter()

    def submitter(self) -> int:
        return eventually(lambda: next(iter(submitter_pids(self.home)), 0), what="a submitter runs")

    def request(self, output: str) -> Request:
        """Return the stored request of a submission, without its snapshot and the time for it."""
        (job_id,) = re.findall(r"\d+", output.splitlines()[-1])
        with sqlite3.connect(f"file:{self.paths.database}?mode=ro", uri=True) as database:
            ((data,),) = database.execute("SELECT data FROM requests WHERE array_job_id = ?", (int(job_id),))
        database.close()
        stored = msgspec.msgpack.decode(data, type=Request)
        return msgspec.structs.replace(stored, snapshot=None, code_due_unix=None)


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o700)
    return path


def submitter_pids(home: Home) -> list[int]:
    """Return the pids of the home's submitters."""
    return running("submitter.service", f"'{home.path}'")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One home for all tests of the module."""
    with temporary_home() as home:
        folder = home.path.parent / "work"
        (folder / "sub").mkdir(parents=True)
        (folder / "link").symlink_to("sub")
        (folder / "job.sh").write_text(
            "#!/bin/bash\n#SBATCH -J named -t 3 --mem=50M\n#SBATCH --comment='a b'\nhostname\n"
        )
        (folder / "plain.sh").write_text("#!/bin/sh\ntrue\n")
        (folder / "by-link.sh").symlink_to("plain.sh")
        (folder / "sub" / "on-path.sh").write_text("#!/bin/sh\ntrue\n")
        (folder / "variables").write_bytes(b"A=1\0B=two words\0")
        (folder / "stdin.sh").symlink_to("/dev/stdin")
        home.ok("up")
        home.wait_for_idle_node()
        site = Site(home, folder)
        site.start_submitter()
        yield site


WRAP = ("--wrap", "true")
SUBMITTED = [
    Case(("plain.sh",)),
    Case(("./plain.sh",)),
    Case(("by-link.sh",)),
    Case(("job.sh",)),
    Case(("job.sh", "a b", "", "new\nline", "*", "'\"$HOME\\", "--not-an-option", "é")),
    Case(("-t", "5", "job.sh")),
    Case(("-J", "two words", *WRAP)),
    Case(("-J", "漢字 é", *WRAP)),
    Case(("--job-name=", "plain.sh")),
    Case(("--wrap", "echo 'a  b' \"$HOME\" \\\n; true")),
    Case(("--parsable", *WRAP)),
    Case(("-p", "no-such-partition", *WRAP)),  # The site has no partitions, and sbatch prints that.
    Case(("--comment", "x" * 3000, *WRAP)),
    Case(("-t", "1-2:3:4", *WRAP)),
    Case(("--time-min=1", "-t2", *WRAP)),
    Case(("-n", "1", "-c1", "-N1", *WRAP)),
    Case(("--mem-per-cpu=10M", *WRAP)),
    Case(("--mem", "100M", *WRAP)),
    Case(("-a", "0-3", *WRAP)),
    Case(("--array=1,3,5-9:2%2", "job.sh")),
    Case(("-o", "out-%j", "-e", "err-%j", *WRAP)),
    Case(("--output=/dev/null", *WRAP)),
    Case(("-D", "sub", *WRAP)),
    Case(("--chdir=~", *WRAP)),
    Case(("-i", "/dev/null", *WRAP)),
    Case(("--open-mode=append", *WRAP)),
    Case(("--export=NONE", *WRAP)),
    Case(("--export=ALL,A=1,B", *WRAP), {"B": "b"}),
    Case(("--export=A=1 2", *WRAP)),
    Case(("--export-file=variables", *WRAP)),
    Case(("--propagate", *WRAP)),
    Case(("--propagate=NOFILE,CORE", *WRAP), before="ulimit -S -n 77; ulimit -S -c 0"),
    Case(("--propagate=NONE", *WRAP)),
    Case(("--nice=5", *WRAP)),
    Case(("--dependency=afterok:999999", *WRAP)),
    Case(("--requeue", *WRAP)),
    Case(("--no-requeue", *WRAP)),
    Case(("--signal=B:USR1@60", *WRAP)),
    Case(("--dependency=singleton", *WRAP)),
    Case(("--mail-type=NONE", *WRAP)),
    Case(("--exclusive", *WRAP)),
    Case(("--begin=2038-01-01T10:00:00", *WRAP)),
    Case(("--deadline=2038-01-01", "-t", "1", *WRAP)),
    Case(("--kill-on-invalid-dep=yes", *WRAP)),
    Case(("--verbose", *WRAP)),
    Case(("--distribution=cyclic", *WRAP)),
    Case(("--ntasks-per-node=1", *WRAP)),
    Case(WRAP, {"SBATCH_TIMELIMIT": "7", "SBATCH_JOB_NAME": "of a variable", "SBATCH_NO_REQUEUE": ""}),
    Case(("job.sh",), {"SBATCH_TIMELIMIT": "9"}),
    Case(("on-path.sh",), before='PATH="$PWD/sub:$PATH"'),
    Case(WRAP, before="umask 027"),
    Case(WRAP, {"SLURM_UMASK": "0007"}),
    Case(WRAP, before="f() { echo 'a  b'; }; export -f f"),
    Case(WRAP, {"HUGE": "x" * 120_000, **{f"HUGE{number}": "y" * 100_000 for number in range(8)}}),
    Case(WRAP, {"LANG": "C", "LC_ALL": "C"}),
    Case(("-J", "é", *WRAP), {"LC_ALL": "C.UTF-8"}),
    Case(WRAP, {"IFS": "x", "line": ".", "sent": "y", "a.b": "c", "OPTIND": "3", "PS4": "$(exit)"}),
    Case(WRAP, before="export NO_TEXT=$'\\xff'"),
    Case(WRAP, before="cd link"),
    Case(WRAP, before="cd -P link"),
    Case(WRAP, before="unset PWD OLDPWD; cd sub; export -n PWD"),
    Case(WRAP, before="export PWD=/somewhere/else"),
    Case(WRAP, before="ulimit -n 64; ulimit -f 100"),
    Case(WRAP, before="trap '' PIPE INT"),
    Case(WRAP, before="set -o allexport; shopt -s extglob; export SHELLOPTS BASHOPTS"),
    Case(WRAP, before="exec 3<job.sh 4>/dev/null 9</dev/null"),
    Case(WRAP, before="export ENV=$PWD/job.sh BASH_ENV=$PWD/job.sh"),
]
REFUSED = [
    Case(("--no-such-option", *WRAP)),
    Case(("-t", "later", *WRAP)),
    Case(("nothing-there.sh",)),
    Case(("sub",)),
    Case(("variables",)),
    Case(("--wrap", "true", "more")),
    Case(("-w", "no-such-node", *WRAP)),
    Case(("-n", "100000", *WRAP)),
    Case(("--help",)),
    Case(("--version",)),
    Case(("--test-only", "-w", "no-such-node", *WRAP)),
    Case(("job.sh",), {"SBATCH_TIMELIMIT": "never"}),
    Case(("-J", "é", "--no-such-optioñ", *WRAP), {"LC_ALL": "C"}),
    Case(("--export-file=nothing", *WRAP)),
]


@pytest.fixture(scope="module")
def results_of_cases(site: Site) -> list[Results]:
    """Return the results of each case, those of SUBMITTED first."""

    def run_both(case: Case) -> Results:
        case = Case(("-H", *case.argv), case.environ, case.before)
        program = (
            site.sbatch if case.argv[1:] in [refused.argv for refused in REFUSED] else site.through_submitter
        )
        return site.run_case(program, case), site.run_case(site.through_python, case)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(run_both, [*SUBMITTED, *REFUSED]))


@pytest.mark.parametrize(
    "index", range(len(SUBMITTED)), ids=lambda index: " ".join(SUBMITTED[index].argv)[:30]
)
def test_submitter_and_python_client_submit_the_same_job(
    site: Site, results_of_cases: list[Results], index: int
) -> None:
    through_submitter, python_result = results_of_cases[index]
    assert [re.sub(r"\d+", "N", text) for text in through_submitter[1:]] == [
        re.sub(r"\d+", "N", text) for text in python_result[1:]
    ]
    assert through_submitter[0] == python_result[0] == 0, (through_submitter, python_result)
    assert site.request(through_submitter[1]) == site.request(python_result[1])


@pytest.mark.parametrize("index", range(len(REFUSED)), ids=lambda index: " ".join(REFUSED[index].argv)[:30])
def test_submitter_and_python_client_refuse_with_the_same_message(
    results_of_cases: list[Results], index: int
) -> None:
    through_submitter, alone = results_of_cases[len(SUBMITTED) + index]
    assert through_submitter == alone


@pytest.mark.parametrize(
    ("argv", "before"),
    [
        ((), ""),
        (("-",), ""),
        (("/dev/stdin",), "exec <plain.sh"),
        (("/proc/self/fd/0",), "exec <plain.sh"),
        (("stdin.sh",), "exec <plain.sh"),
        (("/dev/fd/3",), "exec 3<plain.sh"),
        (("fds/3",), "ln -sfn /proc/self/fd fds; exec 3<plain.sh"),
        (("fifo",), "rm -f fifo; mkfifo fifo"),
        (("--export-file=3", *WRAP), "exec 3<variables"),
        (("--wait", *WRAP), ""),
        (WRAP, "export SBATCH_WAIT=1"),
        (("--test-only", *WRAP), ""),
        (("-J", b"\xff", *WRAP), ""),
        (("-t", "never", *WRAP), ""),
        (WRAP, "mkdir gone; cd gone; rmdir ../gone"),
        (WRAP, "export TZ=Asia/Tokyo"),
        (WRAP, "export WARPDECK_HOME=/tmp/another"),
        (WRAP, "cd /; export WARPDECK_HOME=${WARPDECK_HOME#/}"),
        (WRAP, "unset HOME"),
        (WRAP, "exec 6</dev/null"),
    ],
    ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, tuple) else value[:30],
)
def test_requests_that_a_submitter_cannot_evaluate_use_the_python_client(
    site: Site, argv: tuple[str | bytes, ...], before: str
) -> None:
    assert site.uses_python_client(*argv, before=before)


@pytest.mark.root
@pytest.mark.parametrize(
    "command",
    [
        "setpriv --regid=65534 --clear-groups",
        "setpriv --no-new-privs",
        "unshare -m",
        "unshare -u",
        "setpriv --bounding-set=-all --inh-caps=-all --reuid=0 --groups=5",
    ],
)
def test_callers_with_other_credentials_use_the_python_client(site: Site, command: str) -> None:
    assert site.uses_python_client(*WRAP, before=f'exec {command} "$0" "$@"')


def test_a_job_is_submitted_without_standard_error(site: Site) -> None:
    assert site.run(site.through_submitter, ["-H", *WRAP], before="exec 2>&-")[0] == 0


def test_a_quiet_submission_prints_nothing(site: Site) -> None:
    assert site.run(site.through_submitter, ["-H", "-Q", *WRAP]) == (0, "", "")


def test_output_is_written_at_the_offset_of_the_shell(site: Site) -> None:
    line = f"""
        {site.through_submitter} -H --wrap true >one; {site.through_submitter} -H --wrap true >>one
        {{ echo first; {site.through_submitter} -H --wrap true; echo last; }} >two
        {site.through_submitter} -H --wrap true 2>&1 | head -n 1
        {site.through_submitter} -H --wrap true | true
        x=$({site.through_submitter} -H --parsable --wrap true); echo "$x"
    """
    result = site.shell(line)
    assert result.stderr == "" and re.fullmatch(r"Submitted batch job \d+\n\d+\n", result.stdout)
    assert re.fullmatch(r"(Submitted batch job \d+\n){2}", (site.folder / "one").read_text())
    assert re.fullmatch(r"first\nSubmitted batch job \d+\nlast\n", (site.folder / "two").read_text())


def test_many_parallel_shells_each_submit_their_job(site: Site) -> None:
    line = f"seq 60 | xargs -P 12 -I @ {site.sbatch} -H --parsable -J many-@ --wrap true"
    result = site.shell(line)
    jobs = result.stdout.split()
    assert (result.returncode, result.stderr, len(set(jobs))) == (0, "", 60)


def test_each_submitted_job_has_a_record_of_its_code(site: Site) -> None:
    result = site.run(site.through_submitter, ["-H", "--parsable", *WRAP])
    snapshot = eventually(
        lambda: site.home.json("show", result[1].strip())["snapshot"], what="the job has its record"
    )
    assert snapshot["root"] == str(site.folder)


def test_a_killed_submitter_loses_and_repeats_no_job(site: Site) -> None:
    script_line = (
        f"for n in $(seq 40); do {site.sbatch} -H --parsable -J killed-$n --wrap true || echo lost-$n; done"
    )
    with subprocess.Popen(
        ["bash", "-c", script_line],
        cwd=site.folder,
        env=site.home.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as loop:
        assert loop.stdout is not None
        lines = []
        for line in loop.stdout:
            lines.append(line.strip())
            if len(lines) % 5 == 0:
                kill(submitter_pids(site.home))
        assert loop.stderr is not None
        err = loop.stderr.read()
    rows = [row.split("|") for row in site.home.slurm("squeue", "-h", "-o", "%j|%i").stdout.splitlines()]
    killed = [(name, job) for name, job in rows if name.startswith("killed-")]
    queue = dict(killed)
    assert len(killed) == len(queue), "no job was submitted twice"
    for number, line in enumerate(lines, 1):
        if line == f"lost-{number}":
            assert LOOK in err
        else:
            assert queue[f"killed-{number}"] == line
    site.start_submitter()


def test_a_submitter_ends_with_its_killed_controller(site: Site) -> None:
    before = site.start_submitter()
    site.home.kill_controller()
    eventually(lambda: before not in submitter_pids(site.home), what="the submitter has ended")
    assert site.uses_python_client("-H", *WRAP)
    # This starts the controller and the submitter.
    assert site.run(site.sbatch, ["-H", "--parsable", *WRAP])[0] == 0
    assert site.start_submitter() != before
    assert not site.uses_python_client("-H", *WRAP)


def test_only_one_submitter_runs(site: Site) -> None:
    kill(submitter_pids(site.home))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(lambda _: site.run(site.sbatch, ["-H", *WRAP])[0], range(8)))
    assert codes == [0] * 8
    eventually(lambda: len(submitter_pids(site.home)) == 1, what="one submitter is left")


@pytest.mark.root
def test_a_folder_accessible_to_others_is_not_used(site: Site) -> None:
    folder = Path(folder_of(site.paths))
    for mode, owner in ((0o755, 0), (0o700, 65_534)):
        kill(submitter_pids(site.home))
        eventually(lambda: not submitter_pids(site.home))
        folder.chmod(mode)
        os.chown(folder, owner, owner)
        assert site.run(site.sbatch, ["-H", *WRAP])[0] == 0
        log = Path(log_of(site.paths))
        message = eventually(log.read_text, what="the submitter logs the reason")
        assert "is not this user's alone" in message
        log.write_text("")
        os.chown(folder, 0, 0)
        folder.chmod(0o700)
    site.start_submitter()


def test_sbatch_works_without_a_submitter(site: Site) -> None:
    kill(submitter_pids(site.home))
    folder = site.home.path / "submitter"
    folder.rename(site.home.path / "aside")
    folder.write_text("")
    try:
        assert site.run(site.sbatch, ["-H", *WRAP])[0] == 0
    finally:
        folder.unlink()
        (site.home.path / "aside").rename(folder)
    site.start_submitter()
