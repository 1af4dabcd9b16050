"""sbatch as a shell's user finds it: a script of /bin/sh that asks the submitter, and begins the client in Python where it gets
no answer.

It runs nothing but what shells have built in. The slot is opened for both, then for reading, then the first is let go: so no
opening ever waits, and its end is seen when the submitter goes. (By exec: around a group bash keeps a copy of the first.)
What /bin/sh does to the variables that it was given (it drops those whose names it could not use, such as bash's functions) the
other road undoes: it gets them as the kernel has them.
"""

from __future__ import annotations

import shlex

from warpdeck_agent.client.command import UNWRITTEN

SENT, REFUSED, OUT, ERR, DONE = "?", "-", "1", "2", "."
"""What a line of an answer begins with."""
LOOK = "squeue --me tells whether it was"
"""What to do about a lost answer."""
ANSWER_FD = 6
"""Where the shell reads the answer; one of three descriptors that must be free."""
ENVIRON_FD = 8
"""Where the client in Python reads the variables that we were started with."""

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
    for slot in "$folder"/*.slot; do [ -p "$slot" ] && [ -O "$slot" ] && >"$slot.taken" && break; slot=; done
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
    """Its text. `head`: a comment that says whose it is. `folder` is where this user's submitter for that home is asked, as a
    pattern of the shell's."""
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
