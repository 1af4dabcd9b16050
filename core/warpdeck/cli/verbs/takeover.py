"""`warpdeck takeover`: make the nodes obey this controller instead of another one with the same identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdeck.base.output import clean
from warpdeck.cli.arguments import JSON
from warpdeck.cli.verb import Verb, request

if TYPE_CHECKING:
    from argparse import Namespace


def _print_taken_over(found: dict[str, Any], args: Namespace) -> None:
    answered = found["nodes"] - len(found["lost"])
    print(
        f"this controller has taken over with epoch {found['epoch']}; nodes: {answered} of {found['nodes']}"
    )
    if found["lost"]:
        print(f"not connected yet: {clean(', '.join(found['lost']))}; they follow when they answer")


VERBS = (
    Verb(
        "takeover", """\
Make the nodes obey this controller. If a home was copied and two controllers with the same identity were started, the nodes
obey the later one, and the other one is fenced: it changes nothing and refuses requests. This verb begins a new start of
this controller with a higher epoch. The other one is then fenced. Jobs keep running.""",
        (JSON,),
        examples=(
            "warpdeck status      see which controller the nodes obey",
            "warpdeck takeover    let them obey this one",
        ),
        notes="""\
Stop the other controller first if you can. A node that cannot be reached obeys the other one until it answers. Jobs that the
other controller has started since the copy are unknown here; `warpdeck status` tells how to continue.""",
        ask=request("takeover"), waits="waiting for the nodes ...", show=_print_taken_over,
    ),
)  # fmt: skip
