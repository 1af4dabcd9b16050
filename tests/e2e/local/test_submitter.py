"""sbatch by both roads: asked of the user's submitter, and by the client in Python, which must be the same for every job."""

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

OTHER = 7
"""The code of what stands for the other road where a test asks whether it was taken."""
AT_ONCE = 4
LINE_S = 120.0
"""For a line that submits sixty times."""

Said = tuple[int, str, str]
"""(exit code, output, errors)."""
Both = tuple[Said, Said]
"""What asking said, and what the client in Python."""


@dataclass(frozen=True)
class Case:
    """A command line; `before` is what its shell does first."""

    words: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)
    before: str = ""


class Site:
    """A home with a submitter, and the two roads as programs."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.paths = Paths(str(home.path))
        self.sbatch = Path(home.ok("shims", "--folder").strip()) / "sbatch"
        python = _program(folder.parent / "python" / "python", f"#!/bin/sh\necho other road\nexit {OTHER}\n")
        asking = script(
            head="#", home=self.paths.home, folder=folder_of(self.paths), interpreter=str(python), folders=[]
        )
        self.asked = _program(folder.parent / "asked" / "sbatch", asking)
        alone = self.sbatch.read_text().replace(folder_of(self.paths), "/nowhere")
        self.python = _program(folder.parent / "alone" / "sbatch", alone)

    def run(self, program: Path, words: Sequence[str | bytes], *, before: str = "", **environ: str) -> Said:
        """(exit code, output, errors) of a command line, after what its shell does first."""
        done = subprocess.run(
            ["bash", "-c", f'{before}\nexec "$0" "$@"', program, *words],
            cwd=self.folder,
            env={**self.home.environ, "PWD": str(self.folder), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """What becomes of a line of the shell's."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.home.environ,
            capture_output=True,
            text=True,
            timeout=LINE_S,
            check=False,
        )

    def of_case(self, program: Path, case: Case) -> Said:
        return self.run(program, case.words, before=case.before, **case.environ)

    def takes_other_road(self, *words: str | bytes, before: str = "", **environ: str) -> bool:
        """Whether the submitter does not answer this one."""
        found = self.run(self.asked, words, before=before, **environ)
        assert found[:2] == (OTHER, "other road\n") or (found[0] == 0 and found[2] == ""), found
        return found[0] == OTHER

    def start_submitter(self) -> int:
        """Its pid, once it can be asked."""

        def can_be_asked() -> bool:
            self.run(
                self.sbatch, ["-H", "--wrap", "true"]
            )  # again: the last one may have met one that was dying
            return listens(self.paths)

        try:
            eventually(can_be_asked, what="a submitter can be asked")
        except AssertionError as error:
            said = Path(log_of(self.paths))
            raise AssertionError(f"{error}\n{said.read_text() if said.exists() else ''}") from error
        return self.submitter()

    def submitter(self) -> int:
        return eventually(lambda: next(iter(submitters(self.home)), 0), what="a submitter runs")

    def request(self, said: str) -> Request:
        """What was submitted, as it lies in the store, but for its record and what hangs on the clock."""
        (number,) = re.findall(r"\d+", said.splitlines()[-1])
        with sqlite3.connect(f"file:{self.paths.database}?mode=ro", uri=True) as database:
            ((data,),) = database.execute("SELECT data FROM requests WHERE array_job_id = ?", (int(number),))
        database.close()
        found = msgspec.msgpack.decode(data, type=Request)
        return msgspec.structs.replace(found, snapshot=None, code_due_unix=None)


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o700)
    return path


def submitters(home: Home) -> list[int]:
    """The pids of the home's submitters."""
    return running("submitter.service", f"'{home.path}'")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One for all tests of the module."""
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
        made = Site(home, folder)
        made.start_submitter()
        yield made


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
    Case(("-p", "no-such-partition", *WRAP)),  # the site has none, and says so
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
def outcomes(site: Site) -> list[Both]:
    """Of each case, those of SUBMITTED first."""

    def both(case: Case) -> Both:
        case = Case(("-H", *case.words), case.environ, case.before)
        asking = site.sbatch if case.words[1:] in [each.words for each in REFUSED] else site.asked
        return site.of_case(asking, case), site.of_case(site.python, case)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(both, [*SUBMITTED, *REFUSED]))


@pytest.mark.parametrize(
    "place", range(len(SUBMITTED)), ids=lambda place: " ".join(SUBMITTED[place].words)[:30]
)
def test_both_roads_submit_the_same(site: Site, outcomes: list[Both], place: int) -> None:
    asked, alone = outcomes[place]
    assert [re.sub(r"\d+", "N", text) for text in asked[1:]] == [
        re.sub(r"\d+", "N", text) for text in alone[1:]
    ]
    assert asked[0] == alone[0] == 0, (asked, alone)
    assert site.request(asked[1]) == site.request(alone[1])


@pytest.mark.parametrize("place", range(len(REFUSED)), ids=lambda place: " ".join(REFUSED[place].words)[:30])
def test_both_roads_refuse_in_the_same_words(outcomes: list[Both], place: int) -> None:
    asked, alone = outcomes[len(SUBMITTED) + place]
    assert asked == alone


@pytest.mark.parametrize(
    ("words", "before"),
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
def test_what_a_submitter_cannot_know_goes_the_other_road(
    site: Site, words: tuple[str | bytes, ...], before: str
) -> None:
    assert site.takes_other_road(*words, before=before)


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
def test_who_is_not_as_the_submitter_goes_the_other_road(site: Site, command: str) -> None:
    assert site.takes_other_road(*WRAP, before=f'exec {command} "$0" "$@"')


def test_without_an_error_output_a_job_is_submitted_all_the_same(site: Site) -> None:
    assert site.run(site.asked, ["-H", *WRAP], before="exec 2>&-")[0] == 0


def test_a_quiet_submission_says_nothing(site: Site) -> None:
    assert site.run(site.asked, ["-H", "-Q", *WRAP]) == (0, "", "")


def test_an_output_is_written_where_the_shell_left_it(site: Site) -> None:
    line = f"""
        {site.asked} -H --wrap true >one; {site.asked} -H --wrap true >>one
        {{ echo first; {site.asked} -H --wrap true; echo last; }} >two
        {site.asked} -H --wrap true 2>&1 | head -n 1
        {site.asked} -H --wrap true | true
        x=$({site.asked} -H --parsable --wrap true); echo "$x"
    """
    said = site.shell(line)
    assert said.stderr == "" and re.fullmatch(r"Submitted batch job \d+\n\d+\n", said.stdout)
    assert re.fullmatch(r"(Submitted batch job \d+\n){2}", (site.folder / "one").read_text())
    assert re.fullmatch(r"first\nSubmitted batch job \d+\nlast\n", (site.folder / "two").read_text())


def test_many_shells_at_once_all_have_their_job(site: Site) -> None:
    line = f"seq 60 | xargs -P 12 -I @ {site.sbatch} -H --parsable -J many-@ --wrap true"
    said = site.shell(line)
    jobs = said.stdout.split()
    assert (said.returncode, said.stderr, len(set(jobs))) == (0, "", 60)


def test_each_job_has_a_record_of_its_code(site: Site) -> None:
    done = site.run(site.asked, ["-H", "--parsable", *WRAP])
    found = eventually(
        lambda: site.home.json("show", done[1].strip())["snapshot"], what="the job has its record"
    )
    assert found["root"] == str(site.folder)


def test_a_submitter_that_is_killed_costs_no_job_and_makes_none_twice(site: Site) -> None:
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
                kill(submitters(site.home))
        assert loop.stderr is not None
        err = loop.stderr.read()
    rows = [row.split("|") for row in site.home.slurm("squeue", "-h", "-o", "%j|%i").stdout.splitlines()]
    killed = [(name, job) for name, job in rows if name.startswith("killed-")]
    queue = dict(killed)
    assert len(killed) == len(queue), "none was submitted twice"
    for number, line in enumerate(lines, 1):
        if line == f"lost-{number}":
            assert LOOK in err
        else:
            assert queue[f"killed-{number}"] == line
    site.start_submitter()


def test_a_controller_that_is_killed_takes_its_submitter_along(site: Site) -> None:
    before = site.start_submitter()
    site.home.kill_controller()
    eventually(lambda: before not in submitters(site.home), what="the submitter has ended")
    assert site.takes_other_road("-H", *WRAP)
    assert site.run(site.sbatch, ["-H", "--parsable", *WRAP])[0] == 0  # and starts both
    assert site.start_submitter() != before
    assert not site.takes_other_road("-H", *WRAP)


def test_there_is_one_submitter_however_many_begin(site: Site) -> None:
    kill(submitters(site.home))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(lambda _: site.run(site.sbatch, ["-H", *WRAP])[0], range(8)))
    assert codes == [0] * 8
    eventually(lambda: len(submitters(site.home)) == 1, what="one is left")


@pytest.mark.root
def test_a_folder_that_others_reach_is_not_served(site: Site) -> None:
    folder = Path(folder_of(site.paths))
    for mode, owner in ((0o755, 0), (0o700, 65_534)):
        kill(submitters(site.home))
        eventually(lambda: not submitters(site.home))
        folder.chmod(mode)
        os.chown(folder, owner, owner)
        assert site.run(site.sbatch, ["-H", *WRAP])[0] == 0
        log = Path(log_of(site.paths))
        said = eventually(log.read_text, what="the submitter says why")
        assert "is not this user's alone" in said
        log.write_text("")
        os.chown(folder, 0, 0)
        folder.chmod(0o700)
    site.start_submitter()


def test_where_no_submitter_can_be_sbatch_works_all_the_same(site: Site) -> None:
    kill(submitters(site.home))
    place = site.home.path / "submitter"
    place.rename(site.home.path / "aside")
    place.write_text("")
    try:
        assert site.run(site.sbatch, ["-H", *WRAP])[0] == 0
    finally:
        place.unlink()
        (site.home.path / "aside").rename(place)
    site.start_submitter()
