"""Errors of Slurm's commands, as a gateway tells them."""

from __future__ import annotations

from warpdeck.engines.slurm.commands import command_error

MUNGE_KILLED = """\
squeue: error: If munged is up, restart with --num-threads=10
squeue: error: Munge encode failed: Failed to connect to "/run/munge/munge.socket.2": Connection refused
squeue: error: slurm_send_node_msg: auth_g_create: REQUEST_JOB_INFO has authentication error
slurm_load_jobs error: Protocol authentication error
"""


def test_a_refused_connection_to_munge_is_no_fault_of_slurmctld() -> None:
    error = command_error("squeue", MUNGE_KILLED)
    assert error.message == "squeue: slurm_load_jobs error: Protocol authentication error"
    assert error.hint.startswith("munge does not run on this machine")


def test_a_refused_connection_to_slurmctld_is_told() -> None:
    error = command_error("scontrol", "slurm_load_partitions error: Connection refused\n")
    assert error.hint.startswith("slurmctld is not running on its host")
