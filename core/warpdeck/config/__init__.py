"""The site's configuration: config.toml, its tables, errors with line numbers, and its form for the planner.

- load -> decode (tables, forms, lines, check) -> Config -> build_site -> the planner's settings and views
- `rewrite` changes the file in place; `entries` writes a Config as TOML; slurm/ converts a site's slurm.conf.
"""

from .decode import Decoded, decode
from .entries import changes, entries, write
from .load import load, read
from .problems import ConfigError, Problem
from .rewrite import rewrite
from .site import HealthRules, NodeSettings, Site, UsageTotals, build_site, with_usage
from .site_rights import SiteRights, check_amendments, rights_by_user, text_for
from .tables import Config

__all__ = [
    "Config",
    "ConfigError",
    "Decoded",
    "HealthRules",
    "NodeSettings",
    "Problem",
    "Site",
    "SiteRights",
    "UsageTotals",
    "build_site",
    "changes",
    "check_amendments",
    "decode",
    "entries",
    "load",
    "read",
    "rewrite",
    "rights_by_user",
    "text_for",
    "with_usage",
    "write",
]
