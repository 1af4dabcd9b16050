"""Connections to other hosts over SSH.

Only this package and the connection to a standby import asyncssh, which takes a tenth of a second and 25 MB. They are imported
when the first host is contacted, so a site on one machine, or a gateway to Slurm, does without. Errors of asyncssh do not leave
these modules: a broken connection is an OSError or a RemoteError.
"""

from . import asyncssh_import as asyncssh_import
