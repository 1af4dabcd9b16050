"""--mail-type with real jobs, a program in the place of sendmail, and a webhook on loopback."""

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
    new_home = Home(short_tmp / "home")
    yield new_home
    new_home.close()


def configure_mail(home: Home, *, code: int = 0, **table: str) -> Path:
    """Configure a sendmail that writes its input into the returned folder."""
    folder = home.path.parent / "sent"
    folder.mkdir()
    program = folder.parent / "sendmail"
    program.write_text(SENDMAIL.format(folder=folder, code=code))
    program.chmod(0o755)
    settings = {"program": str(program), **table}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items() if value]
    (home.path / "config.toml").write_text("[mail]\n" + "\n".join(lines) + "\n")
    return folder


def mails(folder: Path) -> list[Any]:
    """Return the sent mails by subject."""
    sent_mails = [email.message_from_bytes(path.read_bytes()) for path in folder.glob("mail.*[0-9]")]
    return sorted(sent_mails, key=lambda mail: str(mail["Subject"]))


def test_start_and_end_are_mailed_to_the_requested_user(home: Home, short_tmp: Path) -> None:
    sent = configure_mail(home)
    options = ["--mail-type=BEGIN,END", "--mail-user=ann@example.org", "-J", "named", "--wrap", "exit 0"]
    result = home.slurm("sbatch", "--wait", *options, cwd=short_tmp)
    assert result.returncode == 0, result.stderr
    eventually(lambda: len(mails(sent)) == 2)
    start_mail, end_mail = mails(sent)
    assert start_mail["To"] == "ann@example.org"
    assert re.fullmatch(r"Slurm Job_id=1 Name=named Began, Queued time 00:\d\d:\d\d", start_mail["Subject"])
    pattern = r"Slurm Job_id=1 Name=named Ended, Run time 00:\d\d:\d\d, COMPLETED, ExitCode 0"
    assert re.fullmatch(pattern, end_mail["Subject"])
    assert {path.read_text() for path in sent.glob("args.*")} == {"-i -- ann@example.org\n"}


def test_a_failed_array_is_mailed_as_one_failure(home: Home, short_tmp: Path) -> None:
    sent = configure_mail(home)
    options = ["--mail-type=ALL", "-a", "0-2", "--wrap", "exit $SLURM_ARRAY_TASK_ID"]
    home.slurm("sbatch", "--wait", *options, cwd=short_tmp)
    eventually(lambda: len(mails(sent)) == 2)
    start_mail, failure_mail = mails(sent)
    assert "Array Summary Job_id=1_* (1) Name=wrap Began" in start_mail["Subject"]
    assert "Array Summary Job_id=1_* (1) Name=wrap Failed" in failure_mail["Subject"]


def test_names_cannot_add_headers_and_addresses_cannot_add_options(home: Home, short_tmp: Path) -> None:
    sent = configure_mail(home)
    home.slurm(
        "sbatch", "-W", "--mail-type=END", "-J", "a\nBcc: all@example.org", "--wrap", "true", cwd=short_tmp
    )
    home.slurm("sbatch", "-W", "--mail-type=END", "--mail-user=-bs", "--wrap", "true", cwd=short_tmp)
    eventually(lambda: "'-bs' is no mail address" in home.log() and len(mails(sent)) == 1)
    (mail,) = mails(sent)
    assert mail["Bcc"] is None
    assert "Name=a?Bcc: all@example.org Ended" in mail["Subject"]


def test_a_failing_mail_program_is_logged_and_delays_no_job(home: Home, short_tmp: Path) -> None:
    configure_mail(home, code=3)
    result = home.slurm("sbatch", "-W", "--mail-type=END", "--wrap", "true", cwd=short_tmp)
    assert result.returncode == 0
    eventually(lambda: "ended with 3" in home.log())
    assert home.slurm("sbatch", "-W", "--wrap", "true", cwd=short_tmp).returncode == 0


RECEIVED: list[dict[str, Any]] = []


class Hook(BaseHTTPRequestHandler):
    """Stores the received documents."""

    def do_POST(self) -> None:
        RECEIVED.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def hook() -> Iterator[str]:
    """Serve the address that this returns."""
    RECEIVED.clear()
    server = HTTPServer(("127.0.0.1", 0), Hook)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    serving.join()


def test_a_webhook_gets_each_mail_as_json(home: Home, short_tmp: Path, hook: str) -> None:
    configure_mail(home, program="", webhook=f"{hook}/hook")
    home.slurm("sbatch", "-W", "--mail-type=FAIL", "--wrap", "exit 9", cwd=short_tmp)
    eventually(lambda: RECEIVED)
    assert RECEIVED[0]["event"] == "FAIL"
    assert (RECEIVED[0]["job_id"], RECEIVED[0]["exit_code"]) == (1, "9:0")


def test_chats_and_telephones_get_mails_in_their_form(home: Home, short_tmp: Path, hook: str) -> None:
    options = ["--mail-type=FAIL", "-J", "<!channel>\n & more", "--wrap", "exit 9"]
    configure_mail(home, program="", webhook=f"{hook}/services/x", webhook_format="slack")
    home.slurm("sbatch", "-W", *options, cwd=short_tmp)
    eventually(lambda: RECEIVED, what="the message")
    (slack,) = RECEIVED
    assert list(slack) == ["text"]
    assert "Name=&lt;!channel&gt;? &amp; more Failed" in slack["text"] and "<" not in slack["text"]
    RECEIVED.clear()
    config = home.path / "config.toml"
    config.write_text(f'[mail]\nwebhook = "{hook}/lab-jobs"\nwebhook_format = "ntfy"\n')
    home.ok("config", "reload")
    home.slurm("sbatch", "-W", *options, cwd=short_tmp)
    eventually(lambda: RECEIVED, what="the notification")
    (ntfy,) = RECEIVED
    assert (ntfy["topic"], ntfy["priority"]) == ("lab-jobs", 4)
    assert ntfy["title"].startswith("Job 2 of ") and "Name=<!channel>? & more Failed" in ntfy["message"]
