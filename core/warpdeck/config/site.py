"""Convert config.toml to the planner's inputs: the settings, and the site's tables for the view.

The functions are pure. Resource usage and the members of Unix groups are arguments, because they change at
run time and the file does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from warpdeck.base.cluster import ALL_NODES, NORMAL_QOS
from warpdeck.base.errors import UserError
from warpdeck.model import GpuRequest, NodeName, Request, Resources
from warpdeck.notation.filters.reservation_flags import flag_fields, parse_flags
from warpdeck.notation.values.hostlist import expand
from warpdeck.policy import (
    AccountView,
    Limits,
    PartitionView,
    PlannerSettings,
    QosView,
    ReservationView,
    UserView,
    Weights,
)

from . import tables
from .association_qos import allowed_qos, default_qos_by_association
from .tables import Config, Quotas

Members = Mapping[str, Collection[str]]
"""Known members of each Unix group."""
NEVER = float("inf")


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Past usage, decayed to now, in billing-seconds and TRES-seconds. A user's key is (user, account)."""

    accounts: dict[str, float] = {}
    account_tres: dict[str, dict[str, float]] = {}
    users: dict[tuple[str, str], float] = {}
    user_tres: dict[tuple[str, str], dict[str, float]] = {}
    qos: dict[str, dict[str, float]] = {}


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a node in the configuration."""

    features: frozenset[str] = frozenset()
    switch: str = ""
    weight: int = 1
    comment: str = ""
    extra: str = ""


class HealthRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for the results of health checks and for GPU faults."""

    ignore: frozenset[str] = frozenset()
    ignore_xids: frozenset[int] = frozenset()
    requeue_on: frozenset[str] = frozenset()
    max_clock_skew_s: float = 10.0


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The site's tables for the planner's view (sorted by name), the settings of a pass, and the defaults of
    requests.
    """

    settings: PlannerSettings = PlannerSettings()
    grace_s: float = 30.0
    """Seconds between TERM and KILL when a job is ended."""
    pause_grace_s: float = 120.0
    """Seconds in which a job that is paused may save its work."""
    half_life_s: float | None = None
    shards_per_gpu: int = 0
    sends_mail: bool = False
    expedites: bool = False
    """Whether a job with --requeue=expedite goes first after its node failed."""
    partitions: tuple[PartitionView, ...] = ()
    qos: tuple[QosView, ...] = ()
    accounts: tuple[AccountView, ...] = ()
    users: tuple[UserView, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    """Reservations. A reservation of all nodes has no nodes here: see reservations_on."""
    on_all_nodes: frozenset[str] = frozenset()
    """Names of the reservations of all existing nodes."""
    licenses: tuple[tuple[str, int], ...] = ()
    nodes: dict[NodeName, NodeSettings] = {}
    default_accounts: dict[str, str] = {}
    """Account of each user, for jobs that name no account."""
    default_qos: dict[tuple[str, str], str] = {}
    """QoS for jobs that name no QoS, by (account, user) or (account, "")."""
    account_descriptions: dict[str, tuple[str, str]] = {}
    """Description and organization by account, for accounts that have one of them."""
    avoid_foreign_processes: bool = True
    health: HealthRules = HealthRules()
    quotas: Quotas = Quotas()

    def complete(self, request: Request, user: str) -> Request:
        """Return the request with the site's default partition, account and QoS, and with shards converted.

        The time limit is not changed, because its default depends on the partition in which the job starts.
        Raises UserError.
        """
        account = request.account or self.default_accounts.get(user, "")
        return msgspec.structs.replace(
            request,
            resources=self._with_gpu_share(request.resources),
            partition=request.partition or self.settings.default_partition,
            account=account,
            qos=request.qos or self._default_qos(account, user),
        )

    def _default_qos(self, account: str, user: str) -> str:
        return self.default_qos.get((account, user)) or self.default_qos.get((account, ""), "")

    def remarks(self, request: Request) -> list[str]:
        """Return remarks about requested names that have no effect on this site."""
        named = (
            ("partition", request.partition, self.partitions),
            ("account", request.account, self.accounts),
            ("qos", request.qos, self.qos),
        )
        found = [
            f"--{option}={value} has no effect: this site has none configured"
            for option, value, known in named
            if value and not known and (option, value) not in (("partition", ALL_NODES), ("qos", NORMAL_QOS))
        ]
        if request.mail_types and not self.sends_mail:
            found.append("--mail-type has no effect here: this site sends no mail")
        if request.expedite and not self.expedites:
            found.append(
                "--requeue=expedite has the effect of --requeue: this site does not expedite requeued jobs"
            )
        return found

    def _with_gpu_share(self, requested: Resources) -> Resources:
        """Return the request with its shards as a share of a GPU.

        All shards of a GPU become the whole GPU. Raises UserError.
        """
        shards, each = requested.gpus.shards, self.shards_per_gpu
        if not shards:
            return requested
        if not each:
            hint = "ask for a part of one: --gpus=0.25; an admin may set shards_per_gpu under [gpus]"
            raise UserError("this site has no GPU shards", hint)
        if shards > each:
            raise UserError(
                f"the job requests {shards} shards, but a GPU has {each}", "request whole GPUs: --gpus=2"
            )
        if shards == each:
            gpus = GpuRequest(per_node=1, type=requested.gpus.type)
        else:
            gpus = GpuRequest(share_pct=max(1, 100 * shards // each), type=requested.gpus.type)
        return msgspec.structs.replace(requested, gpus=gpus)

    def reservations_on(self, node_names: Collection[NodeName]) -> tuple[ReservationView, ...]:
        """Return all reservations, with `node_names` as the nodes that exist."""
        everything = frozenset(node_names)
        return tuple(
            msgspec.structs.replace(each, nodes=everything) if each.name in self.on_all_nodes else each
            for each in self.reservations
        )


def build_site(
    config: Config,
    *,
    members: Members | None = None,
) -> Site:
    """Return the tables for a pass, without any usage."""
    return Site(
        quotas=config.quotas,
        sends_mail=bool(config.mail.program or config.mail.webhook),
        expedites=config.scheduler.expedited_requeue,
        settings=build_settings(config),
        grace_s=config.grace_s,
        pause_grace_s=config.scheduler.pause_grace_s,
        half_life_s=config.fairshare.half_life,
        shards_per_gpu=config.gpus.shards_per_gpu,
        partitions=tuple(
            _partition(name, table, members or {}) for name, table in sorted(config.partitions.items())
        ),
        qos=tuple(_qos(name, table) for name, table in sorted(config.qos.items())),
        accounts=tuple(_accounts(config)),
        users=tuple(_users(config)),
        reservations=tuple(_reservation(name, table) for name, table in sorted(config.reservations.items())),
        on_all_nodes=frozenset(name for name, each in config.reservations.items() if each.nodes is None),
        licenses=tuple(sorted(config.licenses.items())),
        nodes=node_facts(config),
        health=HealthRules(
            ignore=frozenset(config.health.ignore),
            ignore_xids=frozenset(config.health.ignore_xids),
            requeue_on=frozenset(config.health.requeue_on),
            max_clock_skew_s=config.health.max_clock_skew_s,
        ),
        avoid_foreign_processes=config.gpus.avoid_foreign_processes,
        default_accounts=_default_accounts(config),
        account_descriptions={
            name: (each.description, each.organization)
            for name, each in config.accounts.items()
            if each.description or each.organization
        },
        default_qos=default_qos_by_association(config),
    )


def with_usage(site: Site, usage: UsageTotals) -> Site:
    """Return the site with the usage of accounts, users and QoS."""
    replace = msgspec.structs.replace
    return replace(
        site,
        qos=tuple(replace(each, usage=usage.qos.get(each.name, {})) for each in site.qos),
        accounts=tuple(
            replace(
                each,
                usage=usage.accounts.get(each.name, 0.0),
                tres_usage=usage.account_tres.get(each.name, {}),
            )
            for each in site.accounts
        ),
        users=tuple(
            replace(
                each,
                usage=usage.users.get((each.user, each.account), 0.0),
                tres_usage=usage.user_tres.get((each.user, each.account), {}),
            )
            for each in site.users
        ),
    )


def build_settings(config: Config) -> PlannerSettings:
    """Return the settings of a pass."""
    table = config.scheduler
    weights = table.weights
    only = next(iter(config.partitions)) if len(config.partitions) == 1 else ""
    return PlannerSettings(
        weights=Weights(
            age=weights.age,
            fairshare=weights.fairshare,
            job_size=weights.job_size,
            partition=weights.partition,
            qos=weights.qos,
            tres=weights.tres,
        ),
        max_age_s=float(table.max_age),
        favor_small=table.favor_small,
        billing_weights=table.billing_weights,
        backfill=table.backfill,
        queue_order=table.queue_order,
        overdue_share=table.overdue_share,
        overdue_reservations=table.overdue_reservations,
        wait_bound_s=table.wait_bound,
        keep_reserved=table.keep_reserved,
        reservations=table.reservations,
        reservation_holds=table.reservation_holds,
        backfill_order=table.backfill_order,
        default_time_s=table.default_time,
        default_mem_per_cpu_bytes=table.default_mem_per_cpu,
        default_partition=table.default_partition or only,
        max_starts=table.max_starts,
        max_backfill_tests=table.max_backfill_tests,
        max_forecasts=table.max_forecasts,
        preempt_by=table.preempt_by,
        preempt_mode=table.preempt_mode,
        suspend_keeps_gpus=table.suspend_keeps_gpus,
        preempt_exempt_s=table.preempt_exempt_s,
        grace_s=table.preempt_grace_s,
        reclaim=table.reclaim,
        kill_invalid_dependency=table.kill_invalid_dependency,
        enforce_limits=table.enforce_limits,
    )


def node_facts(config: Config) -> dict[NodeName, NodeSettings]:
    """Return the combined settings of all [nodes] tables for each node."""
    facts: dict[NodeName, NodeSettings] = {}
    for hosts, table in config.nodes.items():
        for name in expand(hosts):
            before = facts.get(NodeName(name), NodeSettings())
            facts[NodeName(name)] = NodeSettings(
                features=before.features | frozenset(table.features),
                switch=before.switch if table.switch is None else table.switch,
                weight=before.weight if table.weight is None else table.weight,
                comment=before.comment if table.comment is None else table.comment,
                extra=before.extra if table.extra is None else table.extra,
            )
    return facts


def build_limits(table: tables.LimitTable) -> Limits:
    """Return a table's limits."""
    return Limits(
        grp_tres=table.grp_tres,
        grp_tres_mins=table.grp_tres_mins,
        grp_tres_run_mins=table.grp_tres_run_mins,
        grp_wall_s=table.grp_wall,
        grp_jobs=table.grp_jobs,
        grp_submit=table.grp_submit,
        max_tres_per_job=table.max_tres_per_job,
        max_tres_per_node=table.max_tres_per_node,
        max_tres_per_user=table.max_tres_per_user,
        max_tres_per_account=table.max_tres_per_account,
        max_tres_mins_per_job=table.max_tres_mins_per_job,
        max_jobs_per_user=table.max_jobs_per_user,
        max_jobs_per_account=table.max_jobs_per_account,
        max_submit_per_user=table.max_submit_per_user,
        max_submit_per_account=table.max_submit_per_account,
        max_wall_s=table.max_wall,
        min_tres_per_job=table.min_tres_per_job,
    )


def _set(names: Collection[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _partition(name: str, table: tables.Partition, members: Members) -> PartitionView:
    return PartitionView(
        name=name,
        nodes=None if table.nodes is None else frozenset(NodeName(node) for node in table.nodes),
        state=table.state,
        max_time_s=table.max_time,
        default_time_s=table.default_time,
        max_nodes=table.max_nodes,
        min_nodes=table.min_nodes,
        priority_tier=table.priority_tier,
        priority_job_factor=table.priority_job_factor,
        allow_users=_allowed_users(table, members),
        allow_accounts=_set(table.allow_accounts),
        deny_accounts=frozenset(table.deny_accounts),
        allow_qos=_set(table.allow_qos),
        deny_qos=frozenset(table.deny_qos),
        qos=table.qos,
        preempt_mode=table.preempt_mode,
        grace_s=table.grace_s,
        exclusive=table.exclusive,
        exclusive_user=table.exclusive_user,
    )


def _allowed_users(table: tables.Partition, members: Members) -> frozenset[str] | None:
    """Return the named users and the members of allowed groups, or None for all users."""
    if table.allow_groups is None and table.allow_users is None:
        return None
    users = set(table.allow_users or ())
    for group in table.allow_groups or ():
        users.update(members.get(group, ()))
    return frozenset(users)


def _qos(name: str, table: tables.Qos) -> QosView:
    return QosView(
        name=name,
        priority=table.priority,
        limits=build_limits(table),
        preempts=frozenset(table.preempts),
        preempt_mode=table.preempt_mode,
        grace_s=table.grace_s,
        preempt_exempt_s=table.preempt_exempt_s,
        usage_factor=table.usage_factor,
        overrides_partition=table.overrides_partition,
        deny_on_limit=table.deny_on_limit,
    )


def _accounts(config: Config) -> Iterator[AccountView]:
    for name, table in sorted(config.accounts.items()):
        yield AccountView(
            name=name,
            parent=table.parent,
            shares=table.shares,
            limits=build_limits(table),
            quota=table.quota,
            qos=allowed_qos(config, name),
        )


def _users(config: Config) -> list[UserView]:
    views = [
        UserView(
            user=user,
            account=account,
            shares=entry.shares,
            limits=build_limits(entry),
            qos=allowed_qos(config, account, user),
        )
        for account, table in config.accounts.items()
        for user, entry in table.users.items()
    ]
    return sorted(views, key=lambda view: (view.user, view.account))


def _reservation(name: str, table: tables.Reservation) -> ReservationView:
    start = 0.0 if table.start is None else table.start.timestamp()
    end = NEVER if table.end is None else table.end.timestamp()
    if table.duration is not None:
        end = start + table.duration
    return ReservationView(
        name=name,
        nodes=frozenset(NodeName(node) for node in table.nodes or ()),
        start_unix=start,
        end_unix=end,
        users=frozenset(table.users),
        accounts=frozenset(table.accounts),
        **_kind(table),
    )


def _kind(table: tables.Reservation) -> dict[str, Any]:
    """Return the fields that a reservation's flags set, combined with the table's keys of the same meaning."""
    kind = flag_fields(parse_flags(",".join(table.flags)).added)
    kind["maintenance"] = kind["maintenance"] or table.maintenance
    kind["repeat"] = kind["repeat"] or table.repeat
    return kind


def _default_accounts(config: Config) -> dict[str, str]:
    """Return each user's default account: the account marked as default, or else the user's only account."""
    own: dict[str, list[str]] = {}
    marked: dict[str, str] = {}
    for account, table in config.accounts.items():
        for user, entry in table.users.items():
            own.setdefault(user, []).append(account)
            if entry.default:
                marked[user] = account
    return {user: names[0] for user, names in sorted(own.items()) if len(names) == 1} | marked
