"""Requests about the site, its policy, its history and its standby; part of the protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model.config_edit import MAX_CHANGES, Amendment
from warpdeck.model.finished_jobs import FinishedQuery

from . import results
from .job_rows import PastJobs
from .request_base import Name, Names, Reference, References, RequestMessage
from .site_rows import AuditOutcome, StandbyMode

MAX_RECOVERED = 10_000
"""Maximum number of job ids of one recovery."""
MAX_EVENTS = 500
"""Maximum number of lines in one answer: some screens."""


class Priorities(RequestMessage[results.PriorityList], frozen=True, kw_only=True, tag="priorities"):
    """Ask for the pending jobs, highest priority first; `ids` selects some of them.

    Jobs of equal priority are ordered by `queue_order`: submission, response or promised.

    Answer: {"jobs": [site_rows.PriorityRow], "weights": {factor: maximum}, "queue_order": str}
    """

    ids: References = ()


class Shares(RequestMessage[results.ShareTree], frozen=True, kw_only=True, tag="shares"):
    """Ask for the shares and usage of all accounts.

    Answer: {"shares": [site_rows.ShareRow], "half_life_s": float | None}
    """


class LimitUse(RequestMessage[results.LimitUseList], frozen=True, kw_only=True, tag="limit_use"):
    """Ask for the current usage that counts against the limits of each association and each QoS.

    Answer: {"uses": [site_rows.UseRow]}
    """


class Diagnosis(RequestMessage[results.SchedulerDiagnosis], frozen=True, kw_only=True, tag="diagnosis"):
    """Ask for the scheduler's statistics. `reset` sets them to 0; only admins may do that.

    Answer: results.SchedulerDiagnosis
    """

    reset: bool = False


class Partitions(RequestMessage[results.PartitionList], frozen=True, kw_only=True, tag="partitions"):
    """Ask for the partitions. If config.toml has none, there is one with all nodes.

    Answer: {"partitions": [site_rows.PartitionRow], "configured": bool}
    """


class Reservations(RequestMessage[results.ReservationList], frozen=True, kw_only=True, tag="reservations"):
    """Ask for the reservations. Answer: {"reservations": [site_rows.ReservationRow]}"""


class QosList(RequestMessage[results.QosLevels], frozen=True, kw_only=True, tag="qos"):
    """Ask for the QoS. Answer: {"qos": [site_rows.QosRow]}"""


class PluginOptions(
    RequestMessage[results.PluginOptionList], frozen=True, kw_only=True, tag="plugin_options"
):
    """Ask for the options that job scripts may use in addition to Slurm's.

    Answer: {"options": {name: "required", "none" or "optional"}}
    """


class Amend(RequestMessage[results.Reloaded], frozen=True, kw_only=True, tag="amend"):
    """Change config.toml and put it into force. config/site_rights tells which tables a user may change.

    Either all changes are made, or none with the error that a reload has. With `only_asks`, only the caller's rights are
    checked.

    Answer: {"changes": [str], "warnings": [str]}
    """

    changes: Annotated[tuple[Amendment, ...], msgspec.Meta(min_length=1, max_length=MAX_CHANGES)]
    only_asks: bool = False


class Licenses(RequestMessage[results.LicenseList], frozen=True, kw_only=True, tag="licenses"):
    """Ask for the licenses. Answer: {"licenses": [site_rows.LicenseRow]}"""


class Settings(RequestMessage[results.SlurmParameters], frozen=True, kw_only=True, tag="settings"):
    """Ask for the configuration in force, expressed as parameters of slurm.conf.

    Answer: {"settings": {name: text}}
    """


class Past(RequestMessage[PastJobs], frozen=True, kw_only=True, tag="past"):
    """Ask for a page of the finished jobs. `counted` asks for the `total` number of matching jobs.

    The error code "moved" means that the job next to which the page begins is in the queue again.

    Answer: {"jobs": [JobRow], "total": int | None}
    """

    query: FinishedQuery = FinishedQuery()
    counted: bool = False


class PastCosts(RequestMessage[results.CostGroups], frozen=True, kw_only=True, tag="past_costs"):
    """Ask for the resource costs of the jobs that match the query.

    Answer: {"groups": [model.past.GroupCost]}
    """

    query: FinishedQuery = FinishedQuery()


class Events(RequestMessage[results.EventList], frozen=True, kw_only=True, tag="events"):
    """Ask for recent events of jobs, the latest first. Answer: {"events": [rows.EventRow]}"""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EVENTS)] = MAX_EVENTS


class Reload(RequestMessage[results.Reloaded], frozen=True, kw_only=True, tag="reload"):
    """Put config.toml into force. Only administrators may ask.

    An error with the code "config" changes nothing. Its details["problems"] lists all problems, one per line.

    Answer: {"changes": [str], "warnings": [str]}
    """


class ConfigInForce(RequestMessage[results.ConfigText], frozen=True, kw_only=True, tag="config"):
    """Ask for the configuration in force as TOML, and the line of the file on which each key stood.

    Root and the controller's own user get all of it. Operators and coordinators get the tables that they need for changes.

    Answer: {"file": str, "text": str, "lines": [[[str], int]]}
    """


class Takeover(RequestMessage[results.TakenOver], frozen=True, kw_only=True, tag="takeover"):
    """Make the nodes obey this controller instead of another one with the same identity.

    Only the controller's own user and root may ask.

    Answer: {"epoch": int, "nodes": n, "lost": [name of a node that did not answer]}
    """


class Recover(RequestMessage[results.Recovery], frozen=True, kw_only=True, tag="recover"):
    """Adopt the launches that the nodes know and the database does not, because it is older. `discard` ends them instead.

    `jobs` are job ids; () means all. `dry_run` changes nothing. Only the controller's own user and root may ask.

    Answer: {"jobs": [site_rows.RecoveredRow], "silent": {node: reason}, "needed": bool}
    """

    jobs: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_RECOVERED)] = ()
    discard: bool = False
    dry_run: bool = False


class Shutdown(RequestMessage[results.Result], frozen=True, kw_only=True, tag="shutdown"):
    """Stop the controller; agents and jobs keep running.

    Only administrators may ask. Answer: {}
    """


class Standby(RequestMessage[results.StandbyInfo], frozen=True, kw_only=True, tag="standby"):
    """Ask for the standby, and how far its copy is behind.

    Answer: {"standby": StandbyRow or null}
    """


class StandbySet(RequestMessage[results.StandbyInfo], frozen=True, kw_only=True, tag="standby_set"):
    """Set up the standby `target`: [USER@]HOST[:PORT], in place of an earlier one. Progress lines come before the answer.

    The copy is in the folder `home` there, by default the same path as here. With `keys` the private keys for the nodes are
    copied, too. The error code "host_key" is answered as for `node_add`.

    Answer: {"standby": StandbyRow}
    """

    target: Reference
    home: Reference = ""
    mode: StandbyMode = StandbyMode.SYNC
    keys: bool = False
    accept_host_key: Name = ""


class StandbyRemove(RequestMessage[results.Result], frozen=True, kw_only=True, tag="standby_rm"):
    """Stop copying to the standby. Its files stay there."""


MAX_AUDIT_ENTRIES = 10_000
"""Maximum number of entries in one answer."""


class Audit(RequestMessage[results.AuditList], frozen=True, kw_only=True, tag="audit"):
    """Ask for the newest entries of the audit log that match, oldest first.

    An empty list filters nothing. Only administrators see the entries of other users; the others ask with `own`.
    `after` is the number of an entry: only later entries are sent, and then `limit` counts from the oldest one.

    Answer: {"entries": [site_rows.AuditEntry], "problem": str}
    """

    own: bool = False
    users: Names = ()
    requests: Names = ()
    objects: Names = ()
    """Names of objects, such as a job, a node or a table of config.toml. An object below a named one matches, too."""
    outcomes: Annotated[tuple[AuditOutcome, ...], msgspec.Meta(max_length=4)] = ()
    since: float = 0.0
    until: float | None = None
    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_AUDIT_ENTRIES)] = 100
