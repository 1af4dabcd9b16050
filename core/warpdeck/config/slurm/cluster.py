"""Read nodes, node sets, switches, GPU shards and partitions from slurm.conf, gres.conf and topology.conf.

A node's hardware (CPUs, memory, GPUs and their links) is measured by its agent and not taken from these
files.
"""

from __future__ import annotations

from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.config import tables
from warpdeck.notation.values.hostlist import collapse, expand
from warpdeck.notation.values.tres_counts import parse_tres_prices

from . import values
from .conf import ConfLine
from .notes import ImportNotes

Pairs = dict[str, str]

MEASURED = values.word_set(
    "boards corespersocket cores cpus procs cpuspeclist corespeccount realmemory sockets socketsperboard threadspercore"
    " tmpdisk memspeclimit nodeaddr nodehostname bcastaddr port state reason gres"
    " restrictedcorespergpu cpubind parameters"
)
"""Keys of NodeName lines that describe the node's hardware or address."""

UNSUPPORTED_PARTITION_KEYS = {
    "defmempercpu": "the default memory is set for the whole site: scheduler.default_mem_per_cpu",
    "defmempernode": "a default memory per node is not supported; use scheduler.default_mem_per_cpu",
    "defmempergpu": "a default memory per GPU is not supported",
    "maxmempercpu": "memory is limited by a QoS with max_tres_per_node",
    "maxmempernode": "memory is limited by a QoS with max_tres_per_node",
    "maxcpuspernode": "CPUs are limited by a QoS with max_tres_per_node",
    "maxcpuspersocket": "CPUs are limited by a QoS with max_tres_per_node",
    "allocnodes": "jobs are submitted through the controller's socket, so there are no submit hosts",
    "hidden": "hidden partitions are not supported",
    "alternate": "moving jobs to another partition is not supported",
    "reqresv": "a partition cannot require a reservation",
    "exclusivetopo": "exclusive switches are not supported",
    "lln": "jobs are packed to avoid fragmentation; least loaded first is not supported",
    "overtimelimit": "jobs always end at their time limit",
    "jobdefaults": "defaults that depend on GPUs are not supported",
    "cpubind": "CPU binding is not supported",
    "disablerootjobs": "root can always submit jobs",
    "suspendtime": "powering nodes down is not supported",
    "suspendtimeout": "powering nodes down is not supported",
    "resumetimeout": "powering nodes down is not supported",
    "powerdownonidle": "powering nodes down is not supported",
    "maxcpuspertask": "CPUs are limited by a QoS with max_tres_per_job",
    "selecttypeparameters": "CPUs are counted in the same way in all partitions",
    "topology": "several topologies are not supported",
}


class _Node(msgspec.Struct):
    """Imported settings of a node."""

    features: tuple[str, ...] = ()
    weight: int | None = None
    switch: str | None = None


class ClusterReader:
    """Reads the lines of all files in order and builds the tables [nodes] and [partitions]."""

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self._nodes: dict[str, _Node] = {}
        self._sets: dict[str, Pairs] = {}
        self._node_defaults: Pairs = {}
        self._partition_defaults: Pairs = {}
        self._partitions: dict[str, Pairs] = {}
        self._prices: dict[str, str] = {}
        self._shards: dict[int, str] = {}
        self.default_partition = ""

    def take(self, line: ConfLine) -> bool:
        """Read a line. Returns whether it describes a node, a node set, a partition or a switch."""
        pairs = dict(line.pairs)
        first = next(iter(pairs), "")
        match first:
            case "nodename":
                self._take_node(pairs.pop("nodename"), pairs, line)
            case "partitionname":
                self._take_partition(pairs.pop("partitionname"), pairs, line)
            case "nodeset":
                self._sets[pairs.pop("nodeset")] = pairs
            case "switchname":
                self._take_switch(pairs, line)
            case "downnodes":
                self._notes.add(
                    f"DownNodes={pairs['downnodes']}", "drain these nodes with `warpdeck node drain`"
                )
            case "frontendname":
                self._notes.add(f"FrontendName={pairs['frontendname']}", "front-end nodes are not supported")
            case _:
                return False
        return True

    def nodes(self) -> dict[str, tables.NodeTable]:
        """Return the tables by hostlist. Nodes with the same settings share a table."""
        groups: dict[tuple[tuple[str, ...], int | None, str | None], list[str]] = {}
        for name, node in self._nodes.items():
            groups.setdefault((node.features, node.weight, node.switch), []).append(name)
        return {
            collapse(names): tables.NodeTable(features=features, weight=weight, switch=switch)
            for (features, weight, switch), names in groups.items()
        }

    def partitions(self) -> dict[str, tables.Partition]:
        """Return the tables by partition name."""
        return {name: self._partition(name, pairs) for name, pairs in self._partitions.items()}

    def billing_weights(self) -> dict[str, float]:
        """Return TRESBillingWeights of the default partition, or else of the first partition that has some."""
        if not self._prices:
            return {}
        chosen = self._prices.get(self.default_partition) or next(iter(self._prices.values()))
        for name, text in self._prices.items():
            if text != chosen:
                self._notes.add(
                    f"TRESBillingWeights of {name}", "billing weights are the same in all partitions"
                )
        return self._notes.attempt("TRESBillingWeights", parse_tres_prices, chosen, {})

    def shards_per_gpu(self) -> int:
        """Return the number of shards per GPU.

        If nodes differ in it, the first number found is used and the others are noted.
        """
        if not self._shards:
            return 0
        chosen, *others = self._shards
        for other in others:
            reason = f"all GPUs have the same number of shards: {chosen}"
            self._notes.add(f"{other} shards per GPU on {self._shards[other]}", reason)
        return chosen

    def _hosts(self, text: str, line: ConfLine) -> list[str]:
        return self._notes.attempt(f"{line.place}: {text}", expand, text, [])

    def _take_node(self, hosts: str, pairs: Pairs, line: ConfLine) -> None:
        if hosts.upper() == "DEFAULT":
            self._node_defaults.update(pairs)
            return
        own = self._node_defaults | pairs
        features = own.get("features", own.get("feature", ""))
        weight = self._notes.attempt(f"{line.place}: Weight", values.whole, own.get("weight", "1"), 1)
        for key in own:
            if key not in MEASURED and key not in ("feature", "features", "weight"):
                self._notes.add(line.spelled.get(key, key), "no equivalent for a node")
        self._take_gres(hosts, own.get("gres", ""), line)
        for name in self._hosts(hosts, line):
            node = self._nodes.setdefault(name, _Node())
            node.features = tuple(word for word in features.split(",") if word)
            node.weight = weight if weight != 1 else None

    def _take_gres(self, hosts: str, gres: str, line: ConfLine) -> None:
        counts: dict[str, int] = {}
        for item in gres.split(","):
            parts = item.partition("(")[0].split(":")
            name = parts[0].lower()
            if not name:
                continue
            number = parts[-1] if parts[-1].isdigit() else "1"
            counts[name] = counts.get(name, 0) + int(number)
            if name not in ("gpu", "shard"):
                self._notes.add(f"Gres={item} of {hosts}", "only GPUs and their shards are supported as GRES")
        if counts.get("shard"):
            each, remainder = divmod(counts["shard"], max(1, counts.get("gpu", 0)))
            if remainder or not counts.get("gpu"):
                self._notes.add(f"{line.place}: shards", "not a whole number per GPU")
            else:
                self._shards.setdefault(each, hosts)

    def _take_switch(self, pairs: Pairs, line: ConfLine) -> None:
        name, hosts = pairs["switchname"], pairs.get("nodes", "")
        if not hosts:
            self._notes.add(f"SwitchName={name}", "only leaf switches are imported")
        for host in self._hosts(hosts, line):
            if host not in self._nodes:
                self._notes.add(f"{host} on switch {name}", "no NodeName line names this node")
            else:
                self._nodes[host].switch = name

    def _take_partition(self, name: str, pairs: Pairs, line: ConfLine) -> None:
        if name.upper() == "DEFAULT":
            self._partition_defaults.update(pairs)
            return
        own = self._partition_defaults | pairs
        for one in name.split(","):
            self._partitions[one] = own
            if values.yes(own.get("default", "")):
                self.default_partition = one
            if own.get("tresbillingweights"):
                self._prices[one] = own["tresbillingweights"]
        for key in own:
            if key in UNSUPPORTED_PARTITION_KEYS:
                self._notes.add(f"{line.spelled.get(key, key)} of {name}", UNSUPPORTED_PARTITION_KEYS[key])
            elif key not in CONVERTED:
                self._notes.add(f"{line.spelled.get(key, key)} of {name}", "unknown key")

    def _partition(self, name: str, pairs: Pairs) -> tables.Partition:
        fields: dict[str, Any] = {}
        for key, (field, read) in CONVERTED.items():
            if key not in pairs or read is None:
                continue
            try:
                fields[field] = read(pairs[key])
            except UserError as error:
                self._notes.add(f"{key} of {name}", f"left out: {error.message}")
        self._drop_contradictions(name, fields)
        nodes = self._members(name, pairs.get("nodes", ""))
        if values.yes(pairs.get("rootonly", "")):
            fields["allow_users"] = ("root",)
        if nodes == ():
            self._notes.add(f"partition {name}", "has no nodes; imported as INACTIVE with all nodes")
            return tables.Partition(**{**fields, "state": "INACTIVE"})
        return tables.Partition(**fields, nodes=nodes)

    def _drop_contradictions(self, name: str, fields: dict[str, Any]) -> None:
        """Drop contradicting limits. slurmctld does the same, logs it and continues."""
        longest, most = fields.get("max_time"), fields.get("max_nodes")
        if longest is not None and (fields.get("default_time") or 0) > longest:
            del fields["default_time"]
            self._notes.add(f"DefaultTime of {name}", "longer than MaxTime; left out, as in Slurm")
        if most is not None and fields.get("min_nodes", 0) > most:
            del fields["min_nodes"]
            self._notes.add(f"MinNodes of {name}", "more than MaxNodes; left out, as no job would ever fit")

    def _members(self, name: str, text: str) -> tuple[str, ...] | None:
        """Return the partition's nodes with node sets expanded, or None for all nodes."""
        found: dict[str, None] = {}
        nothing: list[str] = []
        for word in self._notes.attempt(f"Nodes of {name}", expand, text, nothing):
            if word.upper() == "ALL":
                return None
            found.update(dict.fromkeys(self._set(word) if word in self._sets else [word]))
        return tuple(found)

    def _set(self, name: str) -> list[str]:
        pairs = self._sets[name]
        nothing: list[str] = []
        named = self._notes.attempt(f"NodeSet={name}", expand, pairs.get("nodes", ""), nothing)
        feature = pairs.get("feature")
        return named + [host for host, node in self._nodes.items() if feature and feature in node.features]


def _preempt_mode(text: str) -> str:
    parts = [word for word in text.lower().split(",") if word not in ("gang", "within")]
    mode = parts[0] if parts else ""
    return mode if mode in ("off", "requeue", "suspend", "cancel") else ""


def _state(text: str) -> str:
    word = text.upper()
    if word not in ("UP", "DOWN", "DRAIN", "INACTIVE"):
        raise UserError(f"{text!r} is not a partition state")
    return word


def _positive(text: str) -> int | None:
    return values.count(text) or None


CONVERTED = {
    "nodes": ("nodes", None),
    "default": ("default", None),
    "tresbillingweights": ("", None),
    "rootonly": ("", None),
    "state": ("state", _state),
    "maxtime": ("max_time", values.limit_s),
    "defaulttime": ("default_time", values.limit_s),
    "maxnodes": ("max_nodes", _positive),
    "minnodes": ("min_nodes", values.whole),
    "priority": ("priority_tier", values.whole),
    "prioritytier": ("priority_tier", values.whole),
    "priorityjobfactor": ("priority_job_factor", values.whole),
    "allowgroups": ("allow_groups", values.names),
    "allowaccounts": ("allow_accounts", values.names),
    "denyaccounts": ("deny_accounts", lambda text: values.names(text) or ()),
    "allowqos": ("allow_qos", values.names),
    "denyqos": ("deny_qos", lambda text: values.names(text) or ()),
    "qos": ("qos", lambda text: "" if text.upper() in ("N/A", "NONE") else text),
    "preemptmode": ("preempt_mode", _preempt_mode),
    "gracetime": ("grace_s", values.exact_s),
    "oversubscribe": ("exclusive", lambda text: text.upper().startswith("EXCLUSIVE")),
    "exclusiveuser": ("exclusive_user", values.yes),
    "shared": ("exclusive", lambda text: text.upper().startswith("EXCLUSIVE")),
}
"""For each key of a PartitionName line: the key in config.toml, and the reader of its value.

Keys without a reader are handled separately.
"""
