"""The accounts of a site, for a real Slurm with its database and for our controller.

The site has a small tree of accounts, two users and one QoS with limits. In Slurm, root is also a user of the
top account, without shares here. Our controller has no user there.
"""

from __future__ import annotations

import re

ACCOUNTS = (
    "add account ml",
    "add account sci",
    "add account bio parent=sci fairshare=3",
    "add qos high",
    "modify qos high set priority=100 maxwall=1-0 maxtrespu=cpu=8,node=2",
    "modify account root set qos=normal,high",
    "add user root account=ml",
    "add user nobody account=ml",
    "add user root account=bio",
    "modify user root set defaultaccount=ml",
    "modify user root where account=root set fairshare=0",
)
"""Command lines of sacctmgr that create the accounts."""
TABLES = """
[qos.high]
priority = 100
max_wall = "1-00:00:00"
max_tres_per_user = "cpu=8,node=2"
[accounts.ml.users.root]
default = true
[accounts.ml.users.nobody]
default = true
[accounts.sci]
[accounts.bio]
parent = "sci"
shares = 3
[accounts.bio.users.root]
"""
"""The same accounts in config.toml."""
ROOTS = re.compile(
    r"root\|default root account\|root\|warpdeck\|\|root\|| *root +ml Administ\+ +warpdeck +root\b|"
    r"( *warpdeck *\|?)? *root(\|| +)root\b|root\|ml\|Administrator\|warpdeck\|root\|"
)
"""The line of user root in account root, which only Slurm has."""
