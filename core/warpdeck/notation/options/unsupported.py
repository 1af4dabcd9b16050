"""Reasons why options of sbatch, salloc or srun are rejected, and alternatives.

These options would change the resources of a job, so they are not ignored. Options without an entry here are
rejected with a general message.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError

_SOCKETS = "CPUs are not chosen by socket"
_FREQUENCY = ("clock frequencies are not changed", "ask an administrator for a prolog that sets them")
_SEGMENTS = (
    "nodes have no blocks that a job could be divided over",
    "limit the distance of nodes with --switches",
)
_ASYNC = ("a step ends with its srun", "run srun in the background: srun ... &")
_OTHER_USER = ("jobs run as the user who submits them", "submit as that user: sudo -u NAME sbatch ...")
_CLUSTER = ("there is one cluster here, called warpdeck", "leave the option out")
_ON_SUBMIT_HOST = (
    "srun runs no programs on the submit host",
    "run the program in the script, before or after srun",
)
_COPY = (
    "programs are not copied to nodes",
    "put the program where all nodes see it, or use the job's code snapshot",
)

REASONS: dict[str, tuple[str, str]] = {
    "async": _ASYNC,
    "autocomplete": ("shells do not complete these options", "see the options with --help"),
    "batch": (
        "the script runs on the first node of its job",
        "put --constraint on the component that needs it",
    ),
    "bb": ("there are no burst buffers", "copy the data to $TMPDIR in the script"),
    "bbf": ("there are no burst buffers", "copy the data to $TMPDIR in the script"),
    "bcast": _COPY,
    "bcast-exclude": _COPY,
    "cluster": _CLUSTER,
    "cluster-constraint": _CLUSTER,
    "clusters": _CLUSTER,
    "compress": _COPY,
    "consolidate-segments": _SEGMENTS,
    "container": ("OCI bundles are not supported", "write --container-image=IMAGE"),
    "container-id": ("OCI bundles are not supported", "write --container-name=NAME"),
    "container-type": ("the node decides which container runtime runs the job", "leave the option out"),
    "container-save": (
        "containers are not saved as images",
        "run `podman commit` or `enroot export` in the job",
    ),
    "context": ("jobs have no SELinux contexts", "leave the option out"),
    "cpu-freq": _FREQUENCY,
    "debugger-test": ("srun holds no tasks for a debugger", "start the debugger in the step: srun gdb ..."),
    "epilog": _ON_SUBMIT_HOST,
    "external": ("each job runs on nodes of this cluster", "leave the option out"),
    "external-launcher": (
        "srun alone starts the tasks of a step",
        "start the tasks with srun, or the launcher in the script",
    ),
    "gid": _OTHER_USER,
    "gpu-freq": _FREQUENCY,
    "gpus-per-socket": (_SOCKETS, "ask for --gpus-per-node"),
    "interactive": ("salloc runs its shell on the submit host", "write srun --pty bash"),
    "mcs-label": ("jobs have no MCS labels", "use accounts and partitions"),
    "mem-update": (
        "the memory of a running job is not changed",
        "write --mem with the memory that the job needs; `seff JOB` shows how much earlier jobs used",
    ),
    "network": ("network settings are not changed", "leave the option out"),
    "no-allocate": ("every task belongs to an allocation", "leave the option out"),
    "ntasks-per-socket": (_SOCKETS, "write --ntasks-per-node"),
    "ntasks-per-tres": ("Slurm replaced it by --ntasks-per-gpu", "write --ntasks-per-gpu"),
    "oom-kill-step": (
        "the kernel ends only processes of the job that exceeds its memory",
        "write --kill-on-bad-exit=1, so that the step ends with the first task that fails",
    ),
    "parsable": _ASYNC,
    "prolog": _ON_SUBMIT_HOST,
    "reboot": ("nodes are not rebooted for a job", "ask an administrator to run scontrol reboot"),
    "resources": ("there are no hierarchical resources", "write --licenses=NAME"),
    "segment": _SEGMENTS,
    "slurmd-debug": ("there is no slurmd", "read the log of the agent"),
    "spread-segments": _SEGMENTS,
    "test-only": ("srun does not predict starts", "write `sbatch --test-only` or `warpdeck why`"),
    "uid": _OTHER_USER,
    "x11": ("X11 is not forwarded", "use `warpdeck attach` or `warpdeck forward`"),
}


def unsupported(option: str, where: str) -> UserError:
    """Return the error for an unsupported option."""
    reason, hint = REASONS.get(option, ("", "leave the option out if the job can run without it"))
    return UserError(f"{where}: --{option} is not supported{': ' if reason else ''}{reason}", hint)
