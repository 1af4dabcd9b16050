"""The confirmation of an action on several tasks of an array, in which the user can choose fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.screens.shared.dialogs import Confirm
from warpdeck_tui.screens.shared.form_dialog import FormDialog
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.jobs.queue import Question
from warpdeck_tui.viewmodels.jobs.task_choice import chosen_tasks, pending_numbers, pending_only
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.form_fields import FormField, FormValues

Describe = Callable[[Sequence[JobRow]], Question]


class ConfirmTasks(Confirm):
    """A confirmation that offers to leave out the started tasks, or to enter the tasks.

    `describe` returns the question about some rows. The last one that was shown is the one that the user answers.
    """

    places: ClassVar[tuple[str, ...]] = ("confirm", "tasks")
    BINDINGS: ClassVar[list[BindingType]] = bindings("tasks")

    def __init__(self, rows: Sequence[JobRow], describe: Describe) -> None:
        super().__init__(describe(rows))
        self._chosen = list(rows)
        self._describe = describe

    def action_pending_only(self) -> None:
        pending = pending_only(self._chosen)
        if pending:
            self._chosen = pending
            self.show(self._describe(pending))
        else:
            self.app.notify("None of these tasks is pending", severity="warning")

    def action_choose_tasks(self) -> None:
        def use(text: str | None) -> None:
            if text and not self.is_left:
                self.show(self._describe(chosen_tasks(self._chosen, text)))
                self.dismiss(True)

        self.app.push_screen(ChooseTasks(self._chosen, self._describe), use)


class ChooseTasks(FormDialog):
    """A question for task numbers. Before the user confirms them, it shows which tasks will be affected."""

    place = "ask"
    BINDINGS: ClassVar[list[BindingType]] = bindings("ask")

    def __init__(self, rows: Sequence[JobRow], describe: Describe) -> None:
        field = FormField(
            "answer",
            required="Enter task numbers, such as 3-9 or 16-",
            check=lambda text: chosen_tasks(rows, text),
        )
        title = f"Tasks of array {rows[0].array_job_id}: 12, 3-9, 16- (from 16 on), -7 (up to 7)"
        super().__init__(title, (field,), {"answer": pending_numbers(rows)})
        self._rows = rows
        self._describe = describe

    def command(self, values: FormValues) -> str:
        """Return the effect on the tasks that are typed so far, and the equivalent command. Raises UserError."""
        if not values["answer"]:
            return ""
        question = self._describe(chosen_tasks(self._rows, values["answer"]))
        return printable(question.effect) + f"\n$ {printable(question.command)}"

    def accept(self, values: FormValues) -> None:
        self.dismiss(values["answer"])
