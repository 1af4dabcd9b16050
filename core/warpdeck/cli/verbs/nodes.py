"""The verb `warpdeck node` with its sub-verbs add, ls, show, check, drain, resume and rm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdeck.base.output import clean, print_note, print_table
from warpdeck.cli.arguments import JSON, Argument, InvalidValue
from warpdeck.cli.shared.host_key import with_host_key
from warpdeck.cli.shared.row_tables import print_rows
from warpdeck.cli.verb import Verb, request
from warpdeck.notation.values.memory_sizes import format_memory

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.cli.shared.row_tables import Columns
    from warpdeck.client.blocking_client import SyncClient


def _add(client: SyncClient, args: Namespace) -> dict[str, Any]:
    def ask(accepted: str) -> dict[str, Any]:
        fields = {"target": args.target, "name": args.name, "accept_host_key": accepted}
        return client.create("node_add", progress=print_note, **fields)

    return with_host_key(ask, args.accept_host_key, command=f"warpdeck node add {args.target}")


def _print_added(row: dict[str, Any], _: Namespace) -> None:
    gpus = _gpus(row) or "no GPU"
    print(clean(f"added {row['name']}: {row['cpus']} CPUs, {format_memory(row['mem_bytes'])}, {gpus}"))


def _ls(client: SyncClient, args: Namespace) -> Any:
    return client.call("nodes")["nodes"] if args.at is None else _past(client, args.at)


def _past(client: SyncClient, at: str, name: str = "") -> list[dict[str, Any]]:
    from warpdeck.cli.shared import past_nodes  # this import takes three milliseconds

    return past_nodes.request_nodes(client, at, name)


def _print_list(rows: list[dict[str, Any]], args: Namespace) -> None:
    if args.at is not None:
        from warpdeck.cli.shared import past_nodes

        past_nodes.print_nodes(rows)
        return
    print_rows(rows, COLUMNS)


def _gpus(row: dict[str, Any]) -> str:
    if not row["gpus"]:
        return ""
    busy = sum(bool(gpu["job"]) for gpu in row["gpus"])
    return f"{busy}/{len(row['gpus'])} {row['gpus'][0]['type']}"


COLUMNS: Columns = {
    "NODE": lambda row: row["name"],
    "STATE": lambda row: row["state"],
    "CPUS": lambda row: f"{row['cpus_used']}/{row['cpus']}",
    "MEMORY": lambda row: format_memory(row["mem_bytes"]),
    "GPUS": _gpus,
    "JOBS": lambda row: ",".join(row["jobs"][:4]),
    "REASON": lambda row: row["reason"],
}


def _show(client: SyncClient, args: Namespace) -> Any:
    found = (
        client.call("nodes", name=args.name)["nodes"]
        if args.at is None
        else _past(client, args.at, args.name)
    )
    return found[0]


def _print_node(row: dict[str, Any], args: Namespace) -> None:
    measured = ""
    if args.at is not None:
        from warpdeck.cli.shared import past_nodes

        measured = past_nodes.measured(row)
    used = format_memory(row["mem_used_bytes"]) or "?"
    no_driver = "no NVIDIA driver" if row["target"] else ""  # Slurm does not tell the driver.
    for name, value in (
        ("node", f"{row['name']} ({', '.join(filter(None, (row['target'], row['hostname'])))})"),
        ("state", row["state"] + (f": {row['reason']}" if row["reason"] else "")),
        ("CPUs", f"{row['cpus_used']} of {row['cpus']} allocated"),
        ("memory", f"{used} of {format_memory(row['mem_bytes'])} in use"),
        ("kernel", row["kernel"]),
        ("driver", "; ".join(filter(None, (row["driver"], row["gpu_error"]))) or no_driver),
        ("containment", row["containment"]),
        *(("", f"{each['name']}: {each['strength']} ({each['how']})") for each in row["facilities"]),
        ("health", "; ".join(_failed_check(check) for check in row["health"])),
        ("containers", ", ".join(row["containers"])),
        ("jobs", ", ".join(row["jobs"])),
        ("measured", measured),
    ):
        if value:
            print(f"{name:>12}  {clean(value)}")
    for gpu in row["gpus"]:
        print(f"{'GPU ' + str(gpu['index']):>12}  {clean(_gpu_line(gpu))}")
        for line in _link_lines(gpu["links"]):
            print(f"{'':>16}{line}")
        for process in gpu["processes"]:
            whose = f"job {process['job']}" if process["job"] else "not part of a job"
            mem = format_memory(process["mem_bytes"])
            who = (
                str(process["pid"] or ""),
                process["command"],
                process["user"] or "unknown user",
                mem,
            )
            print(f"{'':>16}{clean(' '.join(filter(None, who)))}  {whose}")


def _gpu_line(gpu: dict[str, Any]) -> str:
    def known(value: Any, unit: str) -> str:
        return "?" if value is None else f"{value:.0f}{unit}"

    words: str = gpu["name"]
    if gpu["mem_bytes"] or gpu["util_pct"] is not None:
        mem = f"{format_memory(gpu['mem_used_bytes']) or '?'}/{format_memory(gpu['mem_bytes'])}"
        words += f"  {known(gpu['util_pct'], '%')}  {mem}  {known(gpu['power_w'], ' W')}  {known(gpu['temp_c'], ' C')}"
    owner = f"  job {gpu['job']} ({gpu['job_user']})" if gpu["job"] else ""
    if gpu["sharers"]:
        parts = ", ".join(f"job {each['job']} ({each['share_pct']} %)" for each in gpu["sharers"])
        owner = f"  shared by {parts}, {isolated(gpu['isolation'])}"
    return words + owner + (f"  blocked: {gpu['blocked']}" if gpu["blocked"] else "")


def _link_lines(links: dict[str, Any]) -> list[str]:
    """Return lines such as "PCIe 5.0 x16, 1.2 GB/s out, 0.3 GB/s in".

    A line contains the present link, its maximum where that is higher, and the traffic.
    """
    found = []
    if links["pcie_gen"] and links["pcie_width"]:
        now, most = ((links["pcie_gen" + end], links["pcie_width" + end]) for end in ("", "_max"))
        better = f" (up to {most[0]}.0 x{most[1]})" if all(most) and most != now else ""
        found.append(f"PCIe {now[0]}.0 x{now[1]}{better}{_traffic(links, 'pcie')}")
    if links["nvlinks"]:
        found.append(f"NVLink {links['nvlinks_up']} of {links['nvlinks']} up{_traffic(links, 'nvlink')}")
    return found


def _traffic(links: dict[str, Any], kind: str) -> str:
    ways = ((links[f"{kind}_tx_bytes_s"], "out"), (links[f"{kind}_rx_bytes_s"], "in"))
    return "".join(f", {rate / 1e9:.1f} GB/s {way}" for rate, way in ways if rate is not None)


def isolated(isolation: str) -> str:
    """Return whether, and how, the jobs that share a GPU are isolated from each other."""
    return f"isolated by {isolation.upper()}" if isolation else "not isolated"


def _failed_check(check: dict[str, Any]) -> str:
    where = "" if check["gpu"] is None else f"GPU {check['gpu']} "
    return f"{where}{check['check']}: {check['message']}"


def _has_failed(rows: list[dict[str, Any]]) -> bool:
    """Return whether a check failed, or a node could not be asked."""
    return any(row["error"] or any(check["verdict"] == "fail" for check in row["checks"]) for row in rows)


def _print_checks(rows: list[dict[str, Any]], _: Namespace) -> None:
    lines = []
    for row in rows:
        if row["error"]:
            lines.append([row["name"], "link", "fail", row["error"]])
        for check in row["checks"]:
            name = check["check"] if check["gpu"] is None else f"{check['check']} GPU {check['gpu']}"
            lines.append([row["name"], name, check["verdict"], check["message"]])
    print_table(["NODE", "CHECK", "RESULT", "DETAILS"], lines)


def _indices(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and len(word) < 5 for word in words):
        raise InvalidValue(f"{text!r} is not a list of GPU indices such as 0,3")
    return [int(word) for word in words]


def _print_state(answer: dict[str, Any], _: Namespace) -> None:
    if answer:
        print(f"{answer['name']}: {answer['state']}")


NODE = Argument("NODE", "name of the node", into="name")
GPU = Argument("--gpu N,...", "only these GPUs of the node, such as 0,3", parse=_indices, default=[])
AT = Argument(
    "--at WHEN",
    "show a past time, up to 24 hours ago: 03:12 (most recent), now-2hours, 11/20 14:00",
    parse=str,
)
SUBVERBS = (
    Verb(
        "add", summary="add a host over SSH, or this machine as `local`",
        arguments=(
            Argument("[USER@]HOST[:PORT]", "address for SSH, or `local` for this machine", into="target"),
            Argument("--name NAME", "name of the node; default: the host name"),
            Argument("--accept-host-key FINGERPRINT", "accept an unknown host key with this fingerprint"),
            JSON,
        ),
        examples=("warpdeck node add gpu01", "warpdeck node add alice@gpu01:2222 --name gpu01", "warpdeck node add local"),
        reads=False, ask=_add, waits="", show=_print_added,
    ),
    Verb(
        "ls", summary="list the nodes",
        arguments=(AT, JSON),
        examples=("warpdeck node ls", "warpdeck node ls --at 03:12"),
        ask=_ls, show=_print_list,
    ),
    Verb(
        "show", summary="show a node with its GPUs and their processes",
        arguments=(NODE, AT, JSON),
        examples=("warpdeck node show gpu01", "warpdeck node show gpu01 --at now-2hours"),
        ask=_show, show=_print_node,
    ),
    Verb(
        "check", summary="run the health checks of a node, or of all nodes; exit code 1 if a check fails",
        arguments=(Argument("[NODE]", "name of the node; default: all nodes", into="name"), JSON),
        examples=("warpdeck node check", "warpdeck node check gpu01"),
        ask=lambda client, args: client.call("node_check", name=args.name)["nodes"], waits="running the health checks ...",
        show=_print_checks, failed=_has_failed,
    ),
    Verb(
        "drain", summary="start no new jobs on a node or GPU; running jobs keep running",
        arguments=(NODE, Argument("[REASON]", "reason, which all users see"), GPU, JSON),
        examples=("warpdeck node drain gpu01 'bad fan'", "warpdeck node drain --gpu 3 gpu01 'bad cable'"),
        reads=False, ask=request("node_drain", name="name", reason="reason", gpus="gpu"), show=_print_state,
    ),
    Verb(
        "resume", summary="let a drained node or GPU accept jobs again",
        arguments=(NODE, GPU, JSON),
        examples=("warpdeck node resume gpu01", "warpdeck node resume --gpu 3 gpu01"),
        reads=False, ask=request("node_resume", name="name", gpus="gpu"), show=_print_state,
    ),
    Verb(
        "rm", summary="remove a node",
        arguments=(
            Argument("--force", "remove the node even if jobs run on it; they end as NODE_FAIL or are requeued"),
            NODE,
            JSON,
        ),
        examples=("warpdeck node rm gpu01", "warpdeck node rm --force gpu01"),
        reads=False, ask=request("node_rm", name="name", force="force"), show=_print_state,
    ),
)  # fmt: skip
VERBS = (
    Verb(
        "node",
        "Add, list, check, drain and remove nodes. Nodes are reached over SSH. warpdeck copies its agent to them.\n"
        "They need only Python 3.9 or newer.",
        examples=(
            "warpdeck node add alice@gpu01:2222 --name gpu01",
            "warpdeck node ls",
            "warpdeck node ls --at 03:12        state and measurements at 03:12",
            "warpdeck node check               run all health checks on all nodes now",
            "warpdeck node drain gpu01 'bad fan'",
            "warpdeck node drain --gpu 3 gpu01 'bad cable'",
        ),
        subverbs=SUBVERBS,
    ),
)  # fmt: skip
