"""`warpdeck jupyter|code`: a notebook or editor server inside an allocation, as a URL on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import webbrowser
from functools import partial

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json, print_note
from warpdeck.base.paths import Paths, default_paths
from warpdeck.cli.shared.background import continue_in_background
from warpdeck.cli.slurm_verb import SlurmVerb, SplitWords
from warpdeck.cli.verb import JOB_NODE, JSON, REST, Argument, InvalidValue, UsageError, connected, port
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.forwarding import Forwarding
from warpdeck.client.in_job import ssh_client, web_server
from warpdeck.client.in_job.web_server import NO_SERVER, WebServer
from warpdeck.client.job_web_server import SLOW, await_server, find_server, start_server
from warpdeck.client.submission import draft_script, submit
from warpdeck.client.tunnel import TunnelRefused

LAST_OUTPUT_BYTES = 2000
END_S, END_LOOK_S = 10.0, 0.1
"""Longest wait for the end of a job whose server has ended, and the time between two checks."""


class ServerOptions:
    """The parsed command line. Raises UserError."""

    def __init__(self, words: SplitWords) -> None:
        given = words.given
        try:
            self.port = port(given["port"]) if "port" in given else None
        except InvalidValue as error:
            raise UsageError(f"--port: {error}", "leave --port out for any free port") from None
        self.slurm = words.components[0]
        self.known = words.known
        self.words = words.rest
        self.job = given.get("job", "")
        self.node = given.get("node", "")
        self.detach = "detach" in given
        self.json = "json" in given
        if self.job and self.slurm:
            option = self.slurm[0].partition("=")[0]
            raise UsageError(f"{option} cannot be combined with --job", "remove one of them")


def _run(verb: str, words: SplitWords) -> int:
    """Find or start the server, and forward it until the job ends."""
    options = ServerOptions(words)
    paths = default_paths()
    with connected() as client:
        job = options.job or _submit(client, paths, verb, options)
        try:
            return _serve(client, paths, verb, job, options)
        except KeyboardInterrupt:
            return _interrupted(client, job, ours=not options.job)


def _submit(client: SyncClient, paths: Paths, verb: str, options: ServerOptions) -> str:
    """Submit the job that runs the server, and return its id."""
    defaults = ["--job-name", verb, "--output", "%x-%j.log", "--no-requeue"]
    draft = draft_script(
        web_server.job_script(verb),
        verb,
        args=options.words,
        options=[*defaults, *options.slurm],
        known=options.known,
        cwd=current_folder(),
        environ=os.environ,
        now=time.time(),
    )
    done = submit(client, draft, paths=paths, snapshot="none")
    for line in done.notes:
        print_note(f"warpdeck: {line}")
    if not options.json:
        print_note(f"submitted job {done.label}")
    return done.label


def _serve(client: SyncClient, paths: Paths, verb: str, job: str, options: ServerOptions) -> int:
    try:
        if options.job and not _is_running(client, job, verb, options.node):
            start_server(client, job, verb, words=options.words, node=options.node)
        found = await_server(client, job, verb, node=options.node, progress=print_note)
    except UserError as error:
        raise _with_last_output(client, job, error, ours=not options.job) from error
    if found.kind == NO_SERVER:
        return _explain_remote_ssh(client, paths, job, options)
    forwarding = Forwarding(
        paths,
        job,
        port=found.port,
        local_port=options.port or 0,
        node=options.node,
        purpose=verb,
        page=found.page,
        say=print_note,
    )
    forwarding.register(client)
    url = found.url(forwarding.local_port)
    _print_url(found, url, job, options)
    if options.detach and not continue_in_background():
        return 0
    try:
        why = _forward(forwarding, client, url, detached=options.detach)
    finally:
        if options.detach:
            os._exit(0)
    print_note(why or f"job {job} has ended")
    return 0


def _is_running(client: SyncClient, job: str, verb: str, node: str) -> bool:
    try:
        return find_server(client, job, verb, node=node, progress=print_note) is not None
    except TunnelRefused:  # a server was there and has ended
        return False


def _print_url(found: WebServer, url: str, job: str, options: ServerOptions) -> None:
    if options.json:
        print_json({"job": job, "kind": found.kind, "port": found.port, "url": url})
    else:
        print(url)
        if found.kind == "code-server":
            print(f"password: {found.token}")
    sys.stdout.flush()
    if options.detach:
        print_note(
            f"job {job} keeps running; reconnect with --job {job}, or cancel it with `warpdeck cancel {job}`"
        )
    elif sys.stdin.isatty():
        print_note(("Enter opens the URL; " if _has_browser() else "") + "Ctrl-C quits")


def _forward(forwarding: Forwarding, client: SyncClient, url: str, *, detached: bool) -> str:
    """Forward until the job ends. Return the reason if the forward ended earlier."""
    if detached or not sys.stdin.isatty() or not _has_browser():
        return forwarding.run(client)
    with tempfile.NamedTemporaryFile("w", prefix="warpdeck-", suffix=".html") as page:
        # The browser's command line does not contain the URL itself, because the token would be visible in
        # the process list.
        page.write(f'<meta http-equiv="refresh" content="0; url={url}">\n')
        page.flush()
        show = partial(webbrowser.open, f"file://{page.name}")
        return forwarding.run(client, keys=sys.stdin.fileno(), on_key=show)


def _has_browser() -> bool:
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _interrupted(client: SyncClient, job: str, *, ours: bool) -> int:
    """Handle Ctrl-C: cancel the job if the user agrees."""
    if sys.stdin.isatty():
        try:
            ours = input(f"\ncancel job {job} too? [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            ours = False
    if ours:
        client.call("cancel", jobs=[job])
        print_note(f"job {job} canceled")
    else:
        print_note(f"job {job} keeps running; reconnect with --job {job}")
    return 130


def _with_last_output(client: SyncClient, job: str, error: UserError, *, ours: bool) -> UserError:
    """Return the error with the last output of the server, if its job ended together with it."""
    if not ours or error.code == SLOW or not _ended(client, job):
        return error
    said = bytearray()
    for word, value in client.stream("log", job=job, offset=-LAST_OUTPUT_BYTES):
        if word == "data":
            said += value
    lines = said.decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return error
    return UserError(
        f"job {job} has ended: {clean(lines[-1])}",
        "check that the server is on the PATH (pip install jupyterlab, a virtual environment, a module); "
        f"see `warpdeck logs {job}`",
    )


def _ended(client: SyncClient, job: str) -> bool:
    """Return whether the job has ended. Waits up to END_S, because the controller learns of an end a moment after it."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        if client.call("job", job=job)["row"]["end"]:
            return True
        time.sleep(END_LOOK_S)
    return False


def _explain_remote_ssh(client: SyncClient, paths: Paths, job: str, options: ServerOptions) -> int:
    """Explain the use of the user's own VS Code over SSH, for a node without an editor server."""
    host = f"{ssh_client.PREFIX}{job}" + (f".{options.node}" if options.node else "")
    folder = client.call("job", job=job)["work_dir"]
    if options.json:
        print_json({"job": job, "kind": NO_SERVER, "host": host, "folder": folder})
    else:
        print(
            f"The node has neither openvscode-server nor code-server. To connect VS Code on your machine to job {job}:\n"
            "  warpdeck proxy --install            once (--config --via HOST prints it for another machine)\n"
            f"  code --remote ssh-remote+{host} {clean(folder)}"
        )
    sys.stdout.flush()
    if options.detach or options.job:
        return 0
    number = client.begin("log", job=job, follow=True)
    while True:  # Runs until the job ends or the user presses Ctrl-C.
        for word, _ in client.events(number):
            if word == "end":
                print_note(f"job {job} has ended")
                return 0


def _row(verb: str, about: str) -> SlurmVerb:
    return SlurmVerb(
        verb,
        f"{about}\n\nAll sbatch options (--gpus 1 -t 4:00:00 --mem 64G -p PARTITION ...) apply to the new job. Other options:\n",
        (
            Argument(
                "--job JOB", "start the server in a running job, or reconnect to a server that runs there"
            ),
            JOB_NODE,
            Argument("--port PORT", "port on this machine; default: any free port"),
            Argument("--detach", "print the URL and keep forwarding in the background until the job ends"),
            JSON,
            Argument(f"{REST} WORDS", "more arguments for the server"),
        ),
        examples=(
            f"warpdeck {verb} --gpus 1 -t 8:00:00",
            f"warpdeck {verb} --job 12",
            f"warpdeck {verb} --gpus 1 --detach",
        ),
        notes="""\
Enter opens the URL in a browser, if there is one. Ctrl-C asks whether to cancel the job. Without a terminal,
Ctrl-C cancels a job that was submitted for the server.""",
        takes="sbatch",
        usage=("[OPTIONS] [-- WORDS...]", "--job JOB [--node NODE]"),
        run=partial(_run, verb),
    )


VERBS = (
    _row(
        web_server.JUPYTER,
        """\
Start JupyterLab (or Jupyter Notebook or Jupyter Server) in a job and print a URL on this machine. The
server listens on the node's loopback interface, requires a token and is reached over warpdeck's connection.
jupyter must be on the PATH, on this machine and on the node.""",
    ),
    _row(
        web_server.CODE,
        """\
Start openvscode-server or code-server in a job and print a URL on this machine. The server listens on
the node's loopback interface and requires a token. If neither is installed on the node, the output explains
how VS Code on your own machine connects to the job over SSH.""",
    ),
)
