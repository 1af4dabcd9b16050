"""warpdeck jupyter and code: the real Jupyter server in an allocation on another host, as a local URL that
needs its token.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.terminal import AtTerminal
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.lab

CODE_SERVER = "/var/cache/warpdeck-tests/code-server/node_modules/.bin"
START_S = 120.0
"""Time for a Jupyter start without caches on a busy machine."""
EDITOR = f"""#!{sys.executable}
import http.server, os, sys
args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
token_file = args["--connection-token-file"]
assert os.stat(token_file).st_mode & 0o777 == 0o600
token = open(token_file).read()
class Editor(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if f"tkn={{token}}" in self.path else 403)
        self.end_headers()
http.server.HTTPServer((args["--host"], int(args["--port"])), Editor).serve_forever()
"""


def folder_of(program: str) -> str:
    """Return the folder in which the dev extra has installed the program."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    found = shutil.which(program, path=path)
    assert found, f"{program} is not installed: pip install -e .[dev]"
    return str(Path(found).parent)


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Home:
    shared_home.environ["PATH"] = f"{folder_of('jupyter-server')}:{os.environ['PATH']}"
    shared_home.ok(
        "node", "add", f"root@{lab.address(1)}", "--name", "gpu1", "--accept-host-key", lab.fingerprint(1)
    )
    return shared_home


@pytest.fixture
def bare(home: Home) -> Home:
    """The same home with a PATH without any server."""
    return Home(home.path, PATH="/usr/bin:/bin")


@pytest.fixture(autouse=True)
def _end_all_jobs(home: Home) -> Iterator[None]:
    yield
    for row in home.json("queue"):
        home.run("cancel", row["label"])
    eventually(lambda: not home.json("queue"), timeout_s=90, what="all jobs have ended")


def status_of(url: str) -> int:
    """Return the HTTP status of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def api(url: str) -> str:
    """Return the URL of a resource that needs the token, without the token."""
    return url.partition("?")[0] + "api/contents"


def start(home: Home, verb: str, *argv: str) -> dict[str, Any]:
    """Start the server in the background and return its JSON."""
    return dict(json.loads(home.ok(verb, "--detach", "--json", *argv)))


def test_a_notebook_runs_on_a_gpu_and_needs_its_token(home: Home, lab: Lab) -> None:
    server = start(home, "jupyter", "--gpus", "1", "--", "--ServerApp.terminals_enabled=False")
    url, job = server["url"], server["job"]
    token = url.partition("token=")[2]
    assert len(token) == 48
    assert status_of(url) == 200
    assert status_of(api(url)) == 403
    assert status_of(f"{api(url)}?token={token}") == 200
    [forward] = [row for row in home.json("forward", "--list") if row["job"] == job]
    assert forward["purpose"] == "jupyter"
    assert forward["page"].endswith("?token=…") and token not in str(forward)
    row = home.job(job)
    assert (row["name"], row["gpus"], row["node_list"]) == ("jupyter", 1, "gpu1")
    assert lab.pids(1, "jupyter-server") and not lab.pids(1, token)
    home.ok("cancel", job)
    eventually(lambda: home.job(job)["end"], timeout_s=90, what="the job has ended")
    log = home.ok("logs", job)
    assert "ServerApp" in log and token not in log
    assert token not in json.dumps(home.json("show", job))


def test_a_notebook_in_a_running_job_is_reused_and_ends_with_it(home: Home, lab: Lab) -> None:
    job_id = home.json("submit", "--no-snapshot", "--wrap", "sleep 1000", cwd=home.path.parent)["job_id"]
    first = start(home, "jupyter", "--job", str(job_id))
    second = start(home, "jupyter", "--job", str(job_id))
    assert (first["port"], first["url"].partition("?")[2]) == (
        second["port"],
        second["url"].partition("?")[2],
    )
    assert [status_of(server["url"]) for server in (first, second)] == [200, 200]
    [pid] = lab.pids(1, "jupyter-server")
    lab.on(1, "kill", "-9", str(pid))
    third = start(home, "jupyter", "--job", str(job_id))
    assert third["url"].partition("?")[2] != first["url"].partition("?")[2]
    home.ok("cancel", str(job_id))
    eventually(lambda: not lab.pids(1, "jupyter-server"), timeout_s=90, what="the server has ended")
    eventually(lambda: home.json("forward", "--list") == [], what="its forwards have ended")


def test_a_node_without_jupyter_is_reported_with_the_next_step(home: Home, bare: Home) -> None:
    result = bare.run("jupyter")
    assert result.returncode == 1
    assert "there is no jupyter on the PATH of this job on host1" in result.stderr
    assert "pip install jupyterlab" in result.stderr
    job = bare.json("submit", "--no-snapshot", "--wrap", "sleep 1000", cwd=home.path.parent)["job_id"]
    result_in_job = bare.run("jupyter", "--job", str(job))
    assert result_in_job.returncode == 1 and "there is no jupyter on the PATH" in result_in_job.stderr


def test_an_editor_on_the_node_is_started_with_a_token(home: Home, short_tmp: Path) -> None:
    (short_tmp / "openvscode-server").write_text(EDITOR)
    (short_tmp / "openvscode-server").chmod(0o755)
    user = Home(home.path, PATH=f"{short_tmp}:/usr/bin:/bin")
    server = start(user, "code")
    assert server["kind"] == "openvscode-server"
    assert status_of(server["url"]) == 200
    assert status_of(server["url"].partition("?")[0]) == 403


@pytest.mark.codeserver
def test_code_server_accepts_the_password_in_its_url(home: Home, lab: Lab, short_tmp: Path) -> None:
    user = Home(home.path, PATH=f"{CODE_SERVER}:/usr/bin:/bin", XDG_DATA_HOME=str(short_tmp))
    server = start(user, "code")
    assert server["kind"] == "code-server"
    page, _, password = server["url"].partition("#password=")
    assert len(password) == 48
    with urllib.request.urlopen(page, timeout=WAIT_S) as answer:
        assert answer.url == f"{page}login"
    for tried_password, title in (("x" + password[1:], "code-server login"), (password, "workbench")):
        assert title in after_login(page, tried_password)
    [forward] = user.json("forward", "--list")
    assert forward["page"] == "/#password=…"
    assert not lab.pids(1, password)
    second = user.run("code", "--job", server["job"], "--detach")
    assert f"password: {password}" in second.stdout


def after_login(page: str, password: str) -> str:
    """Return the page that code-server shows after a login."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    sent = urlencode({"password": password}).encode()
    with opener.open(f"{page}login", sent, timeout=WAIT_S) as answer:
        return str(answer.read(), "utf-8")


def test_without_an_editor_the_ssh_command_is_printed(home: Home, bare: Home) -> None:
    output = bare.ok("code", "--detach")
    [row] = home.json("queue")
    assert f"code --remote ssh-remote+wd-{row['label']} {home.path.parent}" in output
    assert "warpdeck proxy --install" in output
    server = start(bare, "code", "--job", row["label"])
    assert (server["kind"], server["host"]) == ("none", f"wd-{row['label']}")


@pytest.mark.parametrize(("answer", "state"), [("y\n", "canceled"), ("\n", "keeps running")])
def test_an_interrupt_asks_whether_to_end_the_job(home: Home, answer: str, state: str) -> None:
    terminal = AtTerminal(home, "jupyter")
    try:
        terminal.until("Ctrl-C quits", timeout_s=START_S)
        [row] = home.json("queue")
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.until(f"cancel job {row['label']} too? [y/N]")
        terminal.type(answer)
        terminal.until(state)
        assert terminal.ended() == 130
    finally:
        terminal.close()
    if state == "canceled":
        eventually(lambda: home.job(row["label"])["end"], timeout_s=90, what="the job has ended")
    else:
        assert home.state(row["label"]) == "RUNNING"


def test_enter_opens_the_page_without_the_token_in_the_process_list(home: Home, short_tmp: Path) -> None:
    browser, copied_page = short_tmp / "browser", short_tmp / "opened"
    browser.write_text(
        f'#!/bin/sh\ncp "${{1#file://}}" {copied_page}.new && mv {copied_page}.new {copied_page}\n'
    )
    browser.chmod(0o755)
    terminal = AtTerminal(Home(home.path, **{**home.environ, "BROWSER": f"{browser} %s"}), "jupyter")
    try:
        shown = terminal.until("Enter opens the URL", timeout_s=START_S)
        terminal.type("\n")
        eventually(copied_page.exists, what="the browser was started")
        url = next(word for word in shown.split() if word.startswith("http://127.0.0.1:"))
        assert f"url={url}" in copied_page.read_text()
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["jupyter", "train.py"], "unexpected argument train.py"),
        (["jupyter", "--job", "1", "--gpus", "1"], "--gpus cannot be combined with --job"),
        (["jupyter", "--port", "x"], "'x' is not a port"),
        (["code", "--job"], "option '--job' requires an argument"),
        (["code", "--job", "99999"], "job 99999 is not known"),
        (["jupyter", "--no-such"], "--no-such"),
    ],
)
def test_an_invalid_command_line_has_a_clear_message(home: Home, argv: list[str], expected: str) -> None:
    result = home.run(*argv)
    assert result.returncode in (1, 2) and expected in result.stderr and "Traceback" not in result.stderr
