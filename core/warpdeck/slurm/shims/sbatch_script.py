"""The `sbatch` command as a script for /bin/sh.

The script asks the submitter. If it gets no response, it starts the Python client. It uses only shell
builtins.

It first opens the response FIFO for reading and writing, then for reading, and then closes the first
descriptor. So no open call blocks, and the exit of the submitter is seen as end of file. It uses `exec` for
this, because bash keeps a copy of the first descriptor around a group.

/bin/sh drops environment variables whose names it cannot use, such as bash functions. The Python client
therefore reads the original environment from the kernel.
"""

from __future__ import annotations

import shlex

from warpdeck_agent.client.command import UNWRITTEN

SENT, REFUSED, OUT, ERR, DONE = "?", "-", "1", "2", "."
"""First characters of the lines in a response."""
LOOK = "squeue --me tells whether it was"
"""Hint that is printed if a response was lost."""
ANSWER_FD = 6
"""File descriptor from which the shell reads the response.

It is one of three descriptors that must be free.
"""
ENVIRON_FD = 8
"""File descriptor from which the Python client reads the original environment."""

_SCRIPT = """#!/bin/sh
{head}
# Asks this user's submitter (warpdeck.submitter), which answers without the start of a Python; in any doubt that is started.
trap '' PIPE
trap 'exit 130' INT
set -C
slot= line= sent= lost=
home={home}
fd=/dev/fd
for folder in {folder}; do [ -O "$folder" ] && break; done
if [ $# -gt 0 ] && [ "${{WARPDECK_HOME:-$home}}" = "$home" ] &&
  [ -O "$folder" ] && [ -e $fd/1 ] && ! [ -e $fd/6 ] && ! [ -e $fd/7 ] && ! [ -e $fd/8 ]; then
  {{
    for slot in "$folder"/*.slot; do
      # The last check detects a slot that served another shell after the first check, and was then removed.
      [ -p "$slot" ] && [ -O "$slot" ] && >"$slot.taken" && [ -p "$slot" ] && break
      slot=
    done
    [ "$slot" ] && command exec 8<>"$slot" 6<"$slot" 8>&- 7<>"$folder/ask" || slot=
  }} 2>/dev/null
fi
if [ "$slot" ]; then
  echo "$$ $# ${{slot##*/}}" >&7
  while IFS= read -r line <&6; do
    case $line in
      '?') sent=yes ;;
      -) sent= ; break ;;
      1*) printf '%s\\n' "${{line#1}}" 2>/dev/null || lost=yes ;;
      2*) printf '%s\\n' "${{line#2}}" >&2 ;;
      .) break ;;
    esac
  done
  [ "$line" != . ] || {{
    [ ! "$lost" ] && exit 0
    [ -p $fd/1 ] || printf '%s\\n' "sbatch: error: the answer cannot be written" "  {written}" >&2
    exit 1
  }}
  [ ! "$sent" ] || {{
    printf '%s\\n' "sbatch: error: the answer was lost, and the job may have been submitted" "  {look}" >&2
    exit 1
  }}
  exec 6<&- 7>&-
fi
trap - PIPE INT
exec {interpreter} -IS -c {program} "$@" {environ_fd}<<END
$(command -p base64 </proc/$$/environ 2>/dev/null)
END
"""
_PROGRAM = """import sys
sys.path[:] = {folders!r}
from warpdeck.slurm.runtime.entry import from_shell
sys.exit(from_shell({name!r}, sys.argv[1:], {environ_fd}, home={home!r}))
"""


def script(*, head: str, home: str, folder: str, interpreter: str, folders: list[str]) -> str:
    """Return the text of the script.

    `head` is a comment that identifies the owner. `folder` is a shell pattern for the directory of the user's
    submitter for this home.
    """
    program = _PROGRAM.format(folders=folders, name="sbatch", environ_fd=ENVIRON_FD, home=home)
    return _SCRIPT.format(
        head=head,
        home=shlex.quote(home),
        folder=folder,
        interpreter=shlex.quote(interpreter),
        program=shlex.quote(program),
        environ_fd=ENVIRON_FD,
        written=UNWRITTEN,
        look=LOOK,
    )
