"""`warpdeck jupyter|code`: a notebook or editor server inside an allocation, as a URL on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import webbrowser
from functools import partial
from types import SimpleNamespace

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json, print_note
from warpdeck.base.paths import Paths, default_paths
from warpdeck.cli.arguments import JOB_NODE, JSON, REST, Argument, UsageError, port
from warpdeck.cli.shared.background import continue_in_background
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.cli.verb import connected
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


def _check(args: SimpleNamespace) -> None:
    options = args.components[0]
    if args.job and options:
        raise UsageError(
            f"{options[0].partition('=')[0]} cannot be combined with --job", "remove one of them"
        )


def _run(verb: str, args: SimpleNamespace) -> int:
    """Find or start the server, and forward it until the job ends."""
    paths = default_paths()
    with connected() as client:
        job = args.job or _submit(client, paths, verb, args)
        try:
            return _serve(client, paths, verb, job, args)
        except KeyboardInterrupt:
            return _interrupted(client, job, ours=not args.job)


def _submit(client: SyncClient, paths: Paths, verb: str, args: SimpleNamespace) -> str:
    """Submit the job that runs the server, and return its id."""
    defaults = ["--job-name", verb, "--output", "%x-%j.log", "--no-requeue"]
    draft = draft_script(
        web_server.job_script(verb),
        verb,
        args=args.rest,
        options=[*defaults, *args.components[0]],
        known=args.known,
        cwd=current_folder(),
        environ=os.environ,
        now=time.time(),
    )
    done = submit(client, draft, paths=paths, snapshot="none")
    for line in done.notes:
        print_note(f"warpdeck: {line}")
    if not args.json:
        print_note(f"submitted job {done.label}")
    return done.label


def _serve(client: SyncClient, paths: Paths, verb: str, job: str, args: SimpleNamespace) -> int:
    try:
        if args.job and not _is_running(client, job, verb, args.node):
            start_server(client, job, verb, words=args.rest, node=args.node)
        found = await_server(client, job, verb, node=args.node, progress=print_note)
    except UserError as error:
        raise _with_last_output(client, job, error, ours=not args.job) from error
    if found.kind == NO_SERVER:
        return _explain_remote_ssh(client, paths, job, args)
    forwarding = Forwarding(
        paths,
        job,
        port=found.port,
        local_port=args.port or 0,
        node=args.node,
        purpose=verb,
        page=found.page,
        say=print_note,
    )
    forwarding.register(client)
    url = found.url(forwarding.local_port)
    _print_url(found, url, job, args)
    if args.detach and not continue_in_background():
        return 0
    try:
        why = _forward(forwarding, client, url, detached=args.detach)
    finally:
        if args.detach:
            os._exit(0)
    print_note(why or f"job {job} has ended")
    return 0


def _is_running(client: SyncClient, job: str, verb: str, node: str) -> bool:
    try:
        return find_server(client, job, verb, node=node, progress=print_note) is not None
    except TunnelRefused:  # a server was there and has ended
        return False


def _print_url(found: WebServer, url: str, job: str, args: SimpleNamespace) -> None:
    if args.json:
        print_json({"job": job, "kind": found.kind, "port": found.port, "url": url})
    else:
        print(url)
        if found.kind == "code-server":
            print(f"password: {found.token}")
    sys.stdout.flush()
    if args.detach:
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


def _explain_remote_ssh(client: SyncClient, paths: Paths, job: str, args: SimpleNamespace) -> int:
    """Explain the use of the user's own VS Code over SSH, for a node without an editor server."""
    host = f"{ssh_client.PREFIX}{job}" + (f".{args.node}" if args.node else "")
    folder = client.call("job", job=job)["work_dir"]
    if args.json:
        print_json({"job": job, "kind": NO_SERVER, "host": host, "folder": folder})
    else:
        print(
            f"The node has neither openvscode-server nor code-server. To connect VS Code on your machine to job {job}:\n"
            "  warpdeck proxy --install            once (--config --via HOST prints it for another machine)\n"
            f"  code --remote ssh-remote+{host} {clean(folder)}"
        )
    sys.stdout.flush()
    if args.detach or args.job:
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
            Argument("--port PORT", "port on this machine; default: any free port", parse=port),
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
        check=_check,
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
