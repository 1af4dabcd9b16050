"""Help text of srun, sbatch and salloc for container options.

Each option has the same mark as in pyxis. Some programs (SkyPilot) look for that mark to find out whether
containers are supported.
"""

from __future__ import annotations

HELP = """
in a container, with the options of pyxis:
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
                              [pyxis] of this image
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
                              [pyxis] with these files and folders of the node in it
      --container-name=NAME   [pyxis] keep it, or use the one that is kept by this name
      --container-workdir=PATH
                              [pyxis] begin in this folder of it
      --container-env=NAME[,NAME...]
                              [pyxis] the job's values of these variables, not the image's
      --[no-]container-mount-home
                              [pyxis] with the home folder in it, or without
      --[no-]container-remap-root
                              [pyxis] as root in it, or as oneself
      --[no-]container-entrypoint
                              [pyxis] run the image's entry point, or not
      --container-writable    [pyxis] what it changes in the image is its own
      --container-readonly    [pyxis] it cannot change the image
"""
