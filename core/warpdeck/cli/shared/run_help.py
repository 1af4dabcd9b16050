"""The help of `warpdeck run` and `warpdeck attach`."""

from __future__ import annotations

HELP = """usage: warpdeck run [OPTIONS] [--pty] COMMAND...
       warpdeck attach [--watch] JOB

Runs a command on the cluster, in this folder, and waits for it: its output comes here, its exit code is ours. Takes
sbatch's options (-N -n -c --gpus --gres --mem -t ...). With --pty the command gets a terminal; Enter ~d detaches from it
and the job goes on, `warpdeck attach JOB` comes back (Enter ~? tells all such keys). Several may be attached at once: the
terminal has the size of who typed last. With --watch it is only read: q leaves.

examples:
  warpdeck run --gpus 1 --pty bash
  warpdeck run -N 2 -n 2 hostname
  warpdeck run --gpus 1 nvidia-smi
  warpdeck attach 12
  warpdeck attach --watch 12
"""
