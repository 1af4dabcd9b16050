"""sdiag: prints statistics of the controller's work and its run times, in the layout of sdiag(1).

Our single planner does the work of both Slurm schedulers (main and backfill), so both blocks show its passes.
Figures that do not exist here, such as agent threads and the database queue, are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import uid_of
from warpdeck.client.blocking_client import GONE
from warpdeck.slurm.console.command_options import check_cluster, handle_help, options, read_anywhere
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.format.timestamps import ctime

OPTIONS = options(
    "sdiag",
    "all,a cluster=,M help,h reset,r sort-by-id,i sort-by-time,t sort-by-time2,T usage json? yaml? version,V",
    newer="no-trunc",
)
USAGE = "Usage: sdiag [-aihrtTV] [--json | --yaml]"
HELP = """\
Shows statistics of the controller since its start or since the last --reset.
  -r, --reset          set all figures to 0 (administrators only)
  -i, --sort-by-id     sort requests by name;  -t, --sort-by-time  by total time;  -T, --sort-by-time2  by mean time
      --json, --yaml   print the figures for programs"""
RULE = "*" * 55
MICROSECONDS = 1_000_000
NAME_WIDTH, USER_WIDTH = 40, 16
MINUTE_S = 60.0
DENIED_EXIT = 255


def main(words: list[str], console: Console) -> int:
    """Print the statistics, or reset them."""
    found, _ = read_anywhere(words, OPTIONS)
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    asked = dict(found)
    check_cluster("sdiag", asked.get("cluster", console.env.get("SLURM_CLUSTERS")))
    with console.controller.connect() as client:
        orders = [name for name, _ in found if name in ("all", "reset")]
        if orders[-1:] == ["reset"]:
            return _reset(client, console)
        figures = client.call("diagnosis")
    if asked.keys() & {"json", "yaml"}:
        from warpdeck.slurm.data_parser.output import print_document, requested

        output = requested("sdiag", asked)
        assert output is not None
        things = {"statistics": _object(figures)}
        print_document(console, output, things, command=["sdiag", "--json"], updated=False)
    else:
        console.print_lines(_lines(figures, asked))
    return 0


def _reset(client: Any, console: Console) -> int:
    try:
        client.call("diagnosis", reset=True)
    except UserError as error:
        if error.code == GONE:
            raise
        print("slurm_reset_statistics: Access/permission denied", file=console.streams.err)
        return DENIED_EXIT
    print("Reset scheduling statistics", file=console.streams.out)
    return 0


def _lines(figures: Mapping[str, Any], asked: Mapping[str, str]) -> Iterator[str]:
    now, since, jobs = figures["now"], figures["since"], figures["jobs"]
    yield RULE
    yield f"sdiag output at {moment_text(now)}"
    yield f"Data since      {moment_text(since)}"
    yield RULE
    yield "Server thread count:  1"
    yield "Agent queue size:     0"
    yield "Agent count:          0"
    yield "Agent thread count:   0"
    yield "DBD Agent queue size: 0"
    yield ""
    yield f"Jobs submitted: {jobs['submitted']}"
    yield f"Jobs started:   {jobs['started']}"
    yield f"Jobs completed: {jobs['completed']}"
    yield f"Jobs canceled:  {jobs['canceled']}"
    yield f"Jobs failed:    {jobs['failed']}"
    yield ""
    yield f"Job states ts:  {moment_text(now)}"
    yield f"Jobs pending:   {figures['waiting']}"
    yield f"Jobs running:   {figures['running']}"
    yield ""
    yield from _main_block(figures)
    yield ""
    yield from _backfill_block(figures)
    yield ""
    yield "Latency for 1000 calls to gettimeofday(): 0 microseconds"
    yield ""
    yield from request_lines(figures, asked)
    yield ""
    yield "Pending RPC statistics"
    yield "\tNo pending RPCs"


def request_lines(figures: Mapping[str, Any], asked: Mapping[str, str]) -> Iterator[str]:
    """Yield the request statistics by message type and by user.

    Each line has the count, and the mean and total time in microseconds.
    """
    yield "Remote Procedure Call statistics by message type"
    yield from (
        f"\t{name.upper():<{NAME_WIDTH}}( {number:4d}) {_span(span)}"
        for number, (name, span) in enumerate(_sorted(figures["requests"], asked), 1)
    )
    yield ""
    yield "Remote Procedure Call statistics by user"
    yield from (
        f"\t{name:<{USER_WIDTH}}( {uid_of(name) or 0:7d}) {_span(span)}"
        for name, span in _sorted(figures["users"], asked)
    )


def _main_block(figures: Mapping[str, Any]) -> Iterator[str]:
    passes, minutes = figures["passes"], (figures["now"] - figures["since"]) / MINUTE_S
    yield "Main schedule statistics (microseconds):"
    yield f"\tLast cycle:   {_us(passes['last_s'])}"
    yield f"\tMax cycle:    {_us(passes['most_s'])}"
    yield f"\tTotal cycles: {passes['count']}"
    if passes["count"]:
        yield f"\tMean cycle:   {_mean_us(passes)}"
        yield f"\tMean depth cycle:  {figures['looked_at'] // passes['count']}"
    if passes["count"] and minutes > 1:
        yield f"\tCycles per minute: {int(passes['count'] / minutes)}"
    yield f"\tLast queue length: {figures['last_queue']}"


def _backfill_block(figures: Mapping[str, Any]) -> Iterator[str]:
    passes = figures["passes"]
    yield "Backfilling stats"
    yield f"\tTotal backfilled jobs (since last slurm start): {figures['jobs']['started']}"
    yield f"\tTotal backfilled jobs (since last stats cycle start): {figures['jobs']['started']}"
    yield "\tTotal backfilled heterogeneous job components: 0"
    yield f"\tTotal cycles: {passes['count']}"
    yield f"\tLast cycle when: {moment_text(figures['last_pass']) if figures['last_pass'] else 'N/A'}"
    yield f"\tLast cycle: {_us(passes['last_s'])}"
    yield f"\tMax cycle:  {_us(passes['most_s'])}"
    if passes["count"]:
        depth = figures["looked_at"] // passes["count"]
        yield f"\tMean cycle: {_mean_us(passes)}"
        yield f"\tLast depth cycle: {figures['last_queue']}"
        yield f"\tLast depth cycle (try sched): {figures['last_queue']}"
        yield f"\tDepth Mean: {depth}"
        yield f"\tDepth Mean (try depth): {depth}"
        yield f"\tLast queue length: {figures['last_queue']}"
        yield f"\tQueue length mean: {depth}"
    yield "\tLast table size: 0"
    yield "\tMean table size: 0"


def _object(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistics with the names of Slurm's data_parser."""
    passes, jobs = figures["passes"], figures["jobs"]
    cycles = {
        "cycle_counter": passes["count"],
        "cycle_last": _us(passes["last_s"]),
        "cycle_max": _us(passes["most_s"]),
        "cycle_sum": _us(passes["total_s"]),
        "depth_sum": figures["looked_at"],
        "last_queue_length": figures["last_queue"],
    }
    return {
        "req_time": int(figures["now"]),
        "req_time_start": int(figures["since"]),
        "job_states_ts": int(figures["now"]),
        **{f"jobs_{name}": count for name, count in jobs.items()},
        "jobs_pending": figures["waiting"],
        "jobs_running": figures["running"],
        **{f"schedule_{name}": value for name, value in cycles.items()},
        **{f"bf_{name}": value for name, value in cycles.items()},
        "rpcs_by_message_type": _spans(figures["requests"], "message_type"),
        "rpcs_by_user": _spans(figures["users"], "user"),
    }


def _spans(spans: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [
        {
            key: name,
            "count": span["count"],
            "average_time": _mean_us(span),
            "total_time": _us(span["total_s"]),
        }
        for name, span in spans.items()
    ]


def _sorted(spans: Mapping[str, Any], asked: Mapping[str, str]) -> list[tuple[str, Any]]:
    """Sort by count, or by the order that an option requests, the largest first.

    `--sort-by-id` sorts by name, ascending.
    """
    if "sort-by-id" in asked:
        return sorted(spans.items())
    if "sort-by-time" in asked:
        return sorted(spans.items(), key=lambda entry: (-entry[1]["total_s"], entry[0]))
    if "sort-by-time2" in asked:
        return sorted(spans.items(), key=lambda entry: (-_mean_us(entry[1]), entry[0]))
    return sorted(spans.items(), key=lambda entry: (-entry[1]["count"], entry[0]))


def _span(span: Mapping[str, Any]) -> str:
    return f"count:{span['count']:<6d} ave_time:{_mean_us(span):<6d} total_time:{_us(span['total_s'])}"


def _mean_us(span: Mapping[str, Any]) -> int:
    return _us(span["total_s"]) // span["count"] if span["count"] else 0


def _us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


def moment_text(at_unix: float) -> str:
    """Format a time as a date followed by Unix seconds."""
    return f"{ctime(at_unix)} ({int(at_unix)})"
