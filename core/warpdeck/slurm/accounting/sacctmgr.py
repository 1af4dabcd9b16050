"""sacctmgr(1): what the site's accounts, users and QoS are, which stand in config.toml, and how they become other."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, NamedTuple

from warpdeck.slurm.console import CommandError, Console
from warpdeck.slurm.prompting import prompted
from warpdeck.slurm.version import VERSION
from warpdeck.slurm.words import listed, options, read_anywhere

from .changing import change
from .conditions import ASKED_WHOLE, bad_word, condition_of, unknown_condition
from .entities import NO_ENTITY, Entity, all_widths, find, name_of
from .fieldnames import field_of
from .printing import Style, UnknownField, columns_of, print_header, print_row

Row = dict[str, Any]
TREE_WIDTH = -20
OPTIONS = options(
    "sacctmgr",
    "help,h immediate,i noheader,n oneliner,o parsable,p parsable2,P quiet,Q readonly,r associations,s usage verbose,v version,V",
)
HELP = """sacctmgr [<OPTION>] [show|list] ENTITY [WHERE...] [format=FIELD[%WIDTH],...]

  entities: user  account  association  qos  cluster  tres  config  runawayjobs  reservation  wckey  problem  stats
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
"""Words at the prompt that are options of what follows."""
NO_ENTITY_TO_CLEAR = 'No valid entity in list command\nInput line must include "Stats"\n'
PROMPT = "sacctmgr: "
WITH_ASSOCIATIONS = ("withassoc", "withassocs", "withassociation", "withassociations")
FLAGS = (
    *(
        *WITH_ASSOCIATIONS,
        "set",
        "where",
        "tree",
        "wopi",
        "wopl",
        "wolimits",
        "wopinfo",
        "wopparentinfo",
        "wopparentlimits",
    ),
    *(
        "withcoordinator",
        "withdeleted",
        "withsubaccounts",
        "withrawqoslevel",
        "withfed",
        "withclusters",
        "onlydefaults",
    ),
)
USUAL_FLAGS = ("where", "set", "withdeleted", "withfed", "withclusters")
"""Of what has no associations, where other words are names."""
OF_PLACES = ("account", "association", "user")
WITHOUT_LIMITS = "cluster,account,user,partition"
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
"""Letters of a command that must be written."""


def main(words: list[str], console: Console) -> int:
    """Prints a table, or changes what it shows; the exit code."""
    found, rest = read_anywhere(words, OPTIONS)
    given = {name for name, _ in found}
    if given & {"help", "usage", "version"}:
        console.out.write(VERSION if "version" in given else HELP)
        return 0
    if rest:
        return _run(rest, given, console)
    return _converse(given, console)


def _converse(given: set[str], console: Console) -> int:
    """Does what lines say until the end, `exit` or `quit`; 1 if anything went wrong."""
    code = 0
    for line in prompted(console, PROMPT):
        try:
            words = shlex.split(line)
        except ValueError as error:
            console.err.write(f"sacctmgr: error: {error}\n")
            code = 1
            continue
        if words and words[0].lower() in ("exit", "quit"):
            break
        if words:
            code = max(code, _run(words, given, console))
    return code


def _run(words: list[str], given: set[str], console: Console) -> int:
    """One command; the exit code."""
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
            console.err.write(NO_ENTITY_TO_CLEAR)
            return 1
        with console.connect() as client:
            client.call("diagnosis", reset=True)
        return 0
    if word in ("help", "version"):
        console.out.write(VERSION if word == "version" else HELP)
        return 0
    console.err.write(f"invalid keyword: {words[0]}\n")
    return 1


def _begins(word: str, commands: Iterable[str]) -> str:
    return next((each for each in commands if _is_short(each, word)), "")


def _is_short(command: str, word: str) -> bool:
    return command.startswith(word) and len(word) >= LEAST.get(command, USUAL_LEAST)


def _show(words: list[str], given: set[str], console: Console) -> int:
    linked = "associations" in given or any(word.lower() in WITH_ASSOCIATIONS for word in words[1:])
    entity = find(words[0], with_associations=linked) if words else None
    if entity is None:
        console.err.write(NO_ENTITY)
        return 1
    name = name_of(words[0])
    asked = _conditions([] if name in ASKED_WHOLE else words[1:], entity, name)
    if asked.wrong:
        console.err.write("".join(asked.wrong))
        return 1
    widths = dict(all_widths(entity))
    if asked.is_tree and "Account" in widths:
        widths["Account"] = TREE_WIDTH
    try:
        if not asked.form:
            raise UnknownField(asked.form)
        columns = columns_of(asked.form, widths, find=field_of)
    except UnknownField as error:
        console.err.write(f"Unknown field '{error}'\n")
        return 1
    with console.connect() as client:
        if entity.text is not None:
            console.out.write(entity.text(client))
            return 0
        rows = [row for row in entity.rows(client) if _matches(row, asked.where, entity)]
    parsable = bool(given & {"parsable", "parsable2"})
    style = Style("|" if parsable else "", ends="parsable2" not in given, header="noheader" not in given)
    print_header(console.out, columns, style, titles=entity.titles)
    for row in rows:
        if asked.is_tree:
            row["Account"] = row.get("above", "") + row.get("Account", "")
        print_row(console.out, columns, [row.get(column.name, "") for column in columns], style)
    return 0


class Asked(NamedTuple):
    """What stands behind the entity."""

    where: dict[str, list[str]]
    form: str
    is_tree: bool
    wrong: list[str]
    """What is told of words that mean nothing there."""


def _conditions(words: list[str], entity: Entity, name: str) -> Asked:
    """Condition -> values; a word alone is a name."""
    where: dict[str, list[str]] = {}
    form, wrong = entity.default, []
    for word in words:
        key, equals, value = word.partition("=")
        lowered = key.lower()
        value = value.strip("'\"")
        if not equals and (bad := bad_word(name, word)):
            wrong.append(bad)
        elif not equals and name == "association" and lowered.startswith(("wol", "wopl")):
            form = WITHOUT_LIMITS
        elif not equals and any(
            each == lowered or (len(lowered) > 4 and each.startswith(lowered))
            for each in (FLAGS if name in OF_PLACES else USUAL_FLAGS)
        ):
            continue
        elif equals and "format".startswith(lowered) and len(lowered) > 2:
            form = value
        elif equals and not condition_of(name, lowered):
            wrong.append(unknown_condition(name, word))
        elif equals:
            where.setdefault(_field(lowered, entity, name), []).extend(listed(value))
        else:
            where.setdefault(entity.key, []).extend(listed(word))
    return Asked(where, form, "tree" in (word.lower() for word in words), wrong)


def _field(key: str, entity: Entity, kind: str) -> str:
    """The field that a condition of an entity is about, the condition itself where rows have none of it."""
    singular = key.rstrip("s")
    if singular in ("name", entity.key.lower()):
        return entity.key
    if key == "parent":
        return "ParentName"
    for name in entity.widths:
        if name.lower().startswith(singular):
            return name
    return condition_of(kind, key)


def _matches(row: Row, where: dict[str, list[str]], entity: Entity) -> bool:
    """What rows have nothing of leaves them all."""
    for field, values in where.items():
        wanted = {value.lower() for value in values}
        if field in entity.widths or field in row:
            has = row.get(field, "").lower()
            if field == "AdminLevel" and any(has.startswith(value) for value in wanted):
                continue
            if has not in wanted and wanted.isdisjoint(has.split(",")) and (wanted or has):
                return False
    return True
