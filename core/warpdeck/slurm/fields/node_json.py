"""A node as `sinfo --json` and `scontrol show node --json` show it.

Names and formats are those of Slurm's data_parser. Memory is in MiB, times are Unix seconds.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.slurm_version import RELEASE
from warpdeck.slurm.format.units import tres_text

from .field import Field, Row, shaped, table
from .node_fields import NODE
from .node_states import flag_names

KEYS = f"""
architecture=arch burstbuffer_network_address== boards:=1 boot_time=booted|unix comment cores cpu_binding:=0 extra cpus
last_busy:=0 features active_features=features mcs_label== name next_state_after_reboot==invalid address hostname
next_state_after_reboot_flags:=[] operating_system=kernel owner:=null partitions port:=0
slurmd_start_time=agent_start|unix sockets threads temporary_disk=tmp_disk weight slurmd_version=={RELEASE} state=base
state_flags reason reason_changed_at=reason_at|unix reason_set_by_user=author cpu_load=load free_memory gres
gres_drained==N/A gres_used real_memory=memory tres|tres-text alloc_memory=memory_used alloc_cpus=cpus_used idle_cpus
tres_used=used_tres|none tres_weighted=cpus_used|float
"""
"""The keys in the order in which Slurm prints them, each with its field and form as in `field.table`."""
OWN: dict[str, Field] = {
    "idle_cpus": Field("", lambda node: node["cpus"] - node["cpus_used"]),
    "load": shaped(NODE["cpu_load"], lambda load: None if load is None else round(load * 100)),
    "state_flags": Field("", lambda node: [name.upper() for name in flag_names(node)]),
    "used_tres": shaped(NODE["tres_used"], tres_text),
}
"""Fields that only JSON shows."""
VALUES = table(KEYS, {**NODE, **OWN})


def node_object(node: Row) -> dict[str, Any]:
    """Return the node's properties as JSON values."""
    return {key: field.value(node) for key, field in VALUES.items()}
