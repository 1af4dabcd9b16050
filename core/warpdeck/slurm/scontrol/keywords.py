"""Table of scontrol's keywords: their arguments and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from warpdeck.base.slurm_version import VERSION
from warpdeck.slurm.console.command_options import WordsError, check_cluster

from . import absent, controller_actions, job_actions, reservation_changes, show, update_keyword
from .session import Failed, ScontrolSession

HELP = """scontrol [<OPTION>] [<COMMAND>]

 options: -a --all  -d --details  -o --oneliner  -Q --quiet  --json  -V --version  -h --help

 commands:
   show ENTITY [ID]          job, step, node, partition, reservation, licenses, config, hostnames, hostlist,
                             hostlistsorted, aliases, daemons, assoc_mgr
   update KEY=VALUE...       jobid= | nodename= | partitionname= | reservationname= and the new values
   create reservation ...    delete reservationname=NAME
   hold | uhold | release | requeue | requeuehold | suspend | resume | top JOB...
   notify JOB MESSAGE        wait_job JOB        write batch_script JOB [FILE|-]
   listpids [JOB[.STEP]]     pidinfo PID         completing
   ping   reconfigure   version   help   exit

 Without a command, scontrol reads commands from standard input.

   scontrol show job 12
   scontrol update jobid=12 timelimit=+60
   scontrol show hostnames gpu[01-04]
"""


class Keyword(NamedTuple):
    """`least`: letters that must be written. `low` and `high`: how many words may follow (None: any number)."""

    least: int
    low: int
    high: int | None
    run: Callable[[ScontrolSession, list[str]], None]


def _help(session: ScontrolSession, words: list[str]) -> None:
    session.console.streams.out.write(HELP)
    if words:
        raise Failed("too many arguments for keyword:help")


def _version(session: ScontrolSession, words: list[str]) -> None:
    session.console.streams.out.write(VERSION)
    _alone("version", words)


def _alone(name: str, words: list[str]) -> None:
    """Report surplus arguments, after the command itself has been carried out."""
    if words:
        raise Failed(f"too many arguments for {name} keyword")


def _quiet(session: ScontrolSession, words: list[str]) -> None:
    session.quiet = True


def _verbose(session: ScontrolSession, words: list[str]) -> None:
    _alone("verbose", words)
    session.quiet = False


def _cluster(session: ScontrolSession, words: list[str]) -> None:
    """Accept the name of this cluster, which is the only one."""
    try:
        check_cluster("scontrol", words[0] if words else None)
    except WordsError as error:
        raise Failed(error.message) from error


def _quit(session: ScontrolSession, words: list[str]) -> None:
    session.over = True


def _oneliner(session: ScontrolSession, words: list[str]) -> None:
    session.oneliner = True


def _details(session: ScontrolSession, words: list[str]) -> None:
    session.details = True


def _nothing(session: ScontrolSession, words: list[str]) -> None:
    """Do nothing, for settings without effect here.

    There are no hidden partitions, and nothing asks for confirmation.
    """


HELD = frozenset({"not_pending"})
"""Codes that hold and release ignore: in Slurm, holding a running job is not an error and changes nothing."""
DOWN = "use `warpdeck down` to stop the controller"
KEYWORDS = {
    "all": Keyword(1, 0, None, _nothing),
    "abort": Keyword(2, 0, None, absent.refused("abort", DOWN, check=absent.admins_only("slurm_shutdown"))),
    "callerid": Keyword(
        3, 4, None, absent.refused("callerid", "processes are identified by the token of their job")
    ),
    "cancel_reboot": Keyword(3, 0, None, absent.cancel_reboot),
    "cluster": Keyword(2, 0, 1, _cluster),
    "completing": Keyword(2, 0, 0, controller_actions.completing),
    "create": Keyword(2, 0, None, reservation_changes.create),
    "delete": Keyword(3, 0, None, reservation_changes.delete),
    "details": Keyword(3, 0, 0, _details),
    "errnumstr": Keyword(5, 0, None, absent.errnumstr),
    "exit": Keyword(1, 0, 0, _quit),
    "fsdampeningfactor": Keyword(
        3,
        1,
        1,
        absent.refused(
            "fsdampeningfactor", "set shares in config.toml under [accounts]", check=absent.factor
        ),
    ),
    "getent": Keyword(4, 0, 1, absent.refused("getent", "run `getent` on the node")),
    "help": Keyword(2, 0, None, _help),
    "hide": Keyword(2, 0, None, _nothing),
    "hold": Keyword(3, 1, None, job_actions.on_jobs("hold", alike=HELD, after="slurm_suspend")),
    "holdu": Keyword(
        5, 1, None, job_actions.on_jobs("hold", alike=HELD, after="slurm_suspend", for_owner=True)
    ),
    "uhold": Keyword(
        2, 1, None, job_actions.on_jobs("hold", alike=HELD, after="slurm_suspend", for_owner=True)
    ),
    "listpids": Keyword(1, 0, 2, controller_actions.listpids),
    "listjobs": Keyword(5, 0, None, absent.refused("listjobs", "use `squeue --nodelist=NODE`")),
    "liststeps": Keyword(5, 0, None, absent.refused("liststeps", "use `squeue --steps --nodelist=NODE`")),
    "notify": Keyword(1, 2, None, job_actions.notify),
    "oneliner": Keyword(1, 0, 0, _oneliner),
    "pidinfo": Keyword(3, 0, 1, controller_actions.pidinfo),
    "ping": Keyword(3, 0, 0, controller_actions.ping),
    "power": Keyword(3, 0, None, absent.refused("power", "nodes are not powered from here")),
    "quiet": Keyword(4, 0, 0, _quiet),
    "quit": Keyword(4, 0, 0, _quit),
    "reboot": Keyword(3, 0, None, absent.reboot),
    "reconfigure": Keyword(3, 0, None, controller_actions.reconfigure),
    "release": Keyword(3, 1, None, job_actions.on_jobs("release", alike=HELD, after="slurm_suspend")),
    "requeue": Keyword(3, 1, None, job_actions.requeue(hold=False)),
    "requeuehold": Keyword(7, 1, None, job_actions.requeue(hold=True)),
    "resume": Keyword(3, 1, None, job_actions.on_jobs("resume")),
    "schedloglevel": Keyword(3, 1, 1, absent.schedlog),
    "setdebug": Keyword(2, 1, 1, absent.refused("setdebug", absent.LOG_HINT, check=absent.level)),
    "setdebugflags": Keyword(9, 1, None, absent.refused("setdebugflags", absent.LOG_HINT, check=absent.flag)),
    "show": Keyword(3, 0, None, show.show),
    "shutdown": Keyword(8, 0, 1, absent.refused("shutdown", DOWN, check=absent.shutdown)),
    "suspend": Keyword(2, 1, None, job_actions.on_jobs("suspend")),
    "takeover": Keyword(
        4, 0, 1, absent.refused("takeover", "there is no backup controller", check=absent.takeover)
    ),
    "token": Keyword(2, 0, None, absent.token),
    "top": Keyword(3, 1, None, job_actions.top),
    "update": Keyword(1, 0, None, update_keyword.update),
    "verbose": Keyword(4, 0, None, _verbose),
    "version": Keyword(4, 0, None, _version),
    "wait_job": Keyword(2, 1, 1, job_actions.wait_job),
    "write": Keyword(1, 1, 3, controller_actions.write),
}
"""Keyword -> its shortest abbreviation, its argument counts and its handler.

An abbreviation that matches several keywords means the first one.
"""
