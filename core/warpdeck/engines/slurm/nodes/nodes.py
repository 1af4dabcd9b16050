"""The nodes of Slurm, their drains, and reservations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpdeck.base.chunking import LazyRows, Rows
from warpdeck.base.errors import UserError
from warpdeck.engines.shared.past_nodes import PastNodes
from warpdeck.engines.shared.timeline import Timelines
from warpdeck.engines.slurm.capabilities import IMPOSSIBLE
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.kept_answers import KeptAnswers
from warpdeck.engines.slurm.cluster.polling import Allowance, Source
from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.commands import SlurmCommands, command_error
from warpdeck.engines.slurm.own_user import require_own_user
from warpdeck.model import NodeName
from warpdeck.model.created_by_nonce import CreatedObject, find_created
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import UNSUPPORTED, Action, Progress
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.node_rows import NodeFacts, NodeRow, PastNodeRow
from warpdeck.protocol.nonces import mark_of

from .facts import node_facts
from .node_looks import NodeLooks
from .past_nodes import described
from .reservation_words import reservation_words

CODES = (
    ("Invalid node name specified", "not_found"),
    ("Access/permission denied", "denied"),
    ("Invalid user id", "denied"),
    ("Requested reservation is invalid", "not_found"),
    ("Requested reservation overlaps", "reservation_overlaps"),
    ("Reservation already exists", "reservation_exists"),
)
"""Texts in Slurm's errors, and our codes."""


@dataclass(frozen=True, kw_only=True)
class SlurmNodes:
    """The `EngineNodes` of a gateway. Slurm decides whether the user of the gateway may change nodes."""

    cluster: Cluster
    commands: SlurmCommands
    allowance: Allowance
    kept: KeptAnswers
    looks: NodeLooks
    past_nodes: PastNodes
    timelines: Timelines
    monotonic: Callable[[], float] = time.monotonic

    async def rows(self, caller: Caller, message: ask.Nodes) -> Rows[NodeRow | NodeFacts]:
        await self.kept.poller.glance(Source.NODES)
        known = self.cluster.nodes
        names = [self._known(message.name)] if message.name else known.names()

        def show(some: Sequence[NodeName]) -> Sequence[NodeRow | NodeFacts]:
            rows = [row for name in some if (row := known.row(name)) is not None]
            if not message.facts:
                return rows
            return [node_facts(self.cluster, row) for row in rows]

        return LazyRows(names, show)

    async def drain(self, caller: Caller, message: ask.NodeDrain) -> NodeRow:
        if message.gpus:
            raise _no_single_gpus()
        reason = " ".join(message.reason.split()) or f"drained by {caller.who.user}"  # Slurm requires one.
        # scontrol removes one quotation mark from each end of the reason.
        return await self._set_state(caller, message.name, "State=DRAIN", f'Reason="{reason}"')

    async def resume(self, caller: Caller, message: ask.NodeResume) -> NodeRow:
        if message.gpus:
            raise _no_single_gpus()
        return await self._set_state(caller, message.name, "State=RESUME")

    async def reserve(self, caller: Caller, message: ask.ReservationMake) -> results.Result:
        """Make a reservation once. Its name is unique in Slurm, so a repeated request cannot make another one."""
        require_own_user(caller.who, self.cluster.uid)
        mark = mark_of(message)
        if find_created(self.cluster.state.created, caller.who.uid, mark) is not None:
            return results.Result()
        now = self.cluster.clock()
        words = reservation_words(message.reservation, now=now)
        verb = "update" if message.instead else "create"
        await self._order("scontrol", verb, "reservation", *words)
        self.kept.forget_answer(Question.RESERVATIONS)
        if mark is not None:
            created = CreatedObject(
                uid=caller.who.uid, request_id=mark, at_unix=now, job_id=0, label=message.reservation.name
            )
            await self.cluster.note_created(created)
        return results.Result()

    async def unreserve(self, caller: Caller, message: ask.ReservationRemove) -> results.Result:
        require_own_user(caller.who, self.cluster.uid)
        await self._order("scontrol", "delete", f"ReservationName={message.name}")
        self.kept.forget_answer(Question.RESERVATIONS)
        return results.Result()

    async def past(self, caller: Caller, message: ask.NodesAt) -> Rows[PastNodeRow]:
        known = self.cluster.nodes
        names = [self._known(message.name)] if message.name else sorted(known.names())
        rows = [row for name in names if (row := known.row(name)) is not None]
        return await self.past_nodes.rows([described(row) for row in rows], message.at)

    async def timeline(self, caller: Caller, message: ask.NodeTimeline) -> results.Timeline:
        return await self.timelines.timeline(message)

    async def health(self, caller: Caller, message: ask.NodeCheck) -> results.NodeHealth:
        raise _impossible(Action.NODE_CHECK)

    async def add(self, caller: Caller, message: ask.NodeAdd, progress: Progress) -> NodeRow:
        raise _impossible(Action.NODE_ADD)

    async def remove(self, caller: Caller, message: ask.NodeRemove) -> results.Result:
        raise _impossible(Action.NODE_REMOVE)

    async def _set_state(self, caller: Caller, node: str, *words: str) -> NodeRow:
        """Change the state of one node, and return its row as Slurm shows it now. Raises UserError."""
        require_own_user(caller.who, self.cluster.uid)
        name = self._known(node)
        await self._order("scontrol", "update", f"NodeName={name}", *words)
        self.looks.follow(name)
        return await self.looks.look(name)

    async def _order(self, *argv: str) -> None:
        """Run a command. Raises UserError with Slurm's words."""
        self.allowance.count_action(1, self.monotonic())
        code, out, err = await self.commands.change(argv)
        if not code:
            return
        error = command_error(argv[0], err or out)
        found = next((code for text, code in CODES if text in (err or out)), error.code)
        raise UserError(error.message, error.hint, code=found)

    def _known(self, name: str) -> NodeName:
        if NodeName(name) not in self.cluster.nodes.rows:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
        return NodeName(name)


def _no_single_gpus() -> UserError:
    return UserError(
        "Slurm drains nodes as a whole, not single GPUs",
        "drain the node, or ask an administrator",
        code=UNSUPPORTED,
    )


def _impossible(action: Action) -> UserError:
    return UserError(IMPOSSIBLE[action], code=UNSUPPORTED)
