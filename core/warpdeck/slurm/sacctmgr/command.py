"""sacctmgr(1): shows and changes the site's accounts, users and QoS, which are defined in config.toml."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from math import inf

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import user_there
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.values.time_points import parse_moment
from warpdeck.slurm.console.arguments import options, read_anywhere
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.console.repl import prompted
from warpdeck.slurm.format.printing import (
    PrintedColumn,
    Style,
    UnknownField,
    last_of_formats,
    print_header,
    print_row,
)

from .abbreviations import meant
from .changing import change
from .conditions import EVENT_STATES, EVENTS, ConditionOptions, asked_of, is_state, unknown_qos
from .entities import ENTITIES, NO_ENTITY, OF_CLUSTER_EVENTS, WITHOUT_LIMITS, name_of
from .field_names import OF_WCKEYS, WORDS, columns_of
from .matching import chosen

Row = dict[str, str]
TREE_WIDTH = -20
OPTIONS = options(
    "sacctmgr",
    "help,h immediate,i noheader,n oneliner,o parsable,p parsable2,P quiet,Q readonly,r associations,s usage verbose,v version,V",
)
HELP = """sacctmgr [<OPTION>] [show|list] ENTITY [WHERE...] [format=FIELD[%WIDTH],...]

  entities: user  account  association  qos  cluster  event  tres  config  runawayjobs  reservation  wckey  problem  stats
  options:  -n --noheader   -p --parsable   -P --parsable2   -i --immediate

  add ENTITY NAME[,...] [KEY=VALUE...]          account  user (account=...)  qos
  modify ENTITY [where] NAME... set KEY=VALUE   KEY+=VALUE, KEY-=VALUE for lists; -1 takes a limit away
  delete ENTITY NAME... [account=...]
  modify job where jobid=N set KEY=VALUE        comment, derivedexitcode ... of its record

  All but the last change config.toml, where accounts, users and QoS stand, and are in force at once: for root and the
  controller's user.

  sacctmgr show assoc format=account,user%20,share,maxjobs -P
  sacctmgr add user ann account=lab fairshare=2
  sacctmgr -i modify qos high set maxwall=1-0 grptres=gres/gpu=16
"""
CHANGES = ("add", "create", "modify", "update", "delete", "remove")
READS = ("show", "list")
NOT_HERE = ("archive", "dump", "load", "reconfigure", "shutdown")
SWITCHES = ("associations", "oneliner", "quiet", "readonly", "verbose")
"""Commands at the prompt that set an option for the following commands."""
NO_ENTITY_TO_CLEAR = 'No valid entity in list command\nInput line must include "Stats"\n'
PROMPT = "sacctmgr: "
LEAST = {
    "modify": 1,
    "update": 1,
    "oneliner": 1,
    "quiet": 4,
    "readonly": 4,
    "verbose": 4,
    "reconfigure": 4,
    "load": 2,
}
USUAL_LEAST = 3
"""Minimum number of letters of a command."""


def main(words: list[str], console: Console) -> int:
    """Print a table, or make a change. Return the exit code."""
    found, rest = read_anywhere(words, OPTIONS)
    given = set(last_of_formats(found))
    if given & {"help", "usage", "version"}:
        console.streams.out.write(VERSION if "version" in given else HELP)
        return 0
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
    word = words[0].lower()
    if _begins(word, CHANGES):
        verb = _begins(word, CHANGES)
        return change("modify" if verb == "update" else verb, words[1:], console, given=given)
    if _begins(word, READS):
        return _show(words[1:], given, console)
    if _begins(word, SWITCHES):
        given.add(_begins(word, SWITCHES))
        return 0
    if _begins(word, NOT_HERE):
        hint = "accounts, users and QoS stand in config.toml; `scontrol reconfigure` reads it again"
        raise CommandError(f"{_begins(word, NOT_HERE)} is not supported: {hint}")
    if _begins(word, ("clear",)):
        if not "stats".startswith("".join(words[1:2]).lower() or " "):
            console.streams.err.write(NO_ENTITY_TO_CLEAR)
            return 1
        with console.controller.connect() as client:
            client.call("diagnosis", reset=True)
        return 0
    if word in ("help", "version", "exit", "quit"):
        console.streams.out.write({"version": VERSION, "help": HELP}.get(word, ""))
        return 0
    console.streams.err.write(f"invalid keyword: {words[0]}\n")
    return 1


def _begins(word: str, commands: Iterable[str]) -> str:
    return next((each for each in commands if _is_short(each, word)), "")


def _is_short(command: str, word: str) -> bool:
    return command.startswith(word) and len(word) >= LEAST.get(command, USUAL_LEAST)


def _show(words: list[str], given: set[str], console: Console) -> int:
    name = name_of(words[0]) if words else ""
    if not name:
        console.streams.err.write(NO_ENTITY)
        return 1
    entity = ENTITIES[name]
    if entity.text is not None:
        with console.controller.connect() as client:
            console.streams.out.write(entity.text(client))
        return 0
    asked = asked_of(name, words[1:])
    if "associations" in given and "WithAssoc" in entity.more:
        asked = asked._replace(flags=asked.flags | {"WithAssoc"})
    if asked.wrong or (name == "event" and _bad_event(asked, console)):
        console.streams.err.write("".join(asked.wrong))
        return 1
    try:
        columns = columns_of(
            asked.fields if asked.fields is not None else _usual_form(name, asked),
            words=OF_WCKEYS if name == "wckey" else WORDS,
        )
    except UnknownField as error:
        console.streams.err.write(f"Unknown field '{error}'\n")
        return 1
    if "Tree" in asked.flags:
        columns = [each._replace(width=TREE_WIDTH) if each.name == "Account" else each for each in columns]
    with console.controller.connect() as client:
        known = [row["Name"] for row in ENTITIES["qos"].rows(client)] if asked.qos else []
        if bad := unknown_qos(name, asked, known):
            console.streams.err.write(bad)
            return 1
        rows = chosen(name, entity.key, entity.rows(client), asked)
    rows = _in_period(name, rows, asked, console)
    _print(rows, columns, given, console, is_tree="Tree" in asked.flags)
    return 0


def _usual_form(name: str, asked: ConditionOptions) -> str:
    """Return the fields that are shown without format=."""
    entity = ENTITIES[name]
    if name == "event" and [meant(each, EVENTS) for each in asked.where.get("Events", ())] == ["Cluster"]:
        return OF_CLUSTER_EVENTS
    usual = WITHOUT_LIMITS[name] if "WOLimits" in asked.flags and name in WITHOUT_LIMITS else entity.form
    return ",".join([usual, *(fields for flag, fields in entity.more.items() if flag in asked.flags)])


def _bad_event(asked: ConditionOptions, console: Console) -> bool:
    """Return whether the conditions name a user or a state that does not exist, and report it."""
    users = [name for name in asked.where.get("Users", ()) if user_there(name) is None]
    states = [word for word in asked.where.get("States", ()) if not is_state(word)]
    console.streams.err.write("".join(f"sacctmgr: error: Invalid user id: {name}\n" for name in users[:1]))
    console.streams.err.write("".join(f"Invalid state: {word}\n{EVENT_STATES}" for word in states[:1]))
    return bool(users or states)


def _in_period(name: str, rows: list[Row], asked: ConditionOptions, console: Console) -> list[Row]:
    """Return the rows whose time overlaps with the period from Start to End.

    Without conditions, only current reservations are returned.
    """
    if name not in ("event", "reservation"):
        return rows
    now = time.time()
    start, end = (_moment(asked.where.get(key, ()), now, console) for key in ("Start", "End"))
    if name == "reservation" and end is None and (start or not (asked.where or asked.fields)):
        start, end = start or now, now
    until = inf if end is None else end
    return [
        row
        for row in rows
        if float(row["start at"]) <= until and float(row.get("end at", inf)) > (start or 0.0)
    ]


def _moment(values: Sequence[str], now: float, console: Console) -> float | None:
    """Return a point in time, or None if it is not given or invalid.

    An invalid time is reported, and Slurm continues without it.
    """
    try:
        return parse_moment(values[-1], now, past=True) if values else None
    except UserError:
        console.streams.err.write(f"Invalid time specification (pos=0): {values[-1]}\n")
        return None


def _print(
    rows: list[Row], columns: list[PrintedColumn], given: set[str], console: Console, *, is_tree: bool
) -> None:
    parsable = bool(given & {"parsable", "parsable2"})
    style = Style(
        "|" if parsable else "",
        ends="parsable2" not in given,
        header="noheader" not in given,
    )
    print_header(console, columns, style)
    for row in rows:
        if is_tree:
            row["Account"] = row.get("above", "") + row.get("Account", "")
        print_row(console, columns, [row.get(column.name, "") for column in columns], style)
