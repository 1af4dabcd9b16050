"""The help of `warpdeck run` and `warpdeck attach`."""

from __future__ import annotations

HELP = """usage: warpdeck run [OPTIONS] [--pty] COMMAND...
       warpdeck attach [--watch] JOB

Run a command on the cluster in the current folder, print its output and return its exit code. All sbatch options are
accepted (-N -n -c --gpus --gres --mem -t ...). With --pty the command gets a terminal. To detach, press Enter, then ~ d:
the job keeps running, and `warpdeck attach JOB` attaches again. Enter ~ ? lists all of these keys. Several users can be
attached at once; the terminal takes the size of the one that typed last. --watch is read-only; q quits.

examples:
  warpdeck run --gpus 1 --pty bash
  warpdeck run -N 2 -n 2 hostname
  warpdeck run --gpus 1 nvidia-smi
  warpdeck attach 12
  warpdeck attach --watch 12
"""
