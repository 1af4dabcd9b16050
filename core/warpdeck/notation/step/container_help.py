"""What srun, sbatch and salloc say of containers when they are asked for help.

Each option is marked as pyxis marks its own: programs look for that mark to know whether containers can be asked for (SkyPilot).
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
