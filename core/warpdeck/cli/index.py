"""The verbs of `warpdeck` by group: name, module, and summary.

`load` imports the module of one verb. So `warpdeck --help` and the completion of verbs import no module of a verb.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .verb import Verb

GROUPS = {
    "run jobs": {
        "submit": ("submit", "submit a batch script; #SBATCH lines are read"),
        "lint": ("lint", "check a batch script: options, values and likely mistakes"),
        "run": ("run", "run a command on the cluster and wait for it; --pty for a shell"),
        "srun": ("run", "run parallel tasks in a job, or in a new allocation"),
        "salloc": ("run", "allocate resources and open a shell; srun in it runs on the allocated nodes"),
        "attach": ("run", "attach to the terminal of an interactive job"),
        "jupyter": ("web_server", "start Jupyter in a job and print a local URL"),
        "code": ("web_server", "start VS Code in a job and print a local URL, or use Remote-SSH"),
        "forward": ("forward", "forward a port of a job's node to this machine"),
        "proxy": ("proxy", "connect ssh, scp and editors to a job (ProxyCommand)"),
    },
    "look at jobs": {
        "queue": ("queue", "list waiting and running jobs"),
        "show": ("jobs", "show the details of a job"),
        "why": ("jobs", "show why a job waits and when it is expected to start"),
        "prio": ("policy", "show the priority of waiting jobs and its components"),
        "share": ("policy", "show accounts: shares, usage and fair-share factors"),
        "logs": ("jobs", "print a job's output; -f follows it"),
        "metrics": ("metrics", "plot the resource usage of a job or a node"),
        "runs": ("runs", "compare runs: parameters and metrics as columns"),
        "snapshot": ("jobs", "show, compare or restore the code snapshots of jobs"),
    },
    "change jobs": {
        "cancel": ("orders", "cancel jobs, or send them a signal"),
        "hold": ("orders", "hold waiting jobs so that they do not start"),
        "release": ("orders", "release held jobs"),
        "pause": ("orders", "let jobs save their work, free their GPUs, and put them back in the queue"),
        "suspend": ("orders", "suspend running jobs (admins)"),
        "resume": ("orders", "resume suspended jobs (admins)"),
        "requeue": ("orders", "stop jobs and put them back in the queue"),
        "rerun": ("submit", "submit a job again with the same code"),
        "pipeline": ("pipeline", "run stages that depend on each other, and run failed ones again"),
        "study": ("study", "search the best parameters of a program with Optuna"),
    },
    "the cluster": {
        "partitions": ("policy", "list partitions: nodes, limits and access"),
        "reservations": ("reservations", "list reservations"),
        "reservation": ("reservations", "create and remove reservations (admins)"),
        "qos": ("policy", "list qualities of service (QoS) and their limits"),
        "node": ("nodes", "add, list, drain and remove nodes"),
        "audit": ("site.audit", "show who changed what, when and from where, and who was refused"),
        "config": ("config", "check, show, reload or import the configuration"),
        "simulate": ("simulate", "replay a workload log or the job history under another policy"),
    },
    "controller and shell": {
        "up": ("control", "start the controller, or the gateway to Slurm"),
        "down": ("control", "stop the controller or gateway; jobs keep running"),
        "status": ("control", "show the status of the controller or gateway"),
        "recover": ("site.recover", "adopt the jobs that an older database does not know"),
        "backup": ("site.backup", "back up the database and the configuration"),
        "restore": ("site.backup", "restore a backup while the controller is stopped"),
        "verify": ("site.backup", "check the database, or a backup"),
        "standby": ("site.standby", "keep a copy on a second machine, which can take over"),
        "takeover": ("site.takeover", "become the controller of the site, on its standby or after a copy"),
        "service": ("site.service", "start the controller at boot with systemd"),
        "shims": ("shims", "put sbatch, srun, squeue and the others on the PATH"),
        "mcp": ("mcp", "serve tools for a coding agent (Model Context Protocol)"),
        "completion": ("completion", "print the completion script for bash, zsh or fish"),
    },
    "the app": {
        "screen": ("app", "open a screen of the app, or print it as plain text"),
        "serve": ("app", "serve the app to a browser on this machine"),
        "demo": ("app", "open the app on a simulated cluster of 64 GPUs"),
    },
}
"""Group -> verb -> (module in `cli.verbs`, summary), in the order of the help."""
MODULES = {name: module for verbs in GROUPS.values() for name, (module, _) in verbs.items()}
SUMMARIES = {name: summary for verbs in GROUPS.values() for name, (_, summary) in verbs.items()}


def load(name: str) -> Verb:
    """Return the row of a verb. Its module is imported."""
    module = importlib.import_module(f"warpdeck.cli.verbs.{MODULES[name]}")
    rows: tuple[Verb, ...] = module.VERBS
    return next(row for row in rows if row.name == name)
