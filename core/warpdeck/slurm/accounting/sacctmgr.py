"""sacctmgr(1): what the site's accounts, users and QoS are. They stand in config.toml, so nothing is changed here: who wants to
add or modify is told what to write there.
"""

from __future__ import annotations

from typing import Any

from warpdeck.slurm.console import CommandError, Console
from warpdeck.slurm.version import VERSION
from warpdeck.slurm.words import WordsError, listed, options, read_anywhere

from .entities import NO_ENTITY, Entity, all_widths, find
from .fieldnames import field_of
from .printing import Style, UnknownField, columns_of, print_header, print_row

Row = dict[str, Any]
OPTIONS = options(
    "sacctmgr",
    "help,h immediate,i noheader,n oneliner,o parsable,p parsable2,P quiet,Q readonly,r associations,s verbose,v version,V json yaml",
)
HELP = """sacctmgr [<OPTION>] [show|list] ENTITY [WHERE...] [format=FIELD[%WIDTH],...]

  entities: user  account  association  qos  cluster  tres  config  runawayjobs  reservation  wckey  problem  stats
  options:  -n --noheader   -p --parsable   -P --parsable2   -i --immediate

  Accounts, users and QoS stand in config.toml: see `warpdeck config --help`. `add`, `modify` and `delete` say what to write there.

  sacctmgr show assoc format=account,user%20,share,maxjobs -P
"""
CHANGES = ("add", "create", "modify", "delete", "remove")
READS = ("show", "list")
WITH_ASSOCIATIONS = ("withassoc", "withassocs", "withassociation", "withassociations")
FLAGS = (*WITH_ASSOCIATIONS, "where", "tree", "wopi", "wolimits", "withdeleted", "withsub")


def main(words: list[str], console: Console) -> int:
    """Prints a table, or says what to write into config.toml; the exit code."""
    try:
        found, rest = read_anywhere(words, OPTIONS)
    except WordsError as error:
        console.err.write(error.message.removesuffix('\nTry "sacctmgr --help" for more information') + "\n")
        return error.exit_code
    given = {name for name, _ in found}
    if given & {"help", "version"} or not rest:
        console.out.write(VERSION if "version" in given else HELP)
        return 0
    word = rest[0].lower()
    if any(each.startswith(word) and len(word) >= min(3, len(each)) for each in CHANGES):
        return _refuse(word, rest[1:])
    if word == "version":
        console.out.write(VERSION)
        return 0
    if not any(each.startswith(word) and len(word) >= 2 for each in READS):
        console.err.write(f"invalid keyword: {rest[0]}\n")
        return 1
    return _show(rest[1:], given, console)


def _refuse(word: str, rest: list[str]) -> int:
    what = rest[0].partition("=")[0].lower() if rest else ""
    names = [each for each in rest[1:] if "=" not in each and each.lower() not in ("set", "where")]
    pairs = dict(each.partition("=")[::2] for each in rest if "=" in each)
    name = names[0] if names else pairs.get("name") or "NAME"
    line = {
        "u": f"[accounts.{pairs.get('account') or pairs.get('defaultaccount') or 'ACCOUNT'}.users.{name}]\nshares = 1",
        "q": f"[qos.{name}]\npriority = {pairs.get('priority') or 0}",
        "a": f'[accounts.{name}]\nparent = "{pairs.get("parent") or ""}"',
    }.get(what[:1], "[accounts.NAME]")
    raise CommandError(
        f"{word} {what}: accounts, users and QoS stand in config.toml, and are not changed here\n"
        f"write there, then `scontrol reconfigure`:\n{line}"
    )


def _show(words: list[str], given: set[str], console: Console) -> int:
    linked = any(word.lower() in WITH_ASSOCIATIONS for word in words[1:])
    entity = find(words[0], with_associations=linked) if words else None
    if entity is None:
        console.err.write(NO_ENTITY)
        return 1
    where, form = _conditions(words[1:])
    try:
        columns = columns_of(form or entity.default, all_widths(entity), find=field_of)
    except UnknownField as error:
        console.err.write(f"Unknown field '{error}'\n")
        return 1
    with console.connect() as client:
        rows = [row for row in entity.rows(client) if _matches(row, where, entity)]
    if entity.plain is not None:
        console.out.write(entity.plain)
        return 0
    parsable = bool(given & {"parsable", "parsable2"})
    style = Style("|" if parsable else "", ends="parsable2" not in given, header="noheader" not in given)
    print_header(console.out, columns, style, titles=entity.titles)
    for row in rows:
        print_row(console.out, columns, [row.get(column.name, "") for column in columns], style)
    return 0


def _conditions(words: list[str]) -> tuple[dict[str, list[str]], str]:
    """(condition -> values, format); a word alone is a name."""
    where: dict[str, list[str]] = {}
    form = ""
    for word in words:
        key, equals, value = word.partition("=")
        lowered = key.lower()
        value = value.strip("'\"")
        if lowered in FLAGS and not equals:
            continue
        if equals and "format".startswith(lowered) and len(lowered) > 2:
            form = value
        elif equals:
            where.setdefault(lowered.rstrip("s"), []).extend(listed(value))
        else:
            where.setdefault("name", []).extend(listed(word))
    return where, form


def _matches(row: Row, where: dict[str, list[str]], entity: Entity) -> bool:
    for key, values in where.items():
        field = (
            entity.key
            if key in ("name", "id")
            else next((name for name in entity.widths if name.lower().startswith(key)), "")
        )
        if field and row.get(field, "") not in values:
            return False
    return True
