"""`warpdeck config check|show|reload|import`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import default_paths

if TYPE_CHECKING:
    from warpdeck.config import Config, Decoded

# `warpdeck.config` is imported where it is needed. It imports msgspec, and `reload` does not need it.


def main(_: str, words: list[str]) -> int:
    """Run the sub-verb."""
    args = _parser().parse_args(words)
    return int(args.run(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warpdeck config",
        description="Check, show, reload or import the configuration. It is read from config.toml in the controller's home. "
        "Without this file, all settings have their defaults.",
        epilog="examples:\n  warpdeck config import /etc/slurm/slurm.conf --out config.toml\n"
        "  warpdeck config check config.toml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    check = verbs.add_parser("check", help="list all errors of a file with their lines")
    check.set_defaults(run=_check)
    show = verbs.add_parser("show", help="show all active settings and their origins")
    show.set_defaults(run=_show)
    show.add_argument(
        "--file",
        dest="of_file",
        action="store_true",
        help="show the settings of config.toml instead of those of the running controller",
    )
    for each in (check, show):
        each.add_argument(
            "file", nargs="?", default="", metavar="FILE", help="default: config.toml in the home"
        )
    reload = verbs.add_parser(
        "reload", help="apply config.toml to the running controller; nothing changes if it has errors"
    )
    reload.set_defaults(run=_reload)
    imported = verbs.add_parser(
        "import",
        help="convert slurm.conf to config.toml",
        description="Convert slurm.conf to config.toml. Settings that cannot be converted are listed on "
        "standard error with the reason.",
    )
    imported.add_argument("slurm_conf", metavar="slurm.conf")
    imported.add_argument("--gres", default="", metavar="gres.conf")
    imported.add_argument("--topology", default="", metavar="topology.conf")
    imported.add_argument(
        "--sacctmgr",
        action="append",
        default=[],
        metavar="FILE",
        help="output of `sacctmgr dump CLUSTER` or `sacctmgr -P show qos`; can be repeated",
    )
    imported.add_argument(
        "--out", default="", metavar="FILE", help="output file, must not exist; default: standard output"
    )
    imported.set_defaults(run=_import)
    for each in (check, show, reload, imported):
        each.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _read(file: str) -> tuple[str, Decoded]:
    """Return the path and its configuration; the defaults, if the home has no such file. Raises UserError."""
    from warpdeck.config import load, read

    if not file:
        path = default_paths().config
        return path, load(path)
    try:
        return file, read(file)
    except FileNotFoundError:
        raise UserError(f"no such file: {file}", "check the path") from None


def _check(args: argparse.Namespace) -> int:
    from warpdeck.config import ConfigError

    try:
        path, decoded = _read(args.file)
    except ConfigError as error:
        sentences = [problem.sentence(error.file) for problem in error.problems]
        if args.json:
            print_json({"ok": False, "errors": sentences, "warnings": []})
        for sentence in () if args.json else sentences:
            print(sentence)
        return 1
    warnings = [problem.sentence(path) for problem in decoded.warnings]
    if args.json:
        print_json({"ok": True, "errors": [], "warnings": warnings})
        return 0
    for warning in warnings:
        print_note(f"warning: {warning}")
    print(
        f"ok: {summary(decoded.config)}"
        if os.path.exists(path)
        else f"ok: {path} does not exist; all settings have their defaults"
    )
    return 0


def summary(config: Config) -> str:
    """Return a summary such as "3 partitions, 2 QoS, 5 accounts, 40 users, 1 reservation"."""
    users = {user for account in config.accounts.values() for user in account.users}
    counts = (
        (len(config.partitions), "partition", "partitions"),
        (len(config.qos), "QoS", "QoS"),
        (len(config.accounts), "account", "accounts"),
        (len(users), "user", "users"),
        (len(config.reservations), "reservation", "reservations"),
    )
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts)


def _show(args: argparse.Namespace) -> int:
    from warpdeck.config import entries, write

    path, decoded = _read(args.file) if args.file or args.of_file else _in_force()
    name = os.path.basename(path)
    found = entries(decoded.config)

    def source(key: tuple[str, ...]) -> str:
        line = decoded.lines.get(key, 0)
        return f"{name}:{line}" if line else "default"

    if args.json:
        rows = [
            {"key": list(each.path), "value": each.text, "source": source(each.path)}
            for each in found
            if each.path[-1]
        ]
        print_json({"file": path, "settings": rows})
        return 0
    remarks = {each.path: source(each.path) for each in found}
    print(write(decoded.config, remarks=remarks, defaults=True), end="")
    return 0


def _in_force() -> tuple[str, Decoded]:
    """Return the configuration of the running controller or, if none runs, the one that the next controller
    would read.
    """
    from warpdeck.base.controller_daemon import is_running
    from warpdeck.client.blocking_client import SyncClient
    from warpdeck.config import Decoded, changes, decode, load

    paths = default_paths()
    if not is_running(paths):
        print_note("no controller is running: these are the settings of config.toml")
        return _read("")
    with SyncClient.connect(paths, start=False) as client:
        told: dict[str, Any] = client.call("config")
    lines = {tuple(key): line for key, line in told["lines"]}
    held = Decoded(config=decode(told["text"], told["file"]).config, lines=lines)
    try:
        if changes(held.config, load(told["file"]).config):
            print_note("config.toml has changed since it was loaded: apply it with `warpdeck config reload`")
    except UserError as error:
        print_note(f"config.toml cannot be loaded: {error.message}")
    return str(told["file"]), held


def _reload(args: argparse.Namespace) -> int:
    from warpdeck.client.blocking_client import SyncClient

    client = SyncClient.connect(default_paths(), start=False)
    try:
        answer: dict[str, Any] = client.call("reload")
    except UserError as error:
        problems = error.details.get("problems", "")
        if not problems or args.json:
            raise
        print(problems)
        raise UserError(
            "config.toml has errors; nothing was changed",
            "correct the file, then run `warpdeck config reload` again",
        ) from None
    finally:
        client.close()
    if args.json:
        print_json(answer)
        return 0
    for warning in answer["warnings"]:
        print_note(f"warning: {warning}")
    print("\n".join(answer["changes"]) or "no changes")
    return 0


def _import(args: argparse.Namespace) -> int:
    from warpdeck.config.slurm import import_site

    made = import_site(args.slurm_conf, gres=args.gres, topology=args.topology, sacctmgr=tuple(args.sacctmgr))
    if args.out:
        _write_new(args.out, made.text)
    if args.json:
        print_json({"text": made.text, "remarks": list(made.remarks)})
        return 0
    if not args.out:
        print(made.text, end="")
    if made.remarks:
        print_note("Not converted:")
    for remark in made.remarks:
        print_note(f"  {remark}")
    if args.out:
        print(f"{args.out}: {summary(made.config)}")
    return 0


def _write_new(path: str, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UserError(f"{path} already exists", "choose another name for --out, or move the file") from None
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {os.strerror(error.errno or 0)}", "choose another name for --out"
        ) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
