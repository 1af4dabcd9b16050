"""Entry point of the command line: run the verb, and print each error as one sentence with a next step."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from warpdeck._version import __version__
from warpdeck.base.errors import ANSWERED, VERBATIM, UserError, WarpdeckError
from warpdeck_agent.client.standard import prepare_standard_streams

VERBS: dict[str, tuple[str, str]] = {
    "submit": ("cli.verbs.submit", "submit a batch script; #SBATCH lines are read"),
    "lint": ("cli.verbs.lint", "check a batch script: options, values and likely mistakes"),
    "run": ("cli.verbs.run", "run a command on the cluster and wait for it; --pty for a shell"),
    "srun": ("slurm.interactive.srun", "run parallel tasks in a job, or in a new allocation"),
    "salloc": (
        "slurm.interactive.salloc",
        "allocate resources and open a shell; srun in it runs on the allocated nodes",
    ),
    "attach": ("cli.verbs.attach", "attach to the terminal of an interactive job"),
    "jupyter": ("cli.verbs.web_server", "start Jupyter in a job and print a local URL"),
    "code": ("cli.verbs.web_server", "start VS Code in a job and print a local URL, or use Remote-SSH"),
    "forward": ("cli.verbs.forward", "forward a port of a job's node to this machine"),
    "proxy": ("cli.verbs.proxy", "connect ssh, scp and editors to a job (ProxyCommand)"),
    "queue": ("cli.verbs.queue", "list waiting and running jobs"),
    "show": ("cli.verbs.jobs", "show the details of a job"),
    "why": ("cli.verbs.jobs", "show why a job waits and when it is expected to start"),
    "prio": ("cli.verbs.policy", "show the priority of waiting jobs and its components"),
    "share": ("cli.verbs.policy", "show accounts: shares, usage and fair-share factors"),
    "logs": ("cli.verbs.jobs", "print a job's output; -f follows it"),
    "metrics": ("cli.verbs.metrics", "plot the resource usage of a job or a node"),
    "cancel": ("cli.verbs.orders", "cancel jobs, or send them a signal"),
    "hold": ("cli.verbs.orders", "hold waiting jobs so that they do not start"),
    "release": ("cli.verbs.orders", "release held jobs"),
    "suspend": ("cli.verbs.orders", "suspend running jobs (admins)"),
    "resume": ("cli.verbs.orders", "resume suspended jobs (admins)"),
    "requeue": ("cli.verbs.orders", "stop jobs and put them back in the queue"),
    "rerun": ("cli.verbs.rerun", "submit a job again with the same code"),
    "partitions": ("cli.verbs.policy", "list partitions: nodes, limits and access"),
    "reservations": ("cli.verbs.policy", "list reservations"),
    "reservation": ("cli.verbs.reservation", "create and remove reservations (admins)"),
    "qos": ("cli.verbs.policy", "list qualities of service (QoS) and their limits"),
    "node": ("cli.verbs.nodes", "add, list, drain and remove nodes"),
    "snapshot": ("cli.verbs.snapshot", "show or compare the code snapshots of jobs"),
    "config": ("cli.verbs.config", "check, show, reload or import the configuration"),
    "shims": ("cli.verbs.shims", "put sbatch, srun, squeue and the others on the PATH"),
    "completion": ("cli.verbs.completion", "print the completion script for bash, zsh or fish"),
    "up": ("cli.verbs.control", "start the controller"),
    "down": ("cli.verbs.control", "stop the controller; jobs keep running"),
    "status": ("cli.verbs.control", "show the status of the controller"),
    "simulate": ("cli.verbs.simulate", "replay a workload log or the job history under another policy"),
    "screen": ("cli.verbs.screen", "open a screen of the app, or print it as plain text"),
    "serve": ("cli.verbs.serve", "serve the app to a browser on this machine"),
    "demo": ("cli.verbs.control", "open the app on a simulated cluster of 64 GPUs"),
}
HELP_FLAGS = ("-h", "--help", "help")


def usage() -> str:
    """Return the list of verbs with a line of help for each."""
    lines = [
        "usage: warpdeck [VERB ...]",
        "",
        "Without a verb, the full-screen app opens (options: --readonly, --theme NAME). `warpdeck VERB --help` explains a verb:",
        "",
        *(f"  {verb:<12} {text}" for verb, (_, text) in VERBS.items()),
        "",
        "  warpdeck node add gpu01          add a node over SSH",
        "  warpdeck submit train.sh         submit a job",
        "  warpdeck run --gpus 1 --pty bash open a shell with a GPU",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    prepare_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()  # flush here, where a closed pipe is handled
        return code
    except UserError as error:
        if error.code == ANSWERED:
            print(error.message)
            return error.exit_code
        print(error.message if error.code == VERBATIM else f"warpdeck: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return error.exit_code
    except WarpdeckError as error:
        print(f"warpdeck: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        print(f"warpdeck: {what}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _dispatch(words: list[str]) -> int:
    if words and words[0] in HELP_FLAGS:
        print(usage())
        return 0
    if words and words[0] in ("--version", "version"):
        print(_version_line())
        return 0
    if not words or words[0].startswith("-"):
        # Imported by name, because the core must not depend on the app.
        return int(importlib.import_module("warpdeck_tui.entry").main(words))
    verb = words[0]
    if verb not in VERBS:
        raise UserError(f"unknown verb {verb!r}", _meant_by(verb), exit_code=2)
    module = importlib.import_module(f"warpdeck.{VERBS[verb][0]}")
    return int(module.main(verb, words[1:]))


def _version_line() -> str:
    system = os.uname()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"warpdeck {__version__} (Python {python}, {system.sysname} {system.machine})"


def _meant_by(verb: str) -> str:
    """Return the next step for a user who typed an unknown verb."""
    import difflib  # slow to import, and needed here only

    from warpdeck.slurm.command_table import COMMANDS

    if verb in COMMANDS:
        return f'{verb} is a Slurm command: run `eval "$(warpdeck shims)"`, then `{verb}`'
    near = difflib.get_close_matches(verb, VERBS, n=1)
    return f"did you mean `warpdeck {near[0]}`?" if near else "see `warpdeck --help`"


if __name__ == "__main__":
    sys.exit(main())
