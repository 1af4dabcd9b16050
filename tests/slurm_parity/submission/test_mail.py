"""--mail-type beside a real Slurm: the same jobs, really run on both, and a program in the place of each one's mailer.

Slurm's MailProg gets `-s SUBJECT USER`, our sendmail a whole mail: who is told what is the same. The comparison leaves out our
additional mails (see controller/reducers/mail): a failed job's to users who asked for END alone, and an array's whose tasks were all
ended by a signal. It also leaves out a time limit, which takes a minute.
"""

from __future__ import annotations

import email
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from pprint import pformat

import pytest
from tests.slurm_parity.peer.real_slurm import SITE, RealSlurm
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
TYPES = ("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT", "TIME_LIMIT_90",
         "ARRAY_TASKS", "BEGIN,END", "END,FAIL", "begin", "all,none", "none,end", "END,foo", ",END")  # fmt: skip
JOBS = [
    *((f"ok-{kind}", (f"--mail-type={kind}",), "true") for kind in TYPES),
    *((f"bad-{kind}", (f"--mail-type={kind}",), "exit 3") for kind in ("ALL", "FAIL", "BEGIN", "END,FAIL")),
    *((f"killed-{kind}", (f"--mail-type={kind}",), "kill -9 $$") for kind in ("ALL", "FAIL")),
    *(
        (f"mixed-{kind}", (f"--mail-type={kind}", "-a0-2"), "exit $SLURM_ARRAY_TASK_ID")
        for kind in ("ALL", "END", "FAIL", "BEGIN", "ALL,ARRAY_TASKS", "FAIL,ARRAY_TASKS", "ARRAY_TASKS")
    ),
    ("well", ("--mail-type=ALL", "-a0-1"), "true"),
    ("alike", ("--mail-type=ALL", "-a0-1"), "exit 3"),
    ("several", ("--mail-type=END", "--mail-user=ann@x,bob@y"), "true"),
    ("named", ("--mail-user=ann@x",), "true"),
    ("empty", ("--mail-type=END", "--mail-user="), "true"),
    ("held", ("--mail-type=ALL", "-H"), "true"),
    ("runs", ("--mail-type=ALL",), "sleep 1000"),
    ("again", ("--mail-type=ALL",), "sleep 1000"),
]  # fmt: skip
PROGRAM = """#!/bin/sh
new=$(mktemp "{folder}/new.XXXXXX")
{{ printf '%s\\n' "$@"; printf '\\n'; cat; }} > "$new"
mv "$new" "$new.sent"
"""
CHANGING = {r"\d\d:\d\d:\d\d": "CLOCK", r"Job_id=\d+": "Job_id=N", r"\(\d+\)": "(N)"}
MAILS_S = 180.0


def mailer(folder: Path) -> Path:
    """A program that keeps what it gets."""
    (folder / "sent").mkdir()
    program = folder / "mailer"
    program.write_text(PROGRAM.format(folder=folder / "sent"))
    program.chmod(0o755)
    return program


def told(folder: Path, read: Callable[[list[str]], tuple[str, str]]) -> Counter[tuple[str, str]]:
    """(to whom, the subject) of each mail."""
    found = [read(path.read_text().splitlines()) for path in (folder / "sent").glob("*.sent")]
    for pattern, word in CHANGING.items():
        found = [(to, re.sub(pattern, word, subject)) for to, subject in found]
    return Counter(found)


def _theirs(lines: list[str]) -> tuple[str, str]:
    _, subject, to, *_ = lines
    return to, subject


def _ours(lines: list[str]) -> tuple[str, str]:
    mail = email.message_from_string("\n".join(lines[lines.index("") + 1 :]))
    return str(mail["To"]).replace(", ", ","), str(mail["Subject"])


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="wdm", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_who_is_told_what_is_slurms(folder: Path) -> None:
    places = [folder / "theirs", folder / "ours"]
    for place in places:
        place.mkdir()
    site = SITE.replace("\nPartitionName", f"\nMailProg={mailer(places[0])}\nKillWait=1\nPartitionName", 1)
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "config.toml").write_text(
        f'[scheduler]\nkill_invalid_dependency = false\n[mail]\nprogram = "{mailer(places[1])}"\n'
    )
    home = Home(folder / "home")

    def warpdeck(*argv: str) -> str:
        done = home.slurm(*argv, cwd=places[1])
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        with RealSlurm(site) as theirs:
            for place, run in ((places[0], theirs.ok), (places[1], warpdeck)):
                live_through(run, place)
            reads = (_theirs, _ours)

            def found() -> list[Counter[tuple[str, str]]]:
                return [told(place, read) for place, read in zip(places, reads, strict=True)]

            try:
                eventually(lambda: found()[0] == found()[1], timeout_s=MAILS_S)
            except AssertionError:
                there, here = found()
                raise AssertionError(
                    pformat({"only Slurm": there - here, "only we": here - there}, width=150)
                ) from None
            assert sum(found()[0].values()) > len(JOBS)
    finally:
        home.close()


def live_through(run: Callable[..., str], place: Path) -> None:
    """All jobs, and what is done to some of them."""
    numbers: dict[str, str] = {}
    for name, options, script in JOBS:
        argv = ("--parsable", "-J", name, f"--output={place}/%j.out", *options, "--wrap", script)
        numbers[name] = run("sbatch", *argv).strip()
    for name, kill in (("ends", "yes"), ("stays", "no")):
        after = f"--dependency=afterok:{numbers['bad-ALL']}"
        run("sbatch", "-J", name, "--mail-type=ALL", after, f"--kill-on-invalid-dep={kill}", "--wrap", "true")
    eventually(lambda: _states(run, numbers, "runs", "again") == "RR", timeout_s=MAILS_S)
    run("scontrol", "requeuehold", numbers["again"])
    run("scancel", numbers["held"], numbers["runs"])
    eventually(lambda: _states(run, numbers, "again") == "PD", timeout_s=MAILS_S)
    try:
        eventually(lambda: sorted(_left(run)) == ["again", "stays"], timeout_s=MAILS_S)
    except AssertionError as error:
        raise AssertionError(run("squeue")) from error


def _left(run: Callable[..., str]) -> list[str]:
    return run("squeue", "-h", "-t", "R,CG,CF,PD", "-o", "%j").split()


def _states(run: Callable[..., str], numbers: dict[str, str], *names: str) -> str:
    return "".join(run("squeue", "-h", "-j", numbers[name], "-o", "%t").strip() for name in names)
