"""The configuration of the demo's lab: accounts, QoS, partitions and a reservation."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from .workload import USERS

_CONFIG = """\
grace_s = 2.0 # jobs that are cancelled are soon gone

[scheduler]
default_partition = "main"

[scheduler.weights]
age = 1_000
fairshare = 10_000
qos = 5_000
partition = 1_000

[fairshare]
half_life = "7-00:00:00"

[partitions.main]
nodes = "ALL"
max_time = "1-00:00:00"

[partitions.debug]
nodes = "gpu[07-08]"
max_time = "1:00:00"
priority_tier = 2
max_nodes = 1

[qos.normal]
max_tres_per_user = "gres/gpu=32"

[qos.urgent]
priority = 100
max_jobs_per_user = 2
max_wall = "12:00:00"

[accounts.lab]
description = "all groups"

[accounts.language]
parent = "lab"
shares = 2
default_qos = "normal"
users.alice = {{ default = true }}
users.dave = {{ default = true }}
users.erin = {{ default = true }}
{visitor}
[accounts.vision]
parent = "lab"
default_qos = "normal"
users.bob = {{ default = true }}
users.carol = {{ default = true }}

[reservations.workshop]
nodes = "gpu07"
start = {workshop}
duration = "8:00:00"
accounts = ["vision"]
"""
_WORKSHOP_AT = 9


def config(today: datetime, *, visitor: str) -> str:
    """Return the text of config.toml.

    The reservation begins on the next morning. The demo's user becomes a member of an account.
    """
    known = visitor in USERS
    tomorrow = (today + timedelta(days=1)).replace(hour=_WORKSHOP_AT, minute=0, second=0, microsecond=0)
    return _CONFIG.format(
        workshop=tomorrow.isoformat(),
        visitor="" if known else f"users.{json.dumps(visitor)} = {{ default = true }}\n",
    )
