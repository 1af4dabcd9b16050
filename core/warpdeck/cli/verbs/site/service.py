"""`warpdeck service`: systemd units that start the controller, this machine's agent, or a watchdog at boot."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from warpdeck.base import systemd_units as units
from warpdeck.base.controller_daemon import stop
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_note
from warpdeck.base.paths import OWN, SITE_HOME, Paths, default_paths
from warpdeck.base.shared_home import open_to_all
from warpdeck.cli.arguments import Argument, UsageError, number
from warpdeck.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace

SYSTEM_FOLDER = "/etc/systemd/system"
RUNS_SYSTEMD = "/run/systemd/system"
"""This folder exists on machines that systemd has booted."""
SYSTEMCTL_S = 60.0
USER = Argument("--user", "units of your own systemd, for your own controller")


def _install(args: Namespace) -> int:
    paths = _paths(for_user=args.user)
    texts = _texts(args, paths)
    if args.print:
        for name, text in texts.items():
            print(f"# {_folder(for_user=args.user)}/{name}.service\n{text}")
        return 0
    _check(for_user=args.user)
    if not args.user and not os.path.exists(paths.standby_role):
        open_to_all(paths)
    folder = _folder(for_user=args.user)
    os.makedirs(folder, exist_ok=True)
    for name, text in texts.items():
        with open(os.path.join(folder, f"{name}.service"), "w", encoding="utf-8") as file:
            file.write(text)
    if units.CONTROLLER in texts and stop(paths):
        print_note("stopped the controller that was not started by systemd; jobs keep running")
    _systemctl("daemon-reload", for_user=args.user)
    for name in texts:
        _systemctl("enable", "--now", f"{name}.service", for_user=args.user)
        print(f"{name}.service is installed and starts at boot")
    print_note(f"log: journalctl {'--user ' if args.user else ''}-u {next(iter(texts))}")
    if args.user:
        print_note("it runs while you are logged in; for all the time: loginctl enable-linger")
    return 0


def _remove(args: Namespace) -> int:
    _check(for_user=args.user)
    folder = _folder(for_user=args.user)
    found = [name for name in units.UNITS if os.path.exists(os.path.join(folder, f"{name}.service"))]
    for name in found:
        _systemctl("disable", "--now", f"{name}.service", for_user=args.user)
        os.unlink(os.path.join(folder, f"{name}.service"))
        print(f"{name}.service is removed; jobs keep running")
    if not found:
        print(f"no unit of warpdeck is in {folder}")
    else:
        _systemctl("daemon-reload", for_user=args.user)
    return 0


def _texts(args: Namespace, paths: Paths) -> dict[str, str]:
    """Return the units to install, by their names."""
    python, home = sys.executable, paths.home
    if args.watchdog is not None:
        text = units.watchdog_unit(python=python, home=home, for_user=args.user, after_s=args.watchdog)
        return {units.WATCHDOG: text}
    texts = {}
    if args.agent:
        texts[units.AGENT] = units.agent_unit(python=python, home=home, for_user=args.user)
    texts[units.CONTROLLER] = units.controller_unit(
        python=python, home=home, for_user=args.user, has_agent_unit=args.agent
    )
    return texts


def _paths(*, for_user: bool) -> Paths:
    """Return the home: the site's home for the units of the system, unless $WARPDECK_HOME names another one."""
    if for_user or os.environ.get("WARPDECK_HOME"):
        return default_paths(engine=OWN)
    return Paths(SITE_HOME, wanted_engine=OWN)


def _folder(*, for_user: bool) -> str:
    if not for_user:
        return SYSTEM_FOLDER
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(config, "systemd", "user")


def _check(*, for_user: bool) -> None:
    """Raise UserError if no unit can be installed here."""
    if not os.path.isdir(RUNS_SYSTEMD):
        raise UserError(
            "systemd does not run on this machine", "see the units with `warpdeck service install --print`"
        )
    if not for_user and os.geteuid() != 0:
        raise UserError(
            "only root can install units of the system", "use --user for a controller of your own"
        )


def _systemctl(*argv: str, for_user: bool) -> None:
    """Run systemctl. Raises UserError with its message."""
    command = ["systemctl", *(["--user"] if for_user else []), *argv]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SYSTEMCTL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"cannot run {' '.join(command)}: {error}", "run it yourself") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise UserError(f"{' '.join(command)}: {lines[-1]}", "see `journalctl -xe`")


def _check_arguments(args: Namespace) -> None:
    if args.agent and args.watchdog is not None:
        raise UsageError(
            f"{args.prog}: --agent and --watchdog exclude each other", f"see `{args.prog} --help`"
        )


VERBS = (
    Verb(
        "service",
        "Start the controller at boot with systemd. Its log is in the journal. As root, the units serve all users of this machine;\n"
        "with --user, they are your own.",
        examples=(
            "warpdeck service install            as root: the controller of the site",
            "warpdeck service install --agent    as root: also use this machine as a node",
            "warpdeck service install --user     your own controller",
            "warpdeck service remove",
        ),
        subverbs=(
            Verb(
                "install", summary="install and start the units",
                arguments=(
                    Argument("--agent", "also a unit for the agent of this machine, so that it is a node"),
                    Argument(
                        "--watchdog SECONDS", "on a standby: only a unit that takes over, see `warpdeck takeover`",
                        parse=number(least=5, most=86_400),
                    ),
                    USER,
                    Argument("--print", "print the units, and install nothing"),
                ),
                examples=(
                    "warpdeck service install --agent",
                    "warpdeck service install --print",
                    "warpdeck service install --watchdog 30",
                ),
                notes="The unit of the controller is hardened. It keeps the rights to read and write files as the users. Jobs run in\n"
                "the unit of the agent, which has no restrictions, and survive restarts of both.",
                reads=False, check=_check_arguments, run=_install,
            ),
            Verb(
                "remove", summary="stop and remove the units; jobs keep running",
                arguments=(USER,),
                examples=("warpdeck service remove",),
                reads=False, run=_remove,
            ),
        ),
    ),
)  # fmt: skip
