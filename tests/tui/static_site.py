"""Static data of a site: partitions, QoS, shares, reservations and priorities."""

from __future__ import annotations

from typing import Any

import msgspec

from warpdeck.protocol import requests, results
from warpdeck.protocol.job_rows import EventRow
from warpdeck.protocol.request_base import RequestMessage
from warpdeck.protocol.results import PriorityList, ShareTree
from warpdeck.protocol.site_rows import PartitionRow, PriorityRow, QosRow, ReservationRow, ShareRow, UseRow

NOW = 1_767_870_720.0
"""Thu 8 January 2026, 11:12 UTC."""

STATUS = results.ControllerStatus(
    pid=1,
    host="lab.example.org",
    home="/nowhere",
    version="1",
    uptime_s=1.0,
    user="alice",
    jobs={},
    nodes=8,
    log="",
)


class StaticSite:
    """Answers requests for the site's tables."""

    async def ask(self, request: RequestMessage[Any]) -> Any:
        match request:
            case requests.Partitions():
                return results.PartitionList(partitions=await self.partitions())
            case requests.Reservations():
                return results.ReservationList(reservations=await self.reservations())
            case requests.QosList():
                return results.QosLevels(qos=await self.qos())
            case requests.Events():
                return results.EventList(events=await self.events())
            case requests.Shares():
                return await self.shares()
            case requests.Priorities():
                return await self.priorities()
            case requests.Status():
                return STATUS
            case requests.LimitUse():
                return results.LimitUseList(
                    uses=[UseRow(qos="normal", user="alice", jobs=2, tres={"gpu": 6})]
                )
        raise AssertionError(request)

    async def partitions(self) -> list[PartitionRow]:
        states = {"allocated": 5, "mixed": 1, "idle": 1, "drained": 1}
        gpu = PartitionRow(
            name="gpu",
            default=True,
            node_list="gpu[01-08]",
            node_states=states,
            nodes=8,
            cpus=768,
            cpus_used=352,
            gpus=64,
            gpus_used=44,
            max_time_s=7 * 86_400,
            max_nodes=4,
            qos="normal",
        )
        short = msgspec.structs.replace(
            gpu,
            name="short",
            default=False,
            max_time_s=3600,
            priority_tier=2,
            allow_accounts=["vision", "nlp"],
        )
        return [gpu, short]

    async def reservations(self) -> list[ReservationRow]:
        return [
            ReservationRow(
                name="class",
                state="active",
                node_list="gpu07",
                start=NOW - 1800,
                end=NOW + 5400,
                users=["erin"],
                accounts=["teaching"],
                repeat="weekly",
            ),
            ReservationRow(
                name="cooling",
                state="future",
                node_list="gpu[01-08]",
                start=NOW + 86_400,
                end=NOW + 2 * 86_400,
                maintenance=True,
            ),
        ]

    async def qos(self) -> list[QosRow]:
        return [
            QosRow(name="normal", limits={"max_tres_per_user": {"gpu": 8}}),
            QosRow(
                name="urgent",
                priority=100,
                preempts=["normal"],
                usage_factor=2.0,
                limits={"max_jobs_per_user": 2},
            ),
        ]

    async def shares(self) -> ShareTree:
        def user(account: str, name: str, used: float, level: float, factor: float) -> ShareRow:
            return ShareRow(
                account=account,
                user=name,
                depth=1,
                norm_shares=0.5,
                norm_usage=used,
                level_fs=level,
                fairshare=factor,
            )

        rows = [
            ShareRow(
                account="nlp",
                shares=40,
                norm_shares=0.4,
                usage=1e6,
                norm_usage=0.25,
                level_fs=1.6,
                quota={"gpu": 16},
            ),
            user("nlp", "erin", 0.1, 5.0, 1.0),
            user("nlp", "bob", 0.9, 0.56, 0.75),
            ShareRow(account="vision", shares=60, norm_shares=0.6, usage=3e6, norm_usage=0.75, level_fs=0.8),
            user("vision", "carol", 0.3, 1.67, 0.5),
            user("vision", "alice", 0.7, 0.71, 0.25),
        ]
        return ShareTree(shares=rows, half_life_s=14 * 86_400.0)

    async def priorities(self) -> PriorityList:
        rows = [
            PriorityRow(
                label="130",
                number=130,
                user="alice",
                priority=5210,
                age_part=710.0,
                fairshare_part=2500.0,
                job_size_part=1000.0,
                qos_part=1000.0,
            ),
            PriorityRow(
                label="132",
                number=132,
                user="carol",
                priority=3990,
                age_part=390.0,
                fairshare_part=3700.0,
                nice=100,
            ),
        ]
        return PriorityList(
            jobs=rows, weights={"age": 1000.0, "fairshare": 5000.0, "job_size": 2000.0, "qos": 1000.0}
        )

    async def events(self) -> list[EventRow]:
        texts = (
            "submitted by alice",
            "started on gpu[01-02]",
            "ended: exit 1",
            "canceled by bob",
            "held by alice",
        )
        return [EventRow(at=NOW - 97 * at, job=90 + at % 43, text=texts[at % 5]) for at in range(60)]
