"""The pane beside the map: the node under the cursor with its jobs and GPUs, and the GPU under the cursor."""

from __future__ import annotations

import time
from collections.abc import Mapping

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow, PastNodeRow
from warpdeck_tui.viewmodels.cells import TITLE_WIDTH, Cell, Line, age, fact, plural, thin_bar
from warpdeck_tui.viewmodels.jobs.queue import ran_s
from warpdeck_tui.widgets.cell_grid import node_role
from warpdeck_tui.widgets.cells import fit, printable, shortened
from warpdeck_tui.widgets.glyphs import CURSOR

from .gpu_map import GIB, is_unmeasured, is_wasted
from .nodes import gpu_holder, process_lines, sharer_lines
from .past_nodes import past_lines

MAX_JOBS = 8
"""Largest number of jobs of a node in its details."""
BAR = 10
STALE_S = 15.0
"""Age in seconds from which on the last readings of a node are said to be old."""
ROOM_FOR_BARS = 52
"""Width from which on the table of GPUs has bars."""
LABEL_WIDTH, USER_WIDTH = 8, 8


def details(
    node: NodeRow,
    index: int,
    *,
    jobs: Mapping[str, JobRow],
    now: float,
    width: int,
    is_low: bool = False,
    is_own: bool = True,
) -> list[Line]:
    """Return the details of a node and, if `index` is that of a GPU, of this GPU. `jobs` has the jobs by label.

    In a low pane, the GPU comes first and the table of all GPUs is left out, because the map shows it.
    """
    about = about_node(node, jobs=jobs, now=now, width=width, is_own=is_own)
    gpu = next((each for each in node.gpus if each.index == index), None)
    chosen = gpu_under_cursor(gpu) if gpu is not None else []
    if is_low:
        return [*chosen, *about]
    return [*about, *_gpu_table(node, index, width), *([()] if chosen else []), *chosen]


def about_node(
    node: NodeRow, *, jobs: Mapping[str, JobRow], now: float, width: int, is_own: bool = True
) -> list[Line]:
    """Return the lines about the node itself: state, CPUs, memory, agent, and jobs with their owners.

    `is_own` tells whether our own agent runs on the node. Over another scheduler its daemon runs there, and the line about
    the scheduler says how old all readings are.
    """
    lines = [*_state(node, now), *_readings(node)]
    if isinstance(node, PastNodeRow):
        lines += past_lines(node, now)
    lines += _agent(node, now, is_own=is_own)
    if not node.gpus and node.gpu_error:
        lines.append(fact("GPUs", printable(node.gpu_error), "warn"))
    return lines + _jobs(node, jobs, now, width)


def _state(node: NodeRow, now: float) -> list[Line]:
    """Return the state, and why and since when the node is closed."""
    role = node_role(node.state)
    lines: list[Line] = [fact("state", node.state, role)]
    if node.reason:
        lines.append(fact("reason", printable(node.reason), "warn"))
    if node.reason_at is not None:
        at = time.strftime("%a %H:%M", time.localtime(node.reason_at))
        by = f" by {printable(node.reason_user)}" if node.reason_user else ""
        lines.append(fact("since", f"{at}, {age(now - node.reason_at)} ago{by}"))
    lines += [
        fact(
            "check", f"{'' if check.gpu is None else f'GPU {check.gpu}: '}{printable(check.message)}", "warn"
        )
        for check in node.health
        if check.message and check.message not in node.reason
    ]
    return lines


def _readings(node: NodeRow) -> list[Line]:
    lines: list[Line] = []
    if node.cpus:
        busy = "" if node.cpu_pct is None else f" {node.cpu_pct:3.0f}%"
        words = f"{busy}  {node.cpus_used}/{node.cpus} allocated"
        lines.append((_title("CPUs"), *thin_bar(node.cpu_pct, BAR), Cell(words)))
    if node.mem_bytes:
        used = node.mem_used_bytes
        percent = None if used is None else 100 * used / node.mem_bytes
        known = "" if percent is None else f" {percent:3.0f}%"
        amount = f"{format_memory(used or 0)} of {format_memory(node.mem_bytes)}"
        words = amount if used is not None else format_memory(node.mem_bytes)
        lines.append((_title("memory"), *thin_bar(percent, BAR), Cell(f"{known}  {words}")))
    return lines


def _agent(node: NodeRow, now: float, *, is_own: bool) -> list[Line]:
    """Return the address of the node, and how long its agent, or the daemon of Slurm, has been running."""
    where = printable(node.target or node.address or node.hostname)
    lines = [fact("address", where)] if where else []
    if node.features:
        lines.append(fact("features", printable(", ".join(node.features))))
    words = [f"driver {printable(node.driver)}"] if node.driver else []
    if node.agent_start is not None:
        words.insert(0, f"{'agent' if is_own else 'slurmd'} runs for {age(now - node.agent_start)}")
    if words:
        lines.append(fact("software", ", ".join(words)))
    is_now = is_own and not isinstance(node, PastNodeRow)
    if is_now and node.at is not None and now - node.at > STALE_S:
        lines.append(fact("readings", f"{age(now - node.at)} old", "warn"))
    return lines


def _jobs(node: NodeRow, jobs: Mapping[str, JobRow], now: float, width: int) -> list[Line]:
    """Return a line for each job on the node: label, owner, GPUs on this node, run time and name."""
    if not node.jobs:
        return []
    name_width = width - LABEL_WIDTH - USER_WIDTH - 17
    owners = {gpu.job: gpu.job_user for gpu in node.gpus if gpu.job}
    lines: list[Line] = [(), (Cell("Jobs", "header"), Cell(f"  {len(node.jobs)}", "muted"))]
    for label in node.jobs[:MAX_JOBS]:
        row, held = jobs.get(label), sum(gpu.job == label for gpu in node.gpus)
        user = row.user if row is not None else owners.get(label, "")
        gpus = plural(held, "GPU") if held else "no GPUs" if node.gpus else ""
        ran = age(ran_s(row, now) or 0) if row is not None else ""
        lines.append(
            (
                Cell(f"{fit(label, LABEL_WIDTH)} ", "accent"),
                Cell(f"{fit(printable(user), USER_WIDTH)} "),
                Cell(f"{gpus:>7} {ran:>5}  ", "muted"),
                Cell(shortened(printable(row.name), max(0, name_width)) if row is not None else ""),
            )
        )
    more = len(node.jobs) - MAX_JOBS
    return [*lines, (Cell(f"and {more} more", "muted"),)] if more > 0 else lines


def _gpu_table(node: NodeRow, index: int, width: int) -> list[Line]:
    """Return a line for each GPU: utilization, memory, power, temperature and owner."""
    if not node.gpus or all(map(is_unmeasured, node.gpus)):
        return []
    power = sum(gpu.power_w or 0 for gpu in node.gpus)
    total = f"  {len(node.gpus)} {printable(node.gpus[0].type or node.gpus[0].name)}, {power:.0f} W"
    lines: list[Line] = [(), (Cell("GPUs", "header"), Cell(total, "muted"))]
    return [*lines, *(_gpu_row(gpu, here=gpu.index == index, width=width) for gpu in node.gpus)]


def _gpu_row(gpu: GpuRow, *, here: bool, width: int) -> Line:
    used = "?" if gpu.mem_used_bytes is None else f"{gpu.mem_used_bytes / GIB:.0f}"
    wasted = is_wasted(gpu)
    util = "?" if gpu.util_pct is None else f"{gpu.util_pct}%"
    temp = "?" if gpu.temp_c is None else f"{gpu.temp_c}°C"
    power = "?" if gpu.power_w is None else f"{gpu.power_w:.0f}W"
    owner = "blocked" if gpu.blocked else f"{gpu.job} {printable(gpu.job_user)}" if gpu.job else "free"
    style = "warn" if gpu.blocked or gpu.error else "" if gpu.job else "muted"
    bar = thin_bar(gpu.util_pct, 8, "warn" if wasted else "accent") if width >= ROOM_FOR_BARS else ()
    sign = Cell(f"{CURSOR if here else ' '}{gpu.index:>2} ", "cursor-sign" if here else "muted")
    if is_unmeasured(gpu):
        width_of_bar = sum(len(cell.text) for cell in bar)
        return (sign, Cell(f"{'no readings':>{width_of_bar + 25}}", "muted"), Cell(f"  {owner}", style))
    return (
        sign,
        *bar,
        Cell(f"{util:>5}", "warn" if wasted else ""),
        Cell(f"{f'{used}/{gpu.mem_bytes / GIB:.0f}G':>8}{power:>6}{temp:>6}"),
        Cell(f"  {owner}", style),
    )


def gpu_under_cursor(gpu: GpuRow) -> list[Line]:
    """Return the holder and the processes of the GPU under the cursor."""
    power = "" if gpu.power_w is None else f"  {gpu.power_w:.0f} W"
    temp = "" if gpu.temp_c is None else f"  {gpu.temp_c} °C"
    readings = "  no readings" if is_unmeasured(gpu) else f"{power}{temp}"
    return [
        (Cell(f"GPU {gpu.index}", "header"), Cell(f"  {printable(gpu.name)}{readings}", "muted")),
        gpu_holder(gpu),
        *sharer_lines(gpu),
        *process_lines(gpu),
    ]


def _title(words: str) -> Cell:
    return Cell(f"{words:>{TITLE_WIDTH}} ", "muted")
