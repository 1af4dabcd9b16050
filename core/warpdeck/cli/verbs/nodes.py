"""`warpdeck node add|ls|show|check|drain|resume|rm`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json, print_note, print_table
from warpdeck.cli.shared.arguments import Arguments, run_sub_verb
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.memory_sizes import format_memory


def main(_: str, words: list[str]) -> int:
    """Run the sub-verb."""
    return run_sub_verb(_parser(), words)


def _parser() -> Arguments:
    parser = Arguments(
        "warpdeck node",
        description="Add, list, check, drain and remove nodes. Nodes are reached over SSH. warpdeck copies its agent "
        "to them; they need only Python 3.9 or newer.",
        examples=(
            "warpdeck node add alice@gpu01:2222 --name gpu01",
            "warpdeck node ls",
            "warpdeck node ls --at 03:12        state and measurements at 03:12",
            "warpdeck node check               run all health checks on all nodes now",
            "warpdeck node drain gpu01 'bad fan'",
            "warpdeck node drain --gpu 3 gpu01 'bad cable'",
        ),
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    add = verbs.add_parser("add", help="add a host over SSH, or this machine as `local`")
    _describe_add(add)
    ls = verbs.add_parser("ls", help="list the nodes")
    ls.set_defaults(run=_ls)
    show = verbs.add_parser("show", help="show a node with its GPUs and their processes")
    show.set_defaults(run=_show)
    check = verbs.add_parser(
        "check", help="run the health checks of a node, or of all nodes; exit code 1 if a check fails"
    )
    check.set_defaults(run=_check)
    check.add_argument("name", metavar="NODE", nargs="?", default="", help="default: all nodes")
    drain = verbs.add_parser("drain", help="start no new jobs on a node or GPU; running jobs keep running")
    drain.set_defaults(run=_drain)
    resume = verbs.add_parser("resume", help="accept jobs again")
    resume.set_defaults(run=_resume)
    remove = verbs.add_parser("rm", help="remove a node")
    remove.set_defaults(run=_remove)
    remove.add_argument(
        "--force",
        action="store_true",
        help="remove the node even if jobs run on it; they end as NODE_FAIL or are requeued",
    )
    for each in (show, drain, resume, remove):
        each.add_argument("name", metavar="NODE")
    drain.add_argument("reason", nargs="?", default="", help="reason, shown to all users")
    for each in (drain, resume):
        each.add_argument(
            "--gpu", type=_indices, default=[], metavar="N,...", help="only these GPUs of the node"
        )
    for each in (ls, show):
        each.add_argument(
            "--at",
            metavar="WHEN",
            help="show a time in the last 24 hours: 03:12 (most recent), now-2hours, 11/20 14:00",
        )
    for each in (add, ls, show, check, drain, resume, remove):
        each.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _describe_add(add: argparse.ArgumentParser) -> None:
    add.add_argument("target", metavar="[USER@]HOST[:PORT]")
    add.add_argument("--name", default="", help="name of the node; default: the host name")
    add.add_argument(
        "--accept-host-key",
        default="",
        metavar="FINGERPRINT",
        help="accept an unknown host key with this fingerprint",
    )
    add.set_defaults(run=_add)


def _add(client: SyncClient, args: argparse.Namespace) -> int:
    fields = {"target": args.target, "name": args.name}
    accepted = args.accept_host_key
    while True:  # a jump host's key comes first, then the target's
        try:
            row = client.create("node_add", progress=print_note, accept_host_key=accepted, **fields)
            break
        except UserError as error:
            if error.code != "host_key":
                raise
            accepted = _ask(error, args.target)
    if args.json:
        print_json(row)
    else:
        gpus = _gpus(row) or "no GPU"
        print(clean(f"added {row['name']}: {row['cpus']} CPUs, {format_memory(row['mem_bytes'])}, {gpus}"))
    return 0


def _ask(error: UserError, target: str) -> str:
    """Show the host key's fingerprint, and return it if the user accepts it."""
    fingerprint = error.details["fingerprint"]
    if not sys.stdin.isatty():
        raise UserError(
            error.message, f"warpdeck node add {target} --accept-host-key {fingerprint}", code="host_key"
        )
    print_note(f"Unknown host key of {error.details['host']}:")
    print_note(f"  {error.details['key_type']}  {fingerprint}")
    try:
        answer = input("Accept this key? Type yes: ")
    except EOFError:
        answer = ""
    if answer.strip() != "yes":
        raise UserError("host key not accepted; nothing was changed", "compare it with the key on the host")
    return fingerprint


def _ls(client: SyncClient, args: argparse.Namespace) -> int:
    if args.at is not None:
        return _ls_then(client, args)
    rows = client.call("nodes")["nodes"]
    if args.json:
        print_json(rows)
        return 0
    head = ["NODE", "STATE", "CPUS", "MEMORY", "GPUS", "JOBS", "REASON"]
    print_table(
        head,
        [
            [
                row["name"],
                row["state"],
                f"{row['cpus_used']}/{row['cpus']}",
                format_memory(row["mem_bytes"]),
                _gpus(row),
                ",".join(row["jobs"][:4]),
                row["reason"],
            ]
            for row in rows
        ],
    )
    return 0


def _ls_then(client: SyncClient, args: argparse.Namespace) -> int:
    from warpdeck.cli.shared import past_nodes as pastnodes  # These imports take three milliseconds.

    rows = pastnodes.ask(client, args.at)
    (print_json if args.json else pastnodes.print_nodes)(rows)
    return 0


def _gpus(row: dict[str, Any]) -> str:
    if not row["gpus"]:
        return ""
    busy = sum(bool(gpu["job"]) for gpu in row["gpus"])
    return f"{busy}/{len(row['gpus'])} {row['gpus'][0]['type']}"


def _show(client: SyncClient, args: argparse.Namespace) -> int:
    measured = ""
    if args.at is None:
        (row,) = client.call("nodes", name=args.name)["nodes"]
    else:
        from warpdeck.cli.shared import past_nodes as pastnodes

        (row,) = pastnodes.ask(client, args.at, args.name)
        measured = pastnodes.measured(row)
    if args.json:
        print_json(row)
        return 0
    used = format_memory(row["mem_used_bytes"]) or "?"
    for name, value in (
        ("node", f"{row['name']} ({row['target']}, {row['hostname']})"),
        ("state", row["state"] + (f": {row['reason']}" if row["reason"] else "")),
        ("CPUs", f"{row['cpus_used']} of {row['cpus']} allocated"),
        ("memory", f"{used} of {format_memory(row['mem_bytes'])} in use"),
        ("kernel", row["kernel"]),
        ("driver", "; ".join(filter(None, (row["driver"], row["gpu_error"]))) or "no NVIDIA driver"),
        ("containment", row["containment"]),
        *(("", f"{each['name']}: {each['strength']} ({each['how']})") for each in row["facilities"]),
        ("health", "; ".join(_ill(check) for check in row["health"])),
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
    return 0


def _gpu_line(gpu: dict[str, Any]) -> str:
    def known(value: Any, unit: str) -> str:
        return "?" if value is None else f"{value:.0f}{unit}"

    mem = f"{format_memory(gpu['mem_used_bytes']) or '?'}/{format_memory(gpu['mem_bytes'])}"
    words = f"{gpu['name']}  {known(gpu['util_pct'], '%')}  {mem}  {known(gpu['power_w'], ' W')}  {known(gpu['temp_c'], ' C')}"
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


def _ill(check: dict[str, Any]) -> str:
    where = "" if check["gpu"] is None else f"GPU {check['gpu']} "
    return f"{where}{check['check']}: {check['message']}"


def _check(client: SyncClient, args: argparse.Namespace) -> int:
    rows = client.call("node_check", name=args.name)["nodes"]
    bad = any(row["error"] or any(check["verdict"] == "fail" for check in row["checks"]) for row in rows)
    if args.json:
        print_json(rows)
        return int(bad)
    lines = []
    for row in rows:
        if row["error"]:
            lines.append([row["name"], "link", "fail", row["error"]])
        for check in row["checks"]:
            name = check["check"] if check["gpu"] is None else f"{check['check']} GPU {check['gpu']}"
            lines.append([row["name"], name, check["verdict"], check["message"]])
    print_table(["NODE", "CHECK", "RESULT", "WHAT"], lines)
    return int(bad)


def _indices(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and len(word) < 5 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of GPU indices such as 0,3")
    return [int(word) for word in words]


def _drain(client: SyncClient, args: argparse.Namespace) -> int:
    return _done(client.call("node_drain", name=args.name, reason=args.reason, gpus=args.gpu), args)


def _resume(client: SyncClient, args: argparse.Namespace) -> int:
    return _done(client.call("node_resume", name=args.name, gpus=args.gpu), args)


def _remove(client: SyncClient, args: argparse.Namespace) -> int:
    return _done(client.call("node_rm", name=args.name, force=args.force), args)


def _done(answer: dict[str, Any], args: argparse.Namespace) -> int:
    if args.json:
        print_json(answer)
    elif answer:
        print(f"{answer['name']}: {answer['state']}")
    return 0
