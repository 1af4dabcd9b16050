"""Rows about launches that the database does not explain. They are the format of `warpdeck recover --json`."""

from __future__ import annotations

from warpdeck.controller.events.events import FoundLaunch
from warpdeck.controller.launch.launching import output_paths
from warpdeck.controller.reducers.recovering import Action, action_of
from warpdeck.controller.state.state import State
from warpdeck.model.recovery import RUNNING
from warpdeck.protocol.site_rows import RecoveredRow

NO_RECORD = "the node has no readable record of this job"
GIVEN_AGAIN = "this id was given to another job"


def recovered_row(state: State, found: FoundLaunch, *, discard: bool) -> RecoveredRow:
    """Return the row of a launch, with the action that a recovery carries out."""
    launch, report = found.launch, found.report
    job = found.job or state.jobs.get(launch.job_id)
    action = Action.DISCARD if discard else action_of(state, found)
    kept = NO_RECORD if found.job is None else GIVEN_AGAIN
    return RecoveredRow(
        job=launch.job_id,
        label=str(launch.job_id) if job is None else job.label(),
        user="" if found.job is None else found.job.user,
        name="" if found.job is None else found.job.request.name,
        node=launch.node,
        start=launch.restarts,
        state=launch.phase,
        exit="" if report is None or launch.phase == RUNNING else f"{report.exit_code}:{report.signal}",
        output="" if found.job is None else output_paths(found.job)[0],
        action=action.value,
        reason=kept if action is Action.KEEP else "",
    )
