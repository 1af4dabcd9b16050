"""scontrol's keywords: which words they take, and what runs."""

from __future__ import annotations

from warpdeck.slurm.version import VERSION

from . import changes, orders, reserving, show
from .command import HELP, Keyword
from .session import Session


def _help(session: Session, words: list[str]) -> None:
    session.console.out.write(HELP)


def _version(session: Session, words: list[str]) -> None:
    session.console.out.write(VERSION)


def _quit(session: Session, words: list[str]) -> None:
    session.over = True


def _oneliner(session: Session, words: list[str]) -> None:
    session.oneliner = True


def _details(session: Session, words: list[str]) -> None:
    session.details = True


def _nothing(session: Session, words: list[str]) -> None:
    """What changes nothing here: there are no hidden partitions, and nobody is asked twice."""


HELD = frozenset({"not_pending"})
"""To hold what runs already is no error in Slurm, and changes nothing now."""
LOG = "the log has all that there is"
REBOOT = "drain the node, reboot it, and resume it"
KEYWORDS = {
    "all": Keyword(1, 0, 0, _nothing),
    "abort": Keyword(2, 0, None, orders.refused("abort", "`warpdeck down` stops the controller")),
    "cancel_reboot": Keyword(3, 1, 1, orders.refused("cancel_reboot", REBOOT)),
    "cluster": Keyword(2, 0, 1, orders.refused("cluster", "there is one")),
    "completing": Keyword(2, 0, 0, orders.completing),
    "create": Keyword(2, 0, None, reserving.create),
    "delete": Keyword(3, 0, None, reserving.delete),
    "details": Keyword(3, 0, 0, _details),
    "errnumstr": Keyword(5, 0, None, orders.refused("errnumstr", "errors have words here, not numbers")),
    "exit": Keyword(1, 0, 0, _quit),
    "fsdampeningfactor": Keyword(
        3, 0, None, orders.refused("fsdampeningfactor", "shares stand in config.toml, [accounts]")
    ),
    "getaddrs": Keyword(2, 0, None, orders.refused("getaddrs", "`scontrol show node` has addresses")),
    "help": Keyword(2, 0, 0, _help),
    "hide": Keyword(2, 0, 0, _nothing),
    "hold": Keyword(3, 1, None, orders.on_jobs("hold", alike=HELD, after="slurm_suspend")),
    "holdu": Keyword(5, 1, None, orders.on_jobs("hold", alike=HELD, after="slurm_suspend", for_owner=True)),
    "uhold": Keyword(2, 1, None, orders.on_jobs("hold", alike=HELD, after="slurm_suspend", for_owner=True)),
    "listpids": Keyword(1, 0, 2, orders.listpids),
    "notify": Keyword(1, 2, None, orders.notify),
    "oneliner": Keyword(1, 0, 0, _oneliner),
    "pidinfo": Keyword(3, 1, 1, orders.pidinfo),
    "ping": Keyword(3, 0, 0, orders.ping),
    "quiet": Keyword(4, 0, 0, _nothing),
    "quit": Keyword(4, 0, 0, _quit),
    "reboot": Keyword(3, 0, None, orders.refused("reboot", REBOOT)),
    "reconfigure": Keyword(3, 0, 0, orders.reconfigure),
    "release": Keyword(3, 1, None, orders.on_jobs("release", alike=HELD, after="slurm_suspend")),
    "requeue": Keyword(3, 1, None, orders.requeue(hold=False)),
    "requeuehold": Keyword(7, 1, None, orders.requeue(hold=True)),
    "resume": Keyword(3, 1, None, orders.on_jobs("resume")),
    "schedloglevel": Keyword(3, 0, None, orders.refused("schedloglevel", LOG)),
    "setdebug": Keyword(2, 0, None, orders.refused("setdebug", LOG)),
    "setdebugflags": Keyword(9, 0, None, orders.refused("setdebugflags", LOG)),
    "show": Keyword(3, 0, None, show.show),
    "shutdown": Keyword(8, 0, None, orders.refused("shutdown", "`warpdeck down` stops the controller")),
    "suspend": Keyword(2, 1, None, orders.on_jobs("suspend")),
    "takeover": Keyword(4, 0, None, orders.refused("takeover", "there is one controller")),
    "token": Keyword(2, 0, None, orders.token),
    "top": Keyword(3, 1, None, orders.top),
    "update": Keyword(1, 0, None, changes.update),
    "verbose": Keyword(4, 0, 0, _nothing),
    "version": Keyword(4, 0, 0, _version),
    "wait_job": Keyword(2, 1, 1, orders.wait_job),
    "write": Keyword(1, 1, 3, orders.write),
}
"""Keyword -> how many letters must be written, how many words follow. Where one begins like another, the first is meant."""
