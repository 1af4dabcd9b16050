"""The requests that a gateway to Slurm cannot perform, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.ports.engine import Action

ADMINISTRATION = "Slurm's administrators do this with Slurm's own commands and slurm.conf"
BACKUP = "slurmctld has its own backup: a second line SlurmctldHost in slurm.conf names it"
IMPOSSIBLE: Mapping[Action, str] = {
    Action.PAUSE: "Slurm cannot wait for the checkpoint of a job that it requeues; send it its signal with "
    "`warpdeck cancel --signal USR1 JOB`, and requeue it when it has exited",
    Action.TELL: "Slurm has no messages to the terminals of jobs; use `scontrol notify` for jobs of srun",
    Action.NODE_ADD: ADMINISTRATION,
    Action.NODE_REMOVE: ADMINISTRATION,
    Action.NODE_CHECK: "Slurm runs its own health check on the nodes (HealthCheckProgram in slurm.conf)",
    Action.CONFIG: "the rules of the cluster are in slurm.conf; `scontrol show config` prints them",
    Action.RELOAD: ADMINISTRATION,
    Action.AMEND: ADMINISTRATION,
    Action.RECOVER: "Slurm keeps its state itself; see StateSaveLocation in slurm.conf",
    Action.STANDBY: BACKUP,
    Action.STANDBY_SET: BACKUP,
    Action.STANDBY_REMOVE: BACKUP,
    Action.TAKEOVER: "Slurm's backup controller takes over with `scontrol takeover`",
}


def capabilities() -> dict[Action, str]:
    """Return each action with the reason why it is impossible, or "" if it is possible."""
    return {action: IMPOSSIBLE.get(action, "") for action in Action}
