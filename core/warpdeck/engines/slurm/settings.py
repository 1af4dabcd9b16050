"""The settings of a gateway to Slurm: the table [slurm] of its config.toml."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.base.paths import SITE_GATEWAY_HOME

Rate = Annotated[float, msgspec.Meta(ge=0.1, le=6000)]


class SlurmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the load on slurmctld, and the folder for scripts and code."""

    requests_per_minute: Rate = 6.0
    """Maximum number of requests (RPCs) to slurmctld in a minute while somebody looks."""
    idle_requests_per_minute: Rate = 1.0
    """Maximum number of requests while nobody looks."""
    folder: str = ""
    """A folder on a file system that all nodes share, for the scripts and the code of jobs. "" is ~/.warpdeck."""
    keep_ended_s: Annotated[int, msgspec.Meta(ge=60)] = 3600
    """Seconds for which ended jobs stay in memory. The database keeps them longer."""
    site_gateway: str = SITE_GATEWAY_HOME
    """The folder of the site gateway, which asks Slurm for the gateways of all users. "" leaves it out."""
    site_gateway_owner: str = ""
    """The account of the site gateway, if another account than root could have created its folder."""
    rest_url: str = ""
    """The address of slurmrestd, such as https://host:6820 or unix:/path. It is asked for the queue and the nodes with the token in
    SLURM_JWT. Slurm's commands then run without the token.
    """
    readings_folder: str = ""
    """The folder into which agents on the nodes write readings of all GPUs. "" if the site has no such agents."""
    readings_owner: str = ""
    """The account that owns this folder and runs the agents, if it is not root."""
