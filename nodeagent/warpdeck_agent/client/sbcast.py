"""sbcast: copies a file to all nodes of a job, as the standard input of a step with one task per node.

Each task writes the file. The copy has the file's mode, has another name until it is complete, and replaces
an existing file only with --force. Options about blocks, fan-out and compression are accepted without effect,
because a user could not see any effect.
"""

from __future__ import annotations

import os
import stat

from .access import CommandRefused

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes 3 ms.
    from typing import Callable, Dict, List, Mapping, Tuple

USAGE = "Usage: sbcast [-CfFjpstvV] SOURCE DEST"
HELP = """\
Copies a file from this node to all nodes of a job: sbcast [OPTIONS] SOURCE DEST
  -f, --force        replace DEST if it exists
  -p, --preserve     keep the modification time of SOURCE
  -j, --jobid=JOB    copy to the nodes of JOB; without it, to those of the job in which sbcast runs
  -C -F -s -t        --compress, --fanout, --size, --timeout: accepted without effect

  sbcast my.prog /tmp/my.prog
  srun /tmp/my.prog
"""
LETTERS = "CF:fj:ps:t:vVh"
NAMES = (
    *(
        "compress=",
        "exclude=",
        "fanout=",
        "force",
        "help",
        "jobid=",
        "preserve",
        "send-libs=",
        "size=",
        "timeout=",
    ),
    *("treewidth=", "usage", "verbose", "version"),
)
WITHOUT_VALUE = {"--compress": "--compress=lz4", "--send-libs": "--send-libs=yes"}
"""Options that may be given without a value, each with the option that it then stands for."""
COPY = """
if [ -d "$1" ]; then set -- "$1/$5" "$2" "$3" "$4"; fi
if [ -e "$1" ] && [ -z "$3" ]; then echo "sbcast: error: $1: File exists" >&2; exit 1; fi
new=$(mktemp "$1.XXXXXX") || exit 1
trap 'rm -f "$new"' EXIT
cat > "$new" && chmod "$2" "$new" || exit 1
if [ -n "$4" ]; then touch -d "@$4" "$new" || exit 1; fi
mv -f "$new" "$1"
"""
"""Script of each task. Arguments: destination, mode, whether to replace, time or nothing, the source's own
name.
"""
KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF")
"""The kept variables. All other variables that srun reads are about the job's own steps."""
SRUN = ["--overlap", "--ntasks-per-node=1", "--job-name=sbcast", "--mem=0", "--quiet"]


def main(
    argv: List[str], environ: Mapping[str, str], step: Callable[[List[str], Dict[str, str]], int]
) -> int:
    """Copy the file and return the exit code.

    `step` runs srun with the given arguments and environment. Raises CommandRefused.
    """
    given, rest = read(argv)
    if given.keys() & {"help", "usage", "version"}:
        print("slurm 22.05.8" if "version" in given else USAGE if "usage" in given else HELP, end="\n")
        return 0
    if len(rest) != 2:
        raise CommandRefused(f"Need two file names, have {len(rest)} names", USAGE)
    job = given.get("jobid", "").partition(".")[0] or environ.get("SLURM_JOB_ID", "")
    if not job:
        raise CommandRefused(
            "Need a job id to run this command.", "run it in a job, or name a job with --jobid=JOB"
        )
    return _send(rest[0], os.path.abspath(rest[1]), job, given, environ, step)


def read(argv: List[str]) -> Tuple[Dict[str, str], List[str]]:
    """Return ({long option: value}, the other arguments). Raises CommandRefused."""
    import getopt

    long_of = {"C": "compress", "F": "fanout", "f": "force", "j": "jobid", "p": "preserve", "s": "size"}
    long_of.update(t="timeout", v="verbose", V="version", h="help")
    try:
        found, rest = getopt.gnu_getopt(
            [WITHOUT_VALUE.get(argument, argument) for argument in argv], LETTERS, list(NAMES)
        )
    except getopt.GetoptError as error:
        raise CommandRefused(str(error), USAGE) from None
    return {long_of.get(name.lstrip("-"), name.lstrip("-")): value for name, value in found}, rest


def _send(
    source: str,
    target: str,
    job: str,
    given: Dict[str, str],
    environ: Mapping[str, str],
    step: Callable[[List[str], Dict[str, str]], int],
) -> int:
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandRefused(f"Can't open `{source}`: {error.strerror}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise CommandRefused(
            f"`{source}` is not a regular file", "pack a folder into an archive first: tar -cf FILE FOLDER"
        )
    os.dup2(descriptor, 0)
    force = given.keys() & {"force"} or environ.get("SBCAST_FORCE")
    keeps = given.keys() & {"preserve"} or environ.get("SBCAST_PRESERVE")
    options = [
        f"{stat.S_IMODE(status.st_mode) & 0o777:o}",
        "1" if force else "",
        str(int(status.st_mtime)) if keeps else "",
    ]
    program = ["/bin/sh", "-c", COPY, "sbcast", target, *options, os.path.basename(source)]
    return step([f"--jobid={job}", *SRUN, *program], without_steps(environ))


def without_steps(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment without the variables that srun would take as options."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or not name.startswith(("SLURM_", "SRUN_", "SBCAST_"))
    }
