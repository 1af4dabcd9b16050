"""Entry point of the command line: run the verb, and print each error as one sentence with a next step."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from warpdeck._version import __version__
from warpdeck.base.errors import ANSWERED, SAID, UserError, WarpdeckError
from warpdeck_agent.client.standard import prepare_standard_streams

VERBS: dict[str, tuple[str, str]] = {
    "submit": ("cli.verbs.submit", "submit a batch script (#SBATCH lines are read)"),
    "lint": ("cli.verbs.lint", "what sbatch makes of a batch script, and what will bite"),
    "run": ("cli.verbs.run", "run a command on the cluster and wait for it; --pty for a shell"),
    "srun": ("slurm.interactive.srun", "run a step of tasks: inside a job, or in one made for it"),
    "salloc": (
        "slurm.interactive.salloc",
        "hold an allocation for a shell here; srun in it starts tasks on its nodes",
    ),
    "attach": ("cli.verbs.attach", "join the terminal of an interactive job"),
    "jupyter": ("cli.verbs.web_server", "a notebook on a GPU: a URL on this machine"),
    "code": ("cli.verbs.web_server", "an editor on a GPU: a URL on this machine, or Remote-SSH"),
    "forward": ("cli.verbs.forward", "a port of a job's node on this machine"),
    "proxy": ("cli.verbs.proxy", "ssh, scp and editors into a job: for ssh's ProxyCommand"),
    "queue": ("cli.verbs.queue", "the waiting and running jobs"),
    "show": ("cli.verbs.jobs", "everything about a job"),
    "why": ("cli.verbs.jobs", "why a job waits, and when it should start"),
    "prio": ("cli.verbs.policy", "the priority of waiting jobs, and each number in it"),
    "share": ("cli.verbs.policy", "the accounts: shares, use, and who is owed how much"),
    "logs": ("cli.verbs.jobs", "a job's output; -f follows it"),
    "metrics": ("cli.verbs.metrics", "what a job used over its life, or a node lately"),
    "cancel": ("cli.verbs.orders", "end jobs, or send them a signal"),
    "hold": ("cli.verbs.orders", "keep waiting jobs from starting"),
    "release": ("cli.verbs.orders", "let held jobs start"),
    "suspend": ("cli.verbs.orders", "stop running jobs where they are (admins)"),
    "resume": ("cli.verbs.orders", "let suspended jobs go on (admins)"),
    "requeue": ("cli.verbs.orders", "end jobs and put them back into the queue"),
    "rerun": ("cli.verbs.rerun", "submit a job again, with the code that it ran"),
    "partitions": ("cli.verbs.policy", "the partitions: nodes, limits, and who may use them"),
    "reservations": ("cli.verbs.policy", "nodes that are set aside, and for whom"),
    "reservation": ("cli.verbs.reservation", "set nodes aside for users, accounts or maintenance (admins)"),
    "qos": ("cli.verbs.policy", "the qualities of service and their limits"),
    "node": ("cli.verbs.nodes", "add, list, drain and remove nodes"),
    "snapshot": ("cli.verbs.snapshot", "the code a job ran: show it, compare it"),
    "config": ("cli.verbs.config", "check, show, reload or import the site's settings"),
    "shims": ("cli.verbs.shims", "sbatch, srun, squeue and the rest on the PATH"),
    "completion": ("cli.verbs.completion", "what a shell needs to complete verbs, options and live names"),
    "up": ("cli.verbs.control", "start the controller"),
    "down": ("cli.verbs.control", "stop the controller; jobs go on"),
    "status": ("cli.verbs.control", "whether the controller runs, and how it is"),
    "simulate": ("cli.verbs.simulate", "replay a workload log, or the site's past, under another policy"),
    "screen": ("cli.verbs.screen", "the app at one of its screens, or that screen as plain text"),
    "serve": ("cli.verbs.serve", "the app in a browser, on this machine"),
    "demo": ("cli.verbs.control", "the app over a simulated cluster of 64 GPUs"),
}
HELP_FLAGS = ("-h", "--help", "help")


def usage() -> str:
    """Return the list of verbs with a line of help for each."""
    lines = [
        "usage: warpdeck [VERB ...]",
        "",
        "Without a verb the full-screen app opens (--readonly, --theme NAME). `warpdeck VERB --help` tells more of each:",
        "",
        *(f"  {verb:<12} {text}" for verb, (_, text) in VERBS.items()),
        "",
        "  warpdeck node add gpu01          add a machine over SSH",
        "  warpdeck submit train.sh         submit a job",
        "  warpdeck run --gpus 1 --pty bash a shell on a GPU",
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
        print(error.message if error.code == SAID else f"warpdeck: {error.message}", file=sys.stderr)
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
        raise UserError(f"there is no verb {verb!r}", _meant_by(verb), exit_code=2)
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
        return f'{verb} is one of Slurm\'s commands: `eval "$(warpdeck shims)"`, then `{verb}`'
    near = difflib.get_close_matches(verb, VERBS, n=1)
    return f"did you mean `warpdeck {near[0]}`?" if near else "see `warpdeck --help`"


if __name__ == "__main__":
    sys.exit(main())
