"""The verb `warpdeck config` with its sub-verbs check, show, reload and import."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import SLURM, Paths, default_paths
from warpdeck.cli.arguments import JSON, Argument
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.config import Config, Decoded

# `warpdeck.config` is imported where it is needed. It imports msgspec, and `reload` does not need it.


def _read(file: str) -> tuple[str, Decoded]:
    """Return the path and its configuration; the defaults, if the home has no such file. Raises UserError."""
    from warpdeck.config import load, read

    if not file:
        path = _own_paths().config
        return path, load(path)
    try:
        return file, read(file)
    except FileNotFoundError:
        raise UserError(f"no such file: {file}", "check the path") from None


def _own_paths() -> Paths:
    """Return the paths of a home of our own scheduler. Raises UserError for a gateway to Slurm."""
    paths = default_paths()
    if paths.engine == SLURM:
        raise UserError(
            "the rules of a cluster with Slurm are in slurm.conf, not in config.toml",
            "`scontrol show config` prints them",
        )
    return paths


def _check(args: Namespace) -> int:
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


def _show(args: Namespace) -> int:
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

    paths = _own_paths()
    if not is_running(paths):
        print_note("no controller is running: these are the settings of config.toml")
        return _read("")
    with progress("waiting for the controller ..."), SyncClient.connect(paths, start=False) as client:
        told: dict[str, Any] = client.call("config")
    lines = {tuple(key): line for key, line in told["lines"]}
    held = Decoded(config=decode(told["text"], told["file"]).config, lines=lines)
    try:
        if changes(held.config, load(told["file"]).config):
            print_note("config.toml has changed since it was loaded: apply it with `warpdeck config reload`")
    except UserError as error:
        print_note(f"config.toml cannot be loaded: {error.message}")
    return str(told["file"]), held


def _reload(args: Namespace) -> int:
    from warpdeck.client.blocking_client import SyncClient

    try:
        with progress("applying config.toml ..."), SyncClient.connect(default_paths(), start=False) as client:
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
    if args.json:
        print_json(answer)
        return 0
    for warning in answer["warnings"]:
        print_note(f"warning: {warning}")
    print("\n".join(answer["changes"]) or "no changes")
    return 0


def _import(args: Namespace) -> int:
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


FILE = Argument("[FILE]", "a config.toml; default: the one in the controller's home")
SUBVERBS = (
    Verb(
        "check", summary="list all errors of a file with their lines",
        arguments=(FILE, JSON),
        examples=("warpdeck config check", "warpdeck config check new.toml"),
        run=_check,
    ),
    Verb(
        "show", summary="show all active settings and their origins",
        arguments=(
            Argument("--file", "show the settings of config.toml instead of those of the running controller", into="of_file"),
            FILE,
            JSON,
        ),
        examples=("warpdeck config show", "warpdeck config show --file", "warpdeck config show new.toml"),
        run=_show,
    ),
    Verb(
        "reload", summary="apply config.toml to the running controller; nothing changes if it has errors",
        arguments=(JSON,),
        examples=("warpdeck config reload",),
        reads=False, run=_reload,
    ),
    Verb(
        "import",
        "Convert slurm.conf to config.toml. Settings that cannot be converted are listed on standard error, with\n"
        "the reason.",
        summary="convert slurm.conf to config.toml",
        arguments=(
            Argument("slurm.conf", "Slurm's configuration file", into="slurm_conf"),
            Argument("--gres gres.conf", "also read this gres.conf, to list what is not converted"),
            Argument("--topology topology.conf", "also read the network switches of this topology.conf"),
            Argument(
                "--sacctmgr FILE", "output of `sacctmgr dump CLUSTER` or `sacctmgr -P show qos`; can be repeated", repeats=True,
            ),
            Argument("--out FILE", "new file to write; default: standard output"),
            JSON,
        ),
        examples=("warpdeck config import /etc/slurm/slurm.conf --out config.toml",),
        run=_import,
    ),
)  # fmt: skip
VERBS = (
    Verb(
        "config",
        "Check, show, reload or import the configuration. It is read from config.toml in the controller's home.\n"
        "Without this file, all settings have their defaults.",
        examples=(
            "warpdeck config import /etc/slurm/slurm.conf --out config.toml",
            "warpdeck config check config.toml",
            "warpdeck config reload",
        ),
        subverbs=SUBVERBS,
    ),
)  # fmt: skip
