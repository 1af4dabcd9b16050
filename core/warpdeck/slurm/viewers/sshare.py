"""sshare: prints the account tree with shares, usage and fairshare factors.

Options, layouts, messages and exit codes are those of sshare(1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import existing_uid, name_of
from warpdeck.slurm.console.command_options import (
    CLUSTER_LINE,
    WordsError,
    check_cluster,
    handle_help,
    options,
    read,
    split_list,
)
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.format.printing import columns_of, print_header, print_names, print_row, style_of
from warpdeck.slurm.format.units import tres_text

from .account_use import counts, used_tree

OPTIONS = options(
    "sshare",
    "accounts=,A all,a clusters=,M format=,o help helpformat,e long,l no-header,h noheader,n parsable,p parsable2,P partition,m usage "
    "user= users=,u Users,U verbose,v version,V",
    newer="json? yaml?",
)
USAGE = "Usage: sshare [-A accounts] [-u users] [-o fields] [-aehlmnpPUvV]"
HELP = """\
Lists accounts and users with their shares and usage.
  -A, --accounts=NAMES  -u, --users=NAMES  -a, --all   all users (default: only you)
  -U, --Users           only users
  -o, --format=FIELDS   fields with widths: Account%-20,User,FairShare; --helpformat lists all
  -l, --long  -m, --partition  -n, --noheader
  -p, --parsable        separate fields with |, also after the last;  -P, --parsable2: not after the last"""
DEFAULT = "Account User RawShares NormShares RawUsage EffectvUsage FairShare"
LONG = "Account User RawShares NormShares RawUsage NormUsage EffectvUsage FairShare LevelFS GrpTRESMins TRESRunMins"


class ShareColumn(NamedTuple):
    """A field: its default width (negative: left-aligned) and the function that returns its text."""

    width: int
    text: Callable[[Row], str]


def main(words: list[str], console: Console) -> int:
    """Print the table of shares once."""
    found, _ = read(words, OPTIONS)
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    asked = dict(found)
    if "helpformat" in asked:
        print_names(console, sorted(COLUMNS), width=17)
        return 0
    _reject_json(asked)
    _list(asked, console)
    return 0


def _reject_json(asked: Mapping[str, str]) -> None:
    """Reject --json and --yaml. Raises CommandError."""
    for option in ("json", "yaml"):
        if option in asked:
            raise CommandError(f"--{option} is not supported: use --parsable2")


def _list(asked: Mapping[str, str], console: Console) -> None:
    check_cluster("sshare", asked.get("clusters"))
    columns = columns_of(_format(asked), WIDTHS, knows_all=False)
    users = _users(asked, console)
    with console.controller.connect() as client:
        told = client.call("shares")
        uses: list[Row] = client.call("limit_use")["uses"]
    if "verbose" in asked:
        _tell_asked(split_list(asked.get("accounts", "")), users, console)
    rows = _placed(told, uses, asked, users)
    if "clusters" in asked:
        print(CLUSTER_LINE, file=console.streams.out)
    style = style_of({"noheader" if name == "no-header" else name for name in asked})
    print_header(console, columns, style)
    for row in rows:
        print_row(console, columns, [COLUMNS[column.name].text(row) for column in columns], style)


def _users(asked: Mapping[str, str], console: Console) -> list[str] | None:
    """Return the names of the users to show, or None for all users."""
    names = asked.get("users", asked.get("user"))
    if names is None:
        return None if "all" in asked else [console.user]
    unknown = [name for name in split_list(names) if name.isdecimal() and existing_uid(name) is None]
    if unknown:
        raise WordsError(f"Invalid user id: {unknown[0]}")
    return [name_of(int(name)) if name.isdecimal() else name for name in split_list(names)]


def _tell_asked(accounts: list[str], users: list[str] | None, console: Console) -> None:
    for title, names in (("Users", users), ("Accounts", accounts)):
        lines = "".join(f"\t: {name}\n" for name in names or ["all"])
        console.streams.err.write(f"{title} requested:\n{lines}")


def _placed(
    told: Mapping[str, Any], uses: list[Row], asked: Mapping[str, str], users: list[str] | None
) -> list[Row]:
    """Return the lines that are shown, or none if the site has no accounts.

    `depth` is the number of shown accounts above the line.
    """
    accounts = split_list(asked.get("accounts", "").lower())
    found: list[Row] = []
    seen: set[str] = set()
    tree, is_partial = told["shares"], told.get("is_partial", False)
    for row, above in used_tree(tree, uses, is_partial=is_partial) if tree else ():
        wanted = users is None or row["user"] in users if row["user"] else "Users" not in asked
        if not wanted or (accounts and row["account"].lower() not in accounts):
            continue
        found.append(row | {"depth": sum(account in seen for account in above)})
        if not row["user"]:
            seen.add(row["account"])
    return found


def _format(asked: Mapping[str, str]) -> str:
    """Return the fields to print."""
    if "format" in asked:
        return asked["format"]
    names = (LONG if "long" in asked else DEFAULT).split()
    return ",".join([*names[:2], "Partition", *names[2:]] if "partition" in asked else names)


def _account(row: Row) -> str:
    """Return the account name, indented below its parent."""
    return " " * int(row["depth"]) + str(row["account"])


def _fairshare(row: Row) -> str:
    return "" if row["fairshare"] is None else f"{row['fairshare']:.6f}"


def _level(row: Row) -> str:
    if row["norm_usage"] is None:
        return ""
    return "inf" if row["level_fs"] is None else f"{row['level_fs']:.6f}"


def _norm_usage(row: Row) -> str:
    return "" if row["of_all"] is None else f"{row['of_all']:.6f}"


def _effective_usage(row: Row) -> str:
    """Return the effective usage. It is 1 for the root, which has used everything."""
    return f"{1.0 if row['norm_usage'] is None else row['norm_usage']:.6f}"


COLUMNS = {
    "Account": ShareColumn(-20, _account),
    "Cluster": ShareColumn(10, lambda row: CLUSTER_NAME),
    "EffectvUsage": ShareColumn(13, _effective_usage),
    "FairShare": ShareColumn(10, _fairshare),
    "GrpTRESMins": ShareColumn(30, lambda row: tres_text(row["limits"].get("grp_tres_mins", {}))),
    "GrpTRESRaw": ShareColumn(30, lambda row: counts(row["use"]["minutes"])),
    "ID": ShareColumn(6, lambda row: str(row["number"])),
    "LevelFS": ShareColumn(10, _level),
    "NormShares": ShareColumn(11, lambda row: f"{row['norm_shares']:.6f}"),
    "NormUsage": ShareColumn(11, _norm_usage),
    "Partition": ShareColumn(12, lambda row: ""),
    "RawShares": ShareColumn(10, lambda row: str(row["shares"])),
    "RawUsage": ShareColumn(11, lambda row: f"{row['usage']:.0f}"),
    "TRESRunMins": ShareColumn(30, lambda row: counts(row["use"]["run_minutes"])),
    "User": ShareColumn(10, lambda row: str(row["user"])),
}
"""The fields in alphabetical order, as --helpformat prints them."""
WIDTHS = {name: column.width for name, column in COLUMNS.items()}
