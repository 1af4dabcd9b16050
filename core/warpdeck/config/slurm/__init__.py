"""Import a site's Slurm configuration: slurm.conf, the files next to it, and the output of sacctmgr."""

from .site import Imported, import_site

__all__ = ["Imported", "import_site"]
