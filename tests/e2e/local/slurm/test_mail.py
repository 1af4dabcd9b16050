"""--mail-type: real jobs, a program in sendmail's place, a webhook on loopback."""

from __future__ import annotations

import email
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.home import Home
from tests.support.waiting import eventually

SENDMAIL = """#!/bin/sh
printf '%s\\n' "$*" > "{folder}/args.$$"
cat > "{folder}/mail.$$.new" && mv "{folder}/mail.$$.new" "{folder}/mail.$$"
exit {code}
"""


@pytest.fixture
def home(short_tmp: Path) -> Iterator[Home]:
    (short_tmp / "home").mkdir(mode=0o700)
    made = Home(short_tmp / "home")
    yield made
    made.close()


def configure(home: Home, *, code: int = 0, **table: str) -> Path:
    """The site's sendmail writes what it gets into this folder."""
    folder = home.path.parent / "sent"
    folder.mkdir()
    program = folder.parent / "sendmail"
    program.write_text(SENDMAIL.format(folder=folder, code=code))
    program.chmod(0o755)
    words = {"program": str(program), **table}
    lines = [f"{name} = {json.dumps(value)}" for name, value in words.items() if value]
    (home.path / "config.toml").write_text("[mail]\n" + "\n".join(lines) + "\n")
    return folder


def mails(folder: Path) -> list[Any]:
    """Those that were sent, by subject."""
    found = [email.message_from_bytes(path.read_bytes()) for path in folder.glob("mail.*[0-9]")]
    return sorted(found, key=lambda mail: str(mail["Subject"]))


def test_begin_and_end_are_told_to_whom_the_job_names(home: Home, short_tmp: Path) -> None:
    sent = configure(home)
    words = ["--mail-type=BEGIN,END", "--mail-user=ann@example.org", "-J", "named", "--wrap", "exit 0"]
    done = home.slurm("sbatch", "--wait", *words, cwd=short_tmp)
    assert done.returncode == 0, done.stderr
    eventually(lambda: len(mails(sent)) == 2)
    began, ended = mails(sent)
    assert began["To"] == "ann@example.org"
    assert re.fullmatch(r"Slurm Job_id=1 Name=named Began, Queued time 00:\d\d:\d\d", began["Subject"])
    words = r"Slurm Job_id=1 Name=named Ended, Run time 00:\d\d:\d\d, COMPLETED, ExitCode 0"
    assert re.fullmatch(words, ended["Subject"])
    assert {path.read_text() for path in sent.glob("args.*")} == {"-i -- ann@example.org\n"}


def test_a_failure_is_told_as_one_and_an_array_as_a_whole(home: Home, short_tmp: Path) -> None:
    sent = configure(home)
    words = ["--mail-type=ALL", "-a", "0-2", "--wrap", "exit $SLURM_ARRAY_TASK_ID"]
    home.slurm("sbatch", "--wait", *words, cwd=short_tmp)
    eventually(lambda: len(mails(sent)) == 2)
    began, failed = mails(sent)
    assert "Array Summary Job_id=1_* (1) Name=wrap Began" in began["Subject"]
    assert "Array Summary Job_id=1_* (1) Name=wrap Failed" in failed["Subject"]


def test_a_name_makes_no_headers_and_an_address_no_options(home: Home, short_tmp: Path) -> None:
    sent = configure(home)
    home.slurm(
        "sbatch", "-W", "--mail-type=END", "-J", "a\nBcc: all@example.org", "--wrap", "true", cwd=short_tmp
    )
    home.slurm("sbatch", "-W", "--mail-type=END", "--mail-user=-bs", "--wrap", "true", cwd=short_tmp)
    eventually(lambda: "'-bs' is no mail address" in home.log() and len(mails(sent)) == 1)
    (mail,) = mails(sent)
    assert mail["Bcc"] is None
    assert "Name=a?Bcc: all@example.org Ended" in mail["Subject"]


def test_a_program_that_fails_is_logged_and_holds_up_no_job(home: Home, short_tmp: Path) -> None:
    configure(home, code=3)
    done = home.slurm("sbatch", "-W", "--mail-type=END", "--wrap", "true", cwd=short_tmp)
    assert done.returncode == 0
    eventually(lambda: "ended with 3" in home.log())
    assert home.slurm("sbatch", "-W", "--wrap", "true", cwd=short_tmp).returncode == 0


GOT: list[dict[str, Any]] = []


class Hook(BaseHTTPRequestHandler):
    """Keeps what it gets."""

    def do_POST(self) -> None:
        GOT.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def test_a_webhook_gets_each_mail_as_json(home: Home, short_tmp: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Hook)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        configure(home, program="", webhook=f"http://127.0.0.1:{server.server_port}/hook")
        home.slurm("sbatch", "-W", "--mail-type=FAIL", "--wrap", "exit 9", cwd=short_tmp)
        eventually(lambda: GOT)
        assert GOT[0]["event"] == "FAIL"
        assert (GOT[0]["job_id"], GOT[0]["exit_code"]) == (1, "9:0")
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
