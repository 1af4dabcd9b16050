"""The lines beside the log on a wide screen: the GPUs of the job, and its most important facts."""

from __future__ import annotations

from warpdeck.protocol.job_rows import GpuUse, JobDetail
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck.protocol.usage_text import origin
from warpdeck_tui.viewmodels.cells import Cell, Line, fact, known, thin_bar
from warpdeck_tui.viewmodels.jobs.job import asked, code_head
from warpdeck_tui.widgets.cells import fit, printable

from .details import reasons, usage
from .gpus import NAME_WIDTH, has_reading, held, no_gpus, no_readings

BAR_WIDTH = 10
MAX_GPUS = 8
"""Largest number of GPUs that are shown, so that the facts below them stay visible."""


def side(detail: JobDetail, *, now: float, forecast: ForecastRow | None = None) -> list[Line]:
    """Return the lines: first the GPUs, then the facts."""
    row = detail.row
    lines: list[Line] = []
    if detail.gpus and (row.end is None or any(map(has_reading, detail.gpus))):
        lines += [*gpu_lines(detail), ()]
    lines += reasons(detail, now, forecast)
    lines += usage(row, now) if row.end is not None else []
    texts = (
        ("sweep", row.sweep),
        ("requested", asked(row)),
        ("user", row.user),
        ("nodes", row.node_list),
        ("work dir", detail.work_dir),
        ("stdout", detail.stdout),
    )
    lines += [fact(title, printable(text)) for title, text in texts if text]
    return [*lines, *(code_head(detail.snapshot) if detail.snapshot else ())]


def gpu_lines(detail: JobDetail) -> list[Line]:
    """Return a line for each GPU of the job, with its utilization and memory."""
    if not detail.gpus:
        return [(Cell(no_gpus(detail.row), "muted"),)]
    lines = [_gpu(gpu, detail) for gpu in detail.gpus[:MAX_GPUS]]
    more = len(detail.gpus) - MAX_GPUS
    return [*lines, *([(Cell(f"{more} more; p shows all", "muted"),)] if more > 0 else [])]


def _gpu(gpu: GpuUse, detail: JobDetail) -> Line:
    if not has_reading(gpu):
        return (Cell(fit(gpu.name, NAME_WIDTH) + " ", "accent"), Cell(no_readings(detail), "muted"))
    return (
        Cell(fit(gpu.name, NAME_WIDTH) + " ", "accent"),
        *thin_bar(gpu.util_pct, BAR_WIDTH),
        Cell(f"{known(gpu.util_pct, '%'):>5}"),
        Cell(f"{held(gpu):>10}"),
        Cell(origin(gpu.source), "muted"),
    )
