"""--mail-type beside a real Slurm. The same jobs really run on both, and a program replaces the mailers.

Slurm's MailProg gets `-s SUBJECT USER`, and our sendmail gets a complete mail; recipients and subjects are
the same. The comparison leaves out our additional mails (see controller/reducers/mail): one for a failed job
to users who requested only END, and one for an array whose tasks were all ended by a signal. It also leaves
out time limits, which take a minute.
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
MAILER_SCRIPT = """#!/bin/sh
new=$(mktemp "{folder}/new.XXXXXX")
{{ printf '%s\\n' "$@"; printf '\\n'; cat; }} > "$new"
mv "$new" "$new.sent"
"""
VARYING_TEXT = {r"\d\d:\d\d:\d\d": "CLOCK", r"Job_id=\d+": "Job_id=N", r"\(\d+\)": "(N)"}
MAILS_S = 180.0


def mailer(folder: Path) -> Path:
    """Return a program that stores its arguments and input."""
    (folder / "sent").mkdir()
    program = folder / "mailer"
    program.write_text(MAILER_SCRIPT.format(folder=folder / "sent"))
    program.chmod(0o755)
    return program


def read_mails(folder: Path, read: Callable[[list[str]], tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the recipient and subject of each mail."""
    found = [read(path.read_text().splitlines()) for path in (folder / "sent").glob("*.sent")]
    for pattern, word in VARYING_TEXT.items():
        found = [(to, re.sub(pattern, word, subject)) for to, subject in found]
    return Counter(found)


def _slurm_mail(lines: list[str]) -> tuple[str, str]:
    _, subject, to, *_ = lines
    return to, subject


def _warpdeck_mail(lines: list[str]) -> tuple[str, str]:
    mail = email.message_from_string("\n".join(lines[lines.index("") + 1 :]))
    return str(mail["To"]).replace(", ", ","), str(mail["Subject"])


@pytest.fixture
def folder() -> Iterator[Path]:
    new_folder = Path(tempfile.mkdtemp(prefix="wdm", dir="/tmp"))
    yield new_folder
    shutil.rmtree(new_folder, ignore_errors=True)


def test_the_same_recipients_get_the_same_mails_as_in_slurm(folder: Path) -> None:
    folders = [folder / "slurm", folder / "warpdeck"]
    for folder_of_scheduler in folders:
        folder_of_scheduler.mkdir()
    site = SITE.replace("\nPartitionName", f"\nMailProg={mailer(folders[0])}\nKillWait=1\nPartitionName", 1)
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "config.toml").write_text(
        f'[scheduler]\nkill_invalid_dependency = false\n[mail]\nprogram = "{mailer(folders[1])}"\n'
    )
    home = Home(folder / "home")

    def warpdeck(*argv: str) -> str:
        result = home.slurm(*argv, cwd=folders[1])
        assert result.returncode == 0, result.stderr
        return result.stdout

    try:
        with RealSlurm(site) as slurm:
            for folder_of_scheduler, run in ((folders[0], slurm.ok), (folders[1], warpdeck)):
                run_jobs(run, folder_of_scheduler)
            parsers = (_slurm_mail, _warpdeck_mail)

            def mails() -> list[Counter[tuple[str, str]]]:
                return [
                    read_mails(folder_of_scheduler, read)
                    for folder_of_scheduler, read in zip(folders, parsers, strict=True)
                ]

            try:
                eventually(lambda: mails()[0] == mails()[1], timeout_s=MAILS_S)
            except AssertionError:
                slurm_mails, our_mails = mails()
                raise AssertionError(
                    pformat(
                        {"only Slurm": slurm_mails - our_mails, "only we": our_mails - slurm_mails}, width=150
                    )
                ) from None
            assert sum(mails()[0].values()) > len(JOBS)
    finally:
        home.close()


def run_jobs(run: Callable[..., str], output_folder: Path) -> None:
    """Run all jobs, and requeue, hold and cancel some of them."""
    job_ids: dict[str, str] = {}
    for name, options, script in JOBS:
        argv = ("--parsable", "-J", name, f"--output={output_folder}/%j.out", *options, "--wrap", script)
        job_ids[name] = run("sbatch", *argv).strip()
    for name, kill in (("ends", "yes"), ("stays", "no")):
        dependency = f"--dependency=afterok:{job_ids['bad-ALL']}"
        run(
            "sbatch",
            "-J",
            name,
            "--mail-type=ALL",
            dependency,
            f"--kill-on-invalid-dep={kill}",
            "--wrap",
            "true",
        )
    eventually(lambda: _job_states(run, job_ids, "runs", "again") == "RR", timeout_s=MAILS_S)
    run("scontrol", "requeuehold", job_ids["again"])
    run("scancel", job_ids["held"], job_ids["runs"])
    eventually(lambda: _job_states(run, job_ids, "again") == "PD", timeout_s=MAILS_S)
    try:
        eventually(lambda: sorted(_remaining_names(run)) == ["again", "stays"], timeout_s=MAILS_S)
    except AssertionError as error:
        raise AssertionError(run("squeue")) from error


def _remaining_names(run: Callable[..., str]) -> list[str]:
    return run("squeue", "-h", "-t", "R,CG,CF,PD", "-o", "%j").split()


def _job_states(run: Callable[..., str], numbers: dict[str, str], *names: str) -> str:
    return "".join(run("squeue", "-h", "-j", numbers[name], "-o", "%t").strip() for name in names)
