"""Help text of srun, sbatch and salloc for container options.

Each option has the same mark as in pyxis. Some programs (SkyPilot) look for that mark to find out whether
containers are supported.
"""

from __future__ import annotations

HELP = """
options for containers, as in pyxis:
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
                              [pyxis] run in a container of this image
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
                              [pyxis] mount these files and folders of the node
      --container-name=NAME   [pyxis] keep the container, or use the kept one with this name
      --container-workdir=PATH
                              [pyxis] start in this folder of the container
      --container-env=NAME[,NAME...]
                              [pyxis] keep the job's values of these variables
      --[no-]container-mount-home
                              [pyxis] mount the home folder, or do not
      --[no-]container-remap-root
                              [pyxis] be root in the container, or yourself
      --[no-]container-entrypoint
                              [pyxis] run the image's entry point, or do not
      --container-writable    [pyxis] the container can change its own copy of the image
      --container-readonly    [pyxis] the container cannot change its files
"""
