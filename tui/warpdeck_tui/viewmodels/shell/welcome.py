"""The lines of the welcome page: this machine, the next steps with their keys, and hosts and a Slurm that were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.viewmodels.cells import Cell, Line, known, plural, thin_bar
from warpdeck_tui.widgets.cells import fit, printable, shortened

COLUMN_WIDTH = 62
"""Width of a column of the page. Wider terminals show two columns."""
GAP = 6
MOST_GPUS = 16
MOST_HOSTS = 8
"""Largest numbers of GPUs of a node and of hosts that are listed. The rest is counted."""
BAR_WIDTH = 8
INDENT = "  "


class Step(NamedTuple):
    """A next step: the id of its action, its title, and one line about it."""

    action: str
    title: str
    about: str


STEPS = (
    Step("new_job", "Submit a job", "a script or a command, in a form"),
    Step("shell", "Open a shell", "on a GPU if there is one"),
    Step("add", "Add a node", "another machine, over SSH"),
    Step("demo", "Look at a demo", "a simulated cluster of 64 GPUs"),
)


COMMANDS = (
    ("warpdeck submit train.sh", "submit a script"),
    ("warpdeck run python train.py", "run a command and wait"),
    ("warpdeck logs -f 1", "follow the output of job 1"),
    ('eval "$(warpdeck shims)"', "sbatch, squeue and srun"),
)
"""Commands that do the same in a shell. They are shown if there is room for them."""


class WelcomeFacts(NamedTuple):
    """The content of the page. `keys` maps the actions of the steps and "close" to their keys."""

    nodes: Sequence[NodeRow]
    hosts: Sequence[str]
    has_slurm: bool
    keys: Mapping[str, str]


def welcome_lines(facts: WelcomeFacts, width: int, height: int) -> list[Line]:
    """Return the page in the middle of this space."""
    room = min(width, COLUMN_WIDTH)
    is_wide = width >= 2 * COLUMN_WIDTH + GAP
    steps, machine, found = _steps(facts), _machine(facts, room), _found(facts, room)
    head = _head(facts)
    if is_wide:
        room = 2 * COLUMN_WIDTH + GAP
        body = _beside([*steps, (), *_commands()], [*machine, (), *found])
    else:
        body = [*steps, (), *machine, (), *found]
        commands = [*_commands(), ()]
        if len(head) + len(body) + len(commands) < height:
            body = [*steps, (), *commands, *machine, (), *found]
    lines = [*head, (Cell("─" * room, "track"),), (), *body]
    while lines and not lines[-1]:
        lines.pop()
    left_blanks = Cell(" " * max(0, (width - room) // 2))
    above: list[Line] = [()] * max(0, (height - len(lines)) // 3)
    return [*above, *((left_blanks, *line) if line else () for line in lines)]


def _head(facts: WelcomeFacts) -> list[Line]:
    close = facts.keys.get("close", "")
    return [
        (Cell("Welcome to warpdeck", "title"),),
        (
            Cell("No jobs. Press ", "muted"),
            Cell(facts.keys.get("new_job", ""), "key"),
            Cell(" to submit one. ", "muted"),
        )
        + ((Cell(close, "key"), Cell(" closes this page for good.", "muted")) if close else ()),
    ]


def _steps(facts: WelcomeFacts) -> list[Line]:
    lines: list[Line] = [(Cell("Next steps", "header"),)]
    for step in STEPS:
        key = facts.keys.get(step.action, "")
        lines.append((Cell(f"{INDENT}{key:<3}", "key"), Cell(f"{step.title:<16}"), Cell(step.about, "muted")))
    return lines


def _commands() -> list[Line]:
    lines: list[Line] = [(Cell("In a shell", "header"),)]
    return lines + [(Cell(f"{INDENT}{command:<33}"), Cell(about, "muted")) for command, about in COMMANDS]


def _machine(facts: WelcomeFacts, room: int) -> list[Line]:
    if not facts.nodes:
        return [
            (Cell("Nodes", "header"),),
            (Cell(f"{INDENT}None yet. The server adds this machine in a moment", "muted"),),
        ]
    title = "This machine" if len(facts.nodes) == 1 else plural(len(facts.nodes), "node")
    lines: list[Line] = [(Cell(title, "header"),)]
    for node in facts.nodes:
        lines += _node(node, room)
    return lines


def _node(node: NodeRow, room: int) -> list[Line]:
    name = shortened(printable(node.hostname or node.name), 20)
    if not node.cpus:
        return [
            (Cell(f"{INDENT}{name}", "accent"), Cell(f"  {printable(node.reason) or node.state}", "muted"))
        ]
    use = "" if node.cpu_pct is None else f", {node.cpu_pct:.0f}% busy"
    used = "" if node.mem_used_bytes is None else f", {format_memory(node.mem_used_bytes)} used"
    lines: list[Line] = [
        (
            Cell(f"{INDENT}{name}", "accent"),
            Cell(f"  {plural(node.cpus, 'CPU')}{use}   {format_memory(node.mem_bytes)} memory{used}"),
        )
    ]
    lines += [_gpu(gpu, room) for gpu in node.gpus[:MOST_GPUS]]
    if len(node.gpus) > MOST_GPUS:
        lines.append((Cell(f"{INDENT}{len(node.gpus) - MOST_GPUS} more GPUs", "muted"),))
    if not node.gpus:
        why = f": {printable(node.gpu_error)}" if node.gpu_error else ". Jobs use its CPUs"
        lines.append((Cell(shortened(f"{INDENT}no GPU{why}", room), "muted"),))
    return lines


def _gpu(gpu: GpuRow, room: int) -> Line:
    used = "?" if gpu.mem_used_bytes is None else f"{gpu.mem_used_bytes / (1 << 30):.0f}"
    numbers = f" {known(gpu.util_pct, '%'):>4}  {used:>3}/{gpu.mem_bytes / (1 << 30):.0f}G  {known(gpu.temp_c, '°C')}"
    name_room = room - len(INDENT) - 4 - BAR_WIDTH - cell_len(numbers)
    bar = thin_bar(gpu.util_pct, BAR_WIDTH)
    return (
        Cell(f"{INDENT}{gpu.index:>2} ", "muted"),
        Cell(fit(printable(gpu.name), max(4, name_room)) + " "),
        *bar,
        Cell(numbers),
    )


def _found(facts: WelcomeFacts, room: int) -> list[Line]:
    lines: list[Line] = []
    if facts.hosts:
        shown = ", ".join(printable(host) for host in facts.hosts[:MOST_HOSTS])
        more = len(facts.hosts) - MOST_HOSTS
        shown += f" and {more} more" if more > 0 else ""
        lines += [
            (
                Cell(f"{INDENT}{plural(len(facts.hosts), 'host')}", "accent"),
                Cell(" in ~/.ssh/config that can become nodes:", "muted"),
            ),
            (Cell(shortened(f"{INDENT}{shown}", room)),),
        ]
    if facts.has_slurm:
        lines += [
            (
                Cell(f"{INDENT}Slurm", "accent"),
                Cell(". To open this app on its jobs and nodes, quit and run", "muted"),
            ),
            (Cell(f"{INDENT}warpdeck --engine slurm", "key"),),
        ]
    return [(Cell("Found", "header"),), *lines] if lines else []


def _beside(left: Sequence[Line], right: Sequence[Line]) -> list[Line]:
    lines: list[Line] = []
    for at in range(max(len(left), len(right))):
        first = left[at] if at < len(left) else ()
        second = right[at] if at < len(right) else ()
        width = sum(cell_len(cell.text) for cell in first)
        lines.append((*first, Cell(" " * max(1, COLUMN_WIDTH + GAP - width)), *second) if second else first)
    return lines
