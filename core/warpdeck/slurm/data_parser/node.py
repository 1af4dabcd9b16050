"""A node of `scontrol show node --json` in newer layouts. Pure functions."""

from __future__ import annotations

from warpdeck.base.slurm_version import RELEASE
from warpdeck.slurm.fields.field import Field, Row
from warpdeck.slurm.fields.node_fields import NODE
from warpdeck.slurm.fields.node_json import OWN
from warpdeck.slurm.fields.node_states import flag_names

from .layout import Keys, Layout
from .numbers import UNSET

MAIN = f"""
architecture=arch|some burstbuffer_network_address== boards:=1 boot_time=booted|at cluster_name== cores
specialized_cores:=0 cpu_binding:=0 cpu_load=load|0 free_mem=free_memory|number cpus effective_cpus=cpus
specialized_cpus== energy extra|some features|names active_features=features|names gpu_spec== gres|some
gres_drained==N/A gres_used|some instance_id== instance_type== last_busy=zero mcs_label== specialized_memory:=0 name
next_state_after_reboot:=["INVALID"] address hostname state=states operating_system=kernel|some owner== partitions
port:=0 real_memory=memory res_cores_per_gpu:=0 comment|some reason|some reason_changed_at=reason_at|at
reason_set_by_user=author|some resume_after=zero reservation== alloc_memory=memory_used alloc_cpus=cpus_used
alloc_idle_cpus=idle_cpus tres_used=used_tres|some slurmd_start_time=agent_start|at sockets threads
temporary_disk=tmp_disk weight tres|tres-text version=={RELEASE}
"""
NO_ENERGY: Row = {
    "average_watts": 0,
    "base_consumed_energy": 0,
    "consumed_energy": 0,
    "current_watts": UNSET,
    "previous_consumed_energy": 0,
    "last_collected": 0,
}


def states(node: Row) -> list[str]:
    """Return the base state and the flags of a node, such as ["IDLE", "DRAIN"]."""
    return [str(node["base"]).upper(), *(name.upper() for name in flag_names(node))]


LAYOUT = Layout(
    Keys(41, 45, MAIN),
    Keys(41, 44, "external_sensors:={} power:={} tres_weighted:=0.0"),
    Keys(43, 45, "tls_cert_last_renewal=zero cert_flags:=[] topology=="),
    Keys(45, 45, "suspend_time=infinite"),
    fields={
        **NODE,
        **OWN,
        "energy": Field("", lambda node: NO_ENERGY),
        "states": Field("", states),
    },
)
