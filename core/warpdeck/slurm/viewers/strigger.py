"""strigger: rejects new triggers and names alternatives, because no programs are started on events here."""

from __future__ import annotations

from warpdeck.slurm.console.command_options import handle_help, options, read
from warpdeck.slurm.console.console import CommandError, Console

OPTIONS = options(
    "strigger",
    "set get clear primary_slurmctld_failure,a primary_slurmctld_resumed_operation,b primary_slurmctld_resumed_control,c "
    "primary_slurmctld_acct_buffer_full,e backup_ctld_failure,A backup_ctld_resumed_operation,B "
    "backup_ctld_assumed_control,C block_err burst_buffer down,d drained,D fail,F fini,f flags= idle,I id=,i jobid=,j "
    "node?,n noheader,h offset=,o primary_database_failure,g primary_database_resumed_operation,G program=,p quiet,Q "
    "reconfig,r time,t up,u user= verbose,v version,V cluster=,M help usage front_end",
)
USAGE = "Usage: strigger --set | --get | --clear [OPTIONS]"
HELP = """\
Usage: strigger --get
No programs are started on events here. Alternatives:
  a job ends                     sbatch --mail-type=END, or a job with --dependency=afterany:JOB
  a job reaches its time limit   sbatch --signal=B:USR1@SECONDS, and a trap in the script
  a node has a problem           [health] in config.toml: checks that drain the node, and the site's own check"""
INSTEAD = "no programs are started on events: use --mail-type or --dependency for jobs, and [health] in config.toml for nodes"


def main(words: list[str], console: Console) -> int:
    """Check the options. There are no triggers to list or clear, and setting one fails."""
    found, _ = read(words, OPTIONS)
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    asked = dict(found)
    if len(asked.keys() & {"set", "get", "clear"}) != 1:
        raise CommandError("You must use exactly one of the following options: --set, --get or --clear")
    if "clear" in asked and not asked.keys() & {"id", "jobid", "user"}:
        raise CommandError("You must specify a --id, --jobid, or --user to clear")
    if "set" in asked:
        raise CommandError(f"--set is not supported: {INSTEAD}")
    return 0
