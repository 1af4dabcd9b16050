"""The page of a job: its live log, metrics, details, GPUs, code and events in panes.

It looks the same for ended jobs.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import ClassVar

from textual import events as textual_events
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck_tui.screens.shared.code_pane import CodePane
from warpdeck_tui.screens.shared.deck_screen import Folded, paint
from warpdeck_tui.screens.shared.details_pane import DetailsPane
from warpdeck_tui.screens.shared.dialogs import Choose
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.jobs.gpu_sources import gpu_sources
from warpdeck_tui.screens.shared.jobs.job_compare import ComparingScreen
from warpdeck_tui.screens.shared.jobs.job_log import JobLog
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.tab_line import TabLine
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels import Line
from warpdeck_tui.viewmodels.cells import height
from warpdeck_tui.viewmodels.job_page.details import Group, Groups, groups
from warpdeck_tui.viewmodels.job_page.events import events
from warpdeck_tui.viewmodels.job_page.gpus import Sources, gpu_page
from warpdeck_tui.viewmodels.job_page.side import side
from warpdeck_tui.viewmodels.jobs import job as view
from warpdeck_tui.viewmodels.jobs.environment import environment_lines
from warpdeck_tui.viewmodels.jobs.postmortem import TAIL_BYTES, UNSUSPECTED, PostMortem, post_mortem
from warpdeck_tui.widgets.line_view import LineView
from warpdeck_tui.widgets.log.view import LogView
from warpdeck_tui.widgets.scrolled_lines import ScrolledLines

from .metrics import MetricsPane

LOOK_S = 2.0
"""Seconds between two requests for the details of an unfinished job."""
CURVES_S = 20.0
"""Least number of seconds between two requests for the curves of a job's GPUs."""
FORECAST_S = 30.0
"""Seconds between two requests for the forecast of a waiting job. A forecast costs the controller as much as
a scheduling pass.
"""
ON_METRICS = ("next_metric", "turn_axis", "smooth", "lay_over", "take_away")
"""Actions that apply only while the metrics are visible."""
WIDE_COLUMNS = 120
"""Least width in columns at which the metrics and the most important facts are shown beside the log."""


class JobScreen(ComparingScreen):
    """The page of one job, given by its own id."""

    place = "job"
    BINDINGS: ClassVar[list[BindingType]] = bindings("job")

    def __init__(self, key: str, *, pane: str = "", channel: str = "out", others: Sequence[str] = ()) -> None:
        """Create the page of the job `key`. `others` are the jobs with which its metrics are compared.

        `pane` is the pane to open. By default it is the log (`channel` selects which). For a waiting or a failed
        job it is the details, because they begin with the reason.
        """
        super().__init__()
        self.key = key
        self._pane = pane
        self._channel = channel
        self._others = others
        self._detail: JobDetail | None = None
        self._forecast: ForecastRow | None = None
        self._variables: dict[str, str] | None = None
        """The environment of the job. It is requested only for the user's own job, when the details are first
        shown.
        """
        self._ended: PostMortem | None = None
        self._told = ""
        self._following = False
        self._shows_metrics = False
        self._side: tuple[list[Line], int] = [], 0
        """The lines beside the log, and the identity of the palette, as they were last painted."""
        self._gpu_data = Sources({})
        self._gpus_at = -math.inf

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Frame(is_main=True):
            yield Static("", id="status", markup=False)
            yield TabLine()
            with Container(id="split"):
                yield JobLog(self.key, id="log", channel=self._channel, changed=self.draw)
                with Vertical(id="beside"):
                    yield MetricsPane(self.key, id="metrics", changed=self._arrange)
                    yield Static("", id="side", markup=False)
                yield DetailsPane(id="details")
                yield ScrolledLines(self.deck.palette, id="gpus")
                yield CodePane(id="code")
                yield ScrolledLines(self.deck.palette, id="events")
        yield KeyLine()

    def arrive(self) -> None:
        self.every(1.0, self.draw)
        self.every(LOOK_S, self._look_again)
        self.every(FORECAST_S, self.look_ahead)
        self._show_pane(self._pane or ("details" if self._needs_explanation else "log"))
        self.look()
        self.look_ahead()
        for other in self._others:
            self.query_one(MetricsPane).lay_over(other)
        self._follow_unless_folded()

    @property
    def job_keys(self) -> list[str]:
        return [self.key]

    @property
    def row(self) -> JobRow | None:
        """The job's row in the client state or, if it is not there, the row that came with the details."""
        return self.deck.board.job(self.key) or (self._detail.row if self._detail else None)

    @property
    def detail(self) -> JobDetail | None:
        return self._detail

    @property
    def _is_folded(self) -> bool:
        """Whether this row represents the waiting tasks of an array.

        It has no log, and becomes the array's last task when that starts.
        """
        return self.row is not None and self.row.tasks_pending > 0

    @property
    def _needs_explanation(self) -> bool:
        """Whether the details answer the first question about the job: why it waits, or why it failed."""
        row = self.row
        if row is None:
            return False
        failed = row.end is not None and row.state not in UNSUSPECTED
        return row.state == "PENDING" or failed

    def shown_job(self, key: str) -> JobRow | None:
        return self._detail.row if self._detail and key == self.key else None

    def on_resize(self, event: textual_events.Resize) -> None:
        self._arrange()
        if self._detail is not None and not self.is_left:
            self._fill(self._detail)

    def recolour(self) -> None:
        for lines in self.query(LineView):
            lines.use_palette(self.deck.palette)
        self.query_one(MetricsPane).recolour()
        if self._detail is not None:
            self._fill(self._detail)

    @work(exclusive=True, group="look")
    async def look(self) -> None:
        """Request the details of the job."""
        try:
            self._detail = await self.deck.core.job(self.key)
        except UserError as error:
            if self._detail is None:
                self._told = error.message
                self.draw()
            return
        self._fill(self._detail)
        self._follow_unless_folded()
        self.draw()
        await self._inquire(self._detail)

    async def _inquire(self, detail: JobDetail) -> None:
        """Search the end of a failed job's output for the cause, once after each run of the job."""
        row = detail.row
        if row.end is None or row.state in UNSUSPECTED:
            self._ended = None
        elif self._ended is None:
            channels = ["out", "err"] if detail.stderr not in ("", detail.stdout) else ["out"]
            tail = b""
            for channel in channels:
                # If the output cannot be read any more, the log pane reports it.
                with contextlib.suppress(UserError):
                    tail += await self.deck.core.log_tail(self.key, channel=channel, size_bytes=TAIL_BYTES)
            self._ended = post_mortem(detail, tail)
            self._fill(detail)
            self.draw()

    @work(exclusive=True, group="forecast")
    async def look_ahead(self) -> None:
        """Request a waiting job's forecast: the jobs ahead of it, and changes that would let it start now."""
        if self.deck.front is not self or (self.row is not None and self.row.state != "PENDING"):
            return
        if self.deck.board.scheduler.reason("forecast"):
            return
        with contextlib.suppress(UserError):  # the details show any problem
            self._forecast = await self.deck.core.forecast(self.key)
        if self._detail is not None:
            self._fill(self._detail)

    def _look_again(self) -> None:
        if self.deck.front is self and (self._detail is None or self._detail.row.end is None):
            self.look()

    def _follow_unless_folded(self) -> None:
        if self.row is not None and not self._following and not self._is_folded:
            self._following = True
            self.log_pane.follow()

    @property
    def log_pane(self) -> JobLog:
        return self.query_one(JobLog)

    def draw(self) -> None:
        """Draw the lines above the panes."""
        if self.deck.front is not self:
            return
        row, styles, now = self.row, self.deck.palette, time.time()
        if row is None:
            self.set_head(f"job {self.key}   {self._told or 'Loading...'}")
            return
        self.set_title(view.head(row, now=now))
        died_of = self._ended.words if self._ended else ""
        status = paint([view.status(row, now=now, died_of=died_of)], styles)
        self.query_one("#status", Static).update(status, layout=False)
        log = self.log_pane
        words = view.log_words(row, written=log.written, is_empty=log.found_empty, told=log.told)
        tabs = view.tabs(self._pane, channel=log.channel, node=log.node, waiting=words)
        self.query_one(TabLine).show(tabs, [f"screen.{name}" for name in view.PANES], styles)
        if self._pane == "metrics" or self._is_wide:
            self.query_one(MetricsPane).look(ended=row.end is not None, log_bytes=log.received_bytes)
        self.show_keys()

    def _fill(self, detail: JobDetail) -> None:
        """Fill the visible panes from the latest details."""
        styles, now = self.deck.palette, time.time()
        if self._pane == "details":
            ended = self._ended or view.NO_POST_MORTEM
            found = groups(detail, now=now, forecast=self._forecast, ended=ended)
            self.query_one(DetailsPane).show_groups({**found, **self._environment()}, styles)
            self._look_at_environment()
        self._fill_gpus()
        self.query_one("#events", ScrolledLines).show(lambda width: events(detail, now=now, width=width))
        if self._is_wide:
            self._fill_side(side(detail, now=now, forecast=self._forecast))
        if self._pane == "code":
            self.query_one(CodePane).look(detail)

    def _fill_side(self, lines: list[Line]) -> None:
        """Show the facts beside the log. The screen is laid out again only if they need another number of lines."""
        styles, (before, theme) = self.deck.palette, self._side
        if (lines, id(styles)) == self._side:
            return
        self._side = lines, id(styles)
        pane = self.query_one("#side", Static)
        width = pane.content_size.width
        is_as_high = bool(width) and height(lines, width) == height(before, width)
        pane.update(Folded(lines, styles), layout=not is_as_high or theme != id(styles))

    def _fill_gpus(self) -> None:
        detail = self._detail
        if detail is not None:
            sources = self._gpu_data._replace(nodes=self.deck.board.nodes)
            self.query_one("#gpus", ScrolledLines).show(lambda width: gpu_page(detail, sources, width=width))
            if self._pane == "gpus":
                self._look_at_gpus()

    @work(exclusive=True, group="gpus")
    async def _look_at_gpus(self) -> None:
        """Request the curves of the job, and of the GPUs of its nodes while it runs."""
        row = self.row
        if row is None or row.start is None or self._detail is None:
            return
        if (row.end is not None and self._gpu_data.curves) or time.monotonic() - self._gpus_at < CURVES_S:
            return
        self._gpus_at = time.monotonic()
        self._gpu_data = await gpu_sources(self.deck, self._detail)
        self._fill_gpus()

    def _environment(self) -> Groups:
        if self._variables is None:
            return {}
        lines = environment_lines(self._variables, is_recorded=self.deck.board.scheduler.is_own)
        return {"environment": Group("Environment", tuple(lines))}

    @work(exclusive=True, group="environment")
    async def _look_at_environment(self) -> None:
        """Request the environment, once, because it does not change."""
        if (
            self._detail is None
            or self._variables is not None
            or self._detail.row.user != self.deck.board.user
        ):
            return
        with contextlib.suppress(UserError):  # the page is useful without it
            self._variables = await self.deck.core.environment(self._detail.row.label)
            self._fill(self._detail)

    def _show_pane(self, name: str) -> None:
        self._pane = name
        self._arrange()
        pane: Widget = self.query_one(f"#{name}")
        pane.focus()
        if self._detail is not None:
            self._fill(self._detail)
        self.draw()

    @property
    def _is_wide(self) -> bool:
        """Whether the log has the metrics and the most important facts beside it."""
        return self._pane == "log" and self.size.width >= WIDE_COLUMNS

    def _arrange(self) -> None:
        """Show the selected pane, and the panes beside the log. The metrics call it, too, even while the page is being closed."""
        if self.is_left:
            return
        metrics, alone = self.query_one(MetricsPane), self._pane == "metrics"
        for name in view.PANES:
            if name != "metrics":
                self.query_one(f"#{name}").display = name == self._pane
        metrics.display = self._shows_metrics = alone or (self._is_wide and metrics.has_metrics)
        self.query_one("#side").display = self._is_wide
        beside = self.query_one("#beside")
        beside.display = alone or self._is_wide
        beside.set_class(alone, "-alone")
        beside.set_class(self._shows_metrics, "-curves")

    def action_next_pane(self) -> None:
        self._show_pane(view.PANES[(view.PANES.index(self._pane) + 1) % len(view.PANES)])

    def action_previous_pane(self) -> None:
        self._show_pane(view.PANES[view.PANES.index(self._pane) - 1])

    def action_log(self) -> None:
        if self._is_folded:
            self.deck.verbs.log(self.key)
        else:
            self._show_pane("log")

    def applies(self, action: str) -> bool:
        row = self.row
        if action == "diff":
            return self._detail is not None and bool(self._detail.snapshot)
        if action == "diff_job":
            return self._pane in ("details", "code") or (row is not None and row.end is not None)
        if action == "what_changed":
            return row is not None and row.end is not None and row.state not in UNSUSPECTED
        if action in ON_METRICS:
            return self._pane == "metrics" or (action == "next_metric" and self._shows_metrics)
        if action == "next_task":
            return row is not None and row.array_task_id is not None
        if action == "next_node":
            return len(view.writing_nodes(self._detail)) > 1
        return self._pane == "log" if action == "stream" else super().applies(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ON_METRICS and not self._shows_metrics:
            return False
        return super().check_action(action, parameters)

    def action_metrics(self) -> None:
        self._show_pane("metrics")

    def action_next_metric(self) -> None:
        self.query_one(MetricsPane).next_name()

    def action_turn_axis(self) -> None:
        self.query_one(MetricsPane).turn_axis()

    def action_smooth(self) -> None:
        self.query_one(MetricsPane).turn_smooth()

    @work(exclusive=True, group="lay_over")
    async def action_lay_over(self) -> None:
        """Add a curve of another run of the same user, chosen from a list.

        Jobs with the same name come first.
        """
        found = await self.others_that_ran()
        if not found:
            return

        def lay(key: str | None) -> None:
            if key:
                self.query_one(MetricsPane).lay_over(key)

        self.app.push_screen(Choose("Select a run to compare with", found), lay)

    def action_take_away(self) -> None:
        if not self.query_one(MetricsPane).take_away():
            self.app.notify("No run to remove. Press + to add one", severity="warning")

    def action_runs(self) -> None:
        """Open the table of the runs of this array or of this name."""
        if self.row is not None:
            self.deck.navigation.open_runs(self.row)

    def action_details(self) -> None:
        self._show_pane("details")

    def action_gpus(self) -> None:
        self._show_pane("gpus")

    def action_code(self) -> None:
        self._show_pane("code")

    def action_events(self) -> None:
        self._show_pane("events")

    def action_stream(self) -> None:
        """Switch between stdout and stderr, if they are different files.

        sbatch writes both into one file unless -e is given.
        """
        detail = self._detail
        if detail is not None and detail.stdout and detail.stderr in ("", detail.stdout):
            self.app.notify("stdout and stderr of this job are one file", severity="warning")
            return
        self.log_pane.channel = "out" if self.log_pane.channel == "err" else "err"
        self._show_log_anew()

    def action_next_node(self) -> None:
        """Show the output of the job's next node, if each node writes its own."""
        nodes = view.writing_nodes(self._detail)
        if len(nodes) < 2:
            self.app.notify("All nodes of this job write to one log", severity="warning")
            return
        at = nodes.index(self.log_pane.node) if self.log_pane.node in nodes else 0
        self.log_pane.node = nodes[(at + 1) % len(nodes)]
        self._show_log_anew()

    def _show_log_anew(self) -> None:
        self._show_pane("log")
        if not self._is_folded:
            self.log_pane.follow()

    def action_next_task(self) -> None:
        self._go_to_task(1)

    def action_previous_task(self) -> None:
        self._go_to_task(-1)

    @work(exclusive=True, group="task")
    async def _go_to_task(self, step: int) -> None:
        """Open the page of another task of this array, with the same pane and output."""
        row = self.row
        if row is None or row.array_task_id is None:
            self.app.notify("This job is not an array task", severity="warning")
            return
        try:
            tasks = await self.deck.core.tasks(row)
        except UserError as error:
            self.deck.tell_error(error)
            return
        other = view.neighbour(row, tasks, step)
        if other is None:
            where = "first" if step < 0 else "last"
            self.app.notify(f"This is the {where} started task of the array", severity="warning")
            return
        pane, channel = self._pane, self.log_pane.channel
        self.app.pop_screen()
        self.deck.navigation.open_job(str(other.id), pane=pane, channel=channel)

    def action_back(self) -> None:
        if not (isinstance(self.focused, LogView) and self.focused.end_search()):
            self.app.pop_screen()
