"""From a site's Slurm configuration to ours: slurm.conf and the files beside it, and what sacctmgr prints."""

from .site import Imported, import_site

__all__ = ["Imported", "import_site"]
