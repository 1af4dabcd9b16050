"""Combine the imported files to a configuration that passes `config check`.

If a partition names an account or QoS that no file defines, an empty one is created. The access rule thus
stays restrictive, and a remark names the file with the missing members.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.config import node_tables, tables
from warpdeck.config.decode import decode
from warpdeck.config.entries import write

from .accounts import AssociationReader
from .cluster import ClusterReader
from .conf import ReadFile, read_conf, read_text
from .notes import ImportNotes
from .settings import SiteReader


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """An imported configuration, its text for a file, and remarks about settings that could not be converted."""

    config: tables.Config
    text: str
    remarks: tuple[str, ...]


def import_site(
    slurm_conf: str,
    *,
    gres: str = "",
    topology: str = "",
    sacctmgr: Sequence[str] = (),
    read_file: ReadFile = read_text,
) -> Imported:
    """Import the files with these paths; "" and () mean none. Raises UserError, which names file and line."""
    notes = ImportNotes()
    cluster, settings, associations = ClusterReader(notes), SiteReader(notes), AssociationReader(notes)
    for line in read_conf(slurm_conf, read_file):
        if not cluster.take(line):
            settings.take(line)
    if gres:
        _take_gres(gres, notes, read_file)
    for line in read_conf(topology, read_file) if topology else ():
        if not cluster.take(line):
            notes.add(
                f"{line.place}: {next(iter(line.spelled.values()))}", "several topologies are not supported"
            )
    for path in sacctmgr:
        associations.take(read_file(path), path)
    config = _whole(settings, cluster, associations, notes)
    settings.mention_daemons()
    text = _head(slurm_conf) + write(config)
    return Imported(
        config=decode(text, "the imported configuration").config, text=text, remarks=tuple(notes.lines())
    )


def _head(source: str) -> str:
    return f"# Made by `warpdeck config import {source}`. Nodes are added with `warpdeck node add`.\n\n"


def _take_gres(path: str, notes: ImportNotes, read_file: ReadFile) -> None:
    """Read gres.conf only for remarks. The agent measures the GPUs that the file describes."""
    for line in read_conf(path, read_file):
        name = line.pairs.get("name", "gpu").lower()
        if name not in ("gpu", "shard"):
            notes.add(f"{line.place}: Name={name}", "only GPUs and their shards are supported as GRES")
        elif line.pairs.get("type"):
            setting = f"Type={line.pairs['type']}"
            notes.add(setting, "the driver defines the type of a GPU; see `warpdeck node show`")


def _whole(
    settings: SiteReader, cluster: ClusterReader, associations: AssociationReader, notes: ImportNotes
) -> tables.Config:
    partitions = cluster.partitions()
    scheduler = tables.Scheduler(
        default_partition=cluster.default_partition if cluster.default_partition in partitions else "",
        billing_weights=cluster.billing_weights(),
    )
    base = settings.config(scheduler)
    accounts = _accounts(partitions, associations, notes)
    qos = _qos(partitions, accounts, associations, notes)
    return msgspec.structs.replace(
        base,
        gpus=node_tables.Gpus(shards_per_gpu=cluster.shards_per_gpu()),
        nodes=cluster.nodes(),
        partitions=partitions,
        accounts=accounts,
        qos=qos,
        users=associations.users,
    )


def _accounts(
    partitions: dict[str, tables.Partition], associations: AssociationReader, notes: ImportNotes
) -> dict[str, tables.Account]:
    accounts = associations.accounts()
    for name, partition in partitions.items():
        for account in (*(partition.allow_accounts or ()), *partition.deny_accounts):
            if account not in accounts:
                accounts[account] = tables.Account()
                reason = "created without users; import them with --sacctmgr FILE"
                notes.add(f"account {account} of partition {name}", reason)
    for name, entry in list(accounts.items()):
        if entry.parent and entry.parent not in accounts:
            notes.add(
                f"account {name}",
                f"its parent {entry.parent} is not in the dump; imported as a top-level account",
            )
            accounts[name] = msgspec.structs.replace(entry, parent="")
    return accounts


def _qos(
    partitions: dict[str, tables.Partition],
    accounts: dict[str, tables.Account],
    associations: AssociationReader,
    notes: ImportNotes,
) -> dict[str, tables.Qos]:
    """Return the defined QoS, and an empty QoS for each name without a definition."""
    named: dict[str, None] = {}
    for partition in partitions.values():
        parts = (*(partition.allow_qos or ()), *partition.deny_qos, partition.qos)
        named.update(dict.fromkeys(parts))
    for account in accounts.values():
        named.update(dict.fromkeys((*(account.qos or ()), account.default_qos)))
        for user in account.users.values():
            named.update(dict.fromkeys((*(user.qos or ()), user.default_qos)))
    for entry in associations.qos.values():
        named.update(dict.fromkeys(entry.preempts))
    made = dict(associations.qos)
    for name in named:
        if name and name not in made:
            made[name] = tables.Qos()
            reason = "created without limits; import them with --sacctmgr FILE from `sacctmgr -P show qos`"
            notes.add(f"QoS {name}", reason)
    return made
