"""sacctmgr(1): shows and changes the site's accounts, users and QoS, which are defined in config.toml."""

from __future__ import annotations

import shlex

from warpdeck.base.slurm_version import VERSION
from warpdeck.slurm.console.command_options import handle_help, options, read_anywhere
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.console.repl import prompted
from warpdeck.slurm.format.printing import last_of_formats

from .abbreviations import meant, names
from .changing import change
from .showing import show

OPTIONS = options(
    "sacctmgr",
    "help,h immediate,i noheader,n oneliner,o parsable,p parsable2,P quiet,Q readonly,r associations,s usage verbose,v version,V",
)
HELP = """sacctmgr [<OPTION>] [show|list] ENTITY [WHERE...] [format=FIELD[%WIDTH],...]

  entities: user  account  association  qos  cluster  event  tres  config  runawayjobs  reservation  wckey  problem  stats
  options:  -n --noheader   -p --parsable   -P --parsable2   -i --immediate

  add ENTITY NAME[,...] [KEY=VALUE...]          account  user (account=...)  qos
  modify ENTITY [where] NAME... set KEY=VALUE   KEY+=VALUE, KEY-=VALUE for lists; -1 removes a limit
  delete ENTITY NAME... [account=...]
  modify job where jobid=N set KEY=VALUE        comment, derivedexitcode ... of the job's record

  The first three change config.toml, which defines accounts, users and QoS. The changes take effect at once. Only root and
  the controller's user may make them.

  sacctmgr show assoc format=account,user%20,share,maxjobs -P
  sacctmgr add user ann account=lab fairshare=2
  sacctmgr -i modify qos high set maxwall=1-0 grptres=gres/gpu=16
"""
COMMANDS = names(
    "add:3 create:3=add modify:1 update:1=modify delete:3 remove:3=delete show:3 list:3=show "
    "associations:3 oneliner:1 quiet:4 readonly:4 verbose:4 archive:3 dump:3 load:2 reconfigure:4 shutdown:3 clear:3 "
    "help:4 version:7 exit:4 quit:4"
)
"""Commands with the minimum number of their letters.

At the prompt, `associations`, `oneliner`, `quiet`, `readonly` and `verbose` set an option for the following commands.
"""
NO_ENTITY_TO_CLEAR = 'No valid entity in list command\nInput line must include "Stats"\n'
PROMPT = "sacctmgr: "


def main(words: list[str], console: Console) -> int:
    """Print a table, or make a change. Return the exit code."""
    found, rest = read_anywhere(words, OPTIONS)
    if handle_help(found, console, help_text=HELP):
        return 0
    given = set(last_of_formats(found))
    if rest:
        return _run(rest, given, console)
    return _converse(given, console)


def _converse(given: set[str], console: Console) -> int:
    """Run commands from standard input until its end, `exit` or `quit`. Return 1 if any of them failed."""
    code = 0
    for line in prompted(console, PROMPT):
        try:
            words = shlex.split(line)
        except ValueError as error:
            console.streams.err.write(f"sacctmgr: error: {error}\n")
            code = 1
            continue
        if words and words[0].lower() in ("exit", "quit"):
            break
        if words:
            code = max(code, _run(words, given, console))
    return code


def _run(words: list[str], given: set[str], console: Console) -> int:
    """Run one command and return the exit code."""
    match meant(words[0], COMMANDS):
        case "add" | "modify" | "delete" as verb:
            return change(verb, words[1:], console, given=given)
        case "show":
            return show(words[1:], given, console)
        case "archive" | "dump" | "load" | "reconfigure" | "shutdown" as command:
            hint = "accounts, users and QoS are defined in config.toml; `scontrol reconfigure` reloads it"
            raise CommandError(f"{command} is not supported: {hint}")
        case "clear":
            return _clear(words[1:], console)
        case "help":
            console.streams.out.write(HELP)
        case "version":
            console.streams.out.write(VERSION)
        case "exit" | "quit":
            pass
        case "":
            console.streams.err.write(f"invalid keyword: {words[0]}\n")
            return 1
        case switch:
            given.add(switch)
    return 0


def _clear(words: list[str], console: Console) -> int:
    """Reset the controller's statistics, which are all that can be cleared."""
    if not "stats".startswith("".join(words[:1]).lower() or " "):
        console.streams.err.write(NO_ENTITY_TO_CLEAR)
        return 1
    with console.controller.connect() as client:
        client.call("diagnosis", reset=True)
    return 0
