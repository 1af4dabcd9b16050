"""The actions on jobs, available on several screens.

They are cancel, hold, release, requeue, pause, time limit, priority, log, attach and shell. If an action does not
apply to a job, the app says so instead of asking. For a row that represents several array tasks, the app asks
which task is meant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from warpdeck.base.errors import UserError
from warpdeck.model.change import JobChange
from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Changed
from warpdeck.protocol.site_rows import PriorityRow
from warpdeck_tui import screens
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.dialogs import Ask, Choose, Confirm
from warpdeck_tui.terminal.lent_terminal import check_lends, join_terminal
from warpdeck_tui.user_files.shell_choice import read_shell_choice
from warpdeck_tui.viewmodels.jobs.confirmation import confirmation
from warpdeck_tui.viewmodels.jobs.job import again
from warpdeck_tui.viewmodels.jobs.limits import (
    limit_change,
    limit_command,
    limit_title,
    limits_before,
    present_limit,
)
from warpdeck_tui.viewmodels.jobs.priorities import (
    Before,
    grouped,
    present_priority,
    priority_change,
    priority_command,
    priority_title,
)
from warpdeck_tui.viewmodels.jobs.queue import Question, commands, names_of, targets, tasks_of
from warpdeck_tui.viewmodels.jobs.task_choice import one_array
from warpdeck_tui.viewmodels.jobs.verbs import AT_ONCE, NO_JOB, TAKES_BACK, refusal, said_done, that_fit
from warpdeck_tui.viewmodels.shell.sessions import shell_options

from .confirm_tasks import ConfirmTasks


class JobVerbs:
    """The actions on jobs, for one app."""

    def __init__(self, app: Deck) -> None:
        self._app = app

    def ask(self, verb: str, keys: Sequence[str]) -> None:
        """Cancel, hold, release, requeue or pause the jobs with these keys.

        Confirmation is asked if the action cannot be undone or affects several jobs.
        """
        found = [row for key in keys if (row := self._app.find_job(key)) is not None]
        rows = that_fit(verb, found)
        if not rows:
            self._warn(refusal(verb, found[0]) if found else NO_JOB)
            return
        if verb in AT_ONCE and len(rows) == 1 and not rows[0].tasks_pending:
            names = targets(verb, rows, self._app.board.jobs.values())
            self._app.run_worker(self._change(verb, names))
            return

        def describe(some: Sequence[JobRow]) -> Question:
            return confirmation(verb, some, self._app.board.jobs.values())

        dialog = ConfirmTasks(rows, describe) if one_array(rows) is not None else Confirm(describe(rows))

        def act(sure: bool | None) -> None:
            if sure:
                self._app.run_worker(self._change(verb, dialog.question.names))

        self._app.push_screen(dialog, act)

    async def _change(self, verb: str, names: Sequence[str]) -> None:
        done = await self._told(self._app.core.change(verb, names))
        if done.jobs:
            back = TAKES_BACK.get(verb)
            undo = (
                Undo(commands(back, done.jobs), partial(self._take_back, back, done.jobs)) if back else None
            )
            self._app.tell_done(said_done(verb, done.jobs), commands(verb, done.jobs), undo)

    async def _told(self, order: Awaitable[Changed]) -> Changed:
        """Await the request, tell the user what was refused, and return the outcome."""
        try:
            done = await order
        except UserError as error:
            self._app.tell_error(error)
            return Changed()
        for refused in done.errors:
            self._app.notify(refused, severity="error", markup=False)
        return done

    async def _take_back(self, verb: str, names: Sequence[str]) -> None:
        """Undo the change. Raises UserError if it is too late."""
        done = await self._app.core.change(verb, names)
        if done.errors:
            raise UserError(done.errors[0])

    def ask_limit(self, keys: Sequence[str]) -> None:
        """Ask for a new time limit, in the notation of `scontrol update`, and set it."""
        found = [row for key in keys if (row := self._app.find_job(key)) is not None]
        rows = that_fit("limit", found)
        if not rows:
            self._warn(refusal("limit", found[0]) if found else NO_JOB)
            return
        names = targets("limit", rows, self._app.board.jobs.values())

        def act(text: str | None) -> None:
            if text:
                self._app.run_worker(self._limit(rows, names, text))

        command = limit_command(names, "TIME")
        ask = Ask(
            limit_title(names),
            required="Enter a time limit",
            command=command,
            value=present_limit(rows),
            check=limit_change,
        )
        self._app.push_screen(ask, act)

    async def _limit(self, rows: Sequence[JobRow], names: Sequence[str], text: str) -> None:
        done = await self._told(self._app.core.update(names, limit_change(text)))
        if done.jobs:
            before = limits_before(row for row in rows if not done.errors or row.label in done.jobs)
            command = limit_command(done.jobs if done.errors else names, text)
            back = self._limits_back(before) if before else None
            self._app.tell_done(said_done("limit", done.jobs), command, back)

    def _limits_back(self, before: Mapping[int, Sequence[str]]) -> Undo:
        async def take_back() -> None:
            for limit_s, names in before.items():
                done = await self._app.core.update(names, JobChange(time_limit_s=limit_s))
                if done.errors:
                    raise UserError(done.errors[0])

        commands = (limit_command(names, format_duration(limit_s)) for limit_s, names in before.items())
        return Undo("; ".join(commands), take_back)

    def ask_priority(self, keys: Sequence[str]) -> None:
        """Ask for a new nice value or priority of waiting jobs, and set it.

        The notation is that of `scontrol update`.
        """
        found = [row for key in keys if (row := self._app.find_job(key)) is not None]
        rows = that_fit("priority", found)
        if rows:
            self._app.run_worker(self._ask_priority(rows), group="priority", exclusive=True)
        else:
            self._warn(refusal("priority", found[0]) if found else NO_JOB)

    async def _ask_priority(self, rows: Sequence[JobRow]) -> None:
        names = targets("priority", rows, self._app.board.jobs.values())
        try:
            found = await self._app.core.ask(requests.Priorities(ids=tuple(str(row.id) for row in rows)))
            ranks = {rank.label: rank for rank in found.jobs}
        except UserError as error:
            self._app.tell_error(error)
            return

        def act(text: str | None) -> None:
            if text:
                before = {
                    name: ranks[row.label] for row in rows if row.label in ranks for name in names_of(row)
                }
                self._app.run_worker(self._priority(names, priority_change(text), before))

        ask = Ask(
            priority_title(names),
            required="Enter nice=100 or a number",
            command=priority_command(names, JobChange(nice=100)),
            value=present_priority(ranks.values()),
            check=priority_change,
        )
        self._app.push_screen(ask, act)

    async def _priority(
        self, names: Sequence[str], change: JobChange, before: Mapping[str, PriorityRow]
    ) -> None:
        done = await self._told(self._app.core.update(names, change))
        if done.jobs:
            met = done.jobs if done.errors else names
            undo = self._priority_back(
                grouped((name, before[name]) for name in met if name in before), change
            )
            self._app.tell_done(said_done("priority", done.jobs), priority_command(met, change), undo)

    def _priority_back(self, had: Mapping[Before, Sequence[str]], change: JobChange) -> Undo | None:
        """Return the undo of a priority change.

        A release restores the computed priority, but also removes the job's `nice`.
        """
        steps: list[tuple[str, Callable[[], Awaitable[Changed]]]] = []
        for before, names in had.items():
            old = JobChange(nice=before.nice)
            if not isinstance(change.nice, int) and before.number is not None:
                old = JobChange(priority=before.number)
            elif not isinstance(change.nice, int):
                release = partial(self._app.core.change, "release", names)
                steps.append((commands("release", names), release))
                if not before.nice:
                    continue
            steps.append((priority_command(names, old), partial(self._app.core.update, names, old)))

        async def take_back() -> None:
            for _, call in steps:
                done = await call()
                if done.errors:
                    raise UserError(done.errors[0])

        return Undo("; ".join(command for command, _ in steps), take_back) if steps else None

    async def rerun(self, key: str) -> None:
        """Submit the job again as it was recorded, after confirmation."""
        try:
            detail = await self._app.core.job(key)
        except UserError as error:
            self._app.tell_error(error)
            return

        def act(sure: bool | None) -> None:
            if sure:
                self._app.run_worker(self._rerun(detail.row.label))

        self._app.push_screen(Confirm(again(detail)), act)

    async def _rerun(self, label: str) -> None:
        try:
            done = await self._app.core.rerun(label)
        except UserError as error:
            self._app.tell_error(error)
            return
        self._app.tell_done(f"Submitted job {done.label}", commands("rerun", [label]))

    def log(self, key: str) -> None:
        """Open the job's page at its log.

        For the row of an array's waiting tasks, open the log of one of the other tasks.
        """
        row = self._app.find_job(key)
        if row is None or not row.tasks_pending:
            self._app.navigation.open_job(key, pane="log")
            return
        self.log_of_array(row)

    def log_of_array(self, row: JobRow) -> None:
        """Open the log of one task of the row's array."""
        tasks = tasks_of(row, self._app.board.jobs.values())
        self._choose_task(row, tasks, self._app.navigation.open_job, "has no output yet")

    def attach(self, key: str, *, watch: bool = False) -> None:
        """Show the terminal of an interactive job in place of the app, until it ends or the user leaves it.

        With `watch`, keys have no effect on the job.
        """
        row = self._app.find_job(key)
        if row is not None and row.tasks_pending:
            tasks = that_fit("attach", tasks_of(row, self._app.board.jobs.values()))
            self._choose_task(row, tasks, partial(self.attach, watch=watch), "has no terminal yet")
            return
        refused = refusal("attach", row) if row is not None else ""
        if refused:
            self._warn(refused)
            return
        try:
            label = row.label if row else key
            joined = join_terminal(self._app, self._app.core, label, watch=watch)
        except UserError as error:
            self._app.tell_error(error)
            return
        words = joined.words
        if joined.continues:
            key = "a" if self._app.navigation.point_at(key) else "5, then a"
            words += f". The job continues; press {key} to attach"
        self._app.notify(words, markup=False)

    def shell(self) -> None:
        """Ask for the size of an interactive shell, and open it."""
        try:
            check_lends(self._app)  # otherwise the job would hold its GPU without a user
        except UserError as error:
            self._app.tell_error(error)
            return
        board = self._app.board
        options = read_shell_choice()
        if options is None:
            options = shell_options(board.jobs.values(), user=board.user, has_gpus=board.has_gpus())

        def opened(key: str | None) -> None:
            if key:
                self._wait_for_shell(key)

        self._app.push_screen(screens.ShellSize(options), opened)

    def _wait_for_shell(self, key: str) -> None:
        """Attach to the session once it has started, unless the user cancels it or leaves it waiting."""

        def waited(result: str | None) -> None:
            if result == "ready":
                self._app.run_worker(self._attach_later(key))
            elif result == "cancel":
                self._app.run_worker(self._change("cancel", [key]))
            else:
                self._app.board.awaited.add(int(key))
                self._app.notify(f"Session {key} keeps waiting. The app tells when it is ready", markup=False)

        self._app.push_screen(screens.ShellWait(key), waited)

    async def _attach_later(self, key: str) -> None:
        """Attach to the session after its dialog has closed."""
        self.attach(key)

    def _choose_task(
        self, row: JobRow, tasks: Sequence[JobRow], use: Callable[[str], None], nothing: str
    ) -> None:
        """Call `use` with the only task, or with the task that the user chooses."""
        if len(tasks) == 1:
            use(str(tasks[0].id))
        elif not tasks:
            self._warn(f"Array {row.array_job_id} {nothing}: all tasks are pending")
        else:

            def act(key: str | None) -> None:
                if key:
                    use(key)

            self._app.push_screen(Choose(f"Select a task of array {row.array_job_id}", tasks), act)

    def _warn(self, words: str) -> None:
        self._app.notify(words, severity="warning", markup=False)
