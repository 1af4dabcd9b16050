"""Read the site-wide keys of slurm.conf: scheduler, priority, preemption, defaults, licenses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from warpdeck.config import node_tables, tables
from warpdeck.config.table_types import Private
from warpdeck.notation.values.tres_counts import parse_tres_weights

from . import values
from .conf import ConfLine
from .notes import ImportNotes

UNSUPPORTED = {
    "priorityweightassoc": "associations have no priority here",
    "priorityusageresetperiod": "usage decays with fairshare.half_life and is never reset",
    "prioritysitefactorplugin": "plugins are not supported",
    "jobsubmitplugins": "submit plugins are not supported; partitions, QoS and accounts define access",
    "srunprolog": "this kind of prolog is not supported",
    "srunepilog": "this kind of epilog is not supported",
    "prologslurmctld": "this kind of prolog is not supported",
    "epilogslurmctld": "this kind of epilog is not supported",
    "defmempernode": "a default memory per node is not supported; use scheduler.default_mem_per_cpu",
    "defmempergpu": "a default memory per GPU is not supported",
    "defcpupergpu": "a default number of CPUs per GPU is not supported",
    "maxmempercpu": "memory is limited by a QoS with max_tres_per_node",
    "maxmempernode": "memory is limited by a QoS with max_tres_per_node",
    "maxarraysize": "the size of arrays has a fixed limit",
    "maxjobcount": "the number of jobs has one fixed limit",
    "jobrequeue": "each job decides with --requeue or --no-requeue",
    "overtimelimit": "jobs always end at their time limit",
    "enforcepartlimits": "a job that its partition can never run is always rejected at submission",
    "disablerootjobs": "root can always submit jobs",
    "powerparameters": "powering nodes down is not supported",
    "suspendprogram": "powering nodes down is not supported",
    "resumeprogram": "powering nodes down is not supported",
    "federationparameters": "federations are not supported",
    "jobdefaults": "defaults that depend on GPUs are not supported",
    "burstbuffertype": "burst buffers are not supported",
    "requeueexit": "requeueing by exit code is not supported",
    "requeueexithold": "requeueing by exit code is not supported",
    "maxbatchrequeue": "the number of requeues is not limited",
    "usepam": "PAM is not used",
    "gangscheduling": "time slicing is not supported",
    "schedulertimeslice": "time slicing is not supported",
    "mailprog": "set the mail program in [mail]",
    "rebootprogram": "rebooting nodes is not supported",
    "selecttypeparameters": "CPUs and memory are always allocated",
}
"""Keys that affect the resources of jobs and have no equivalent here."""

DAEMONS = values.word_set(
    "accountingstoragebackuphost accountingstorageexternalhost accountingstoragehost accountingstorageloc"
    " accountingstorageparameters accountingstoragepass accountingstorageport accountingstoragetres"
    " accountingstoragetype accountingstorageuser accountingstoreflags accountingstorejobcomment acctgatherenergytype"
    " acctgatherfilesystemtype acctgatherinfinibandtype acctgatherinterconnecttype acctgathernodefreq"
    " acctgatherprofiletype allowspecresourcesusage authaltparameters authalttypes authinfo authtype backupaddr"
    " backupcontroller batchstarttimeout bcastexclude bcastparameters cachegroups checkpointtype clifilterplugins"
    " clustername communicationparameters completewait controladdr controlmachine corespecplugin cpufreqdef"
    " cpufreqgovernors credtype cryptotype dataparserparameters debugflags defaultstoragehost defaultstorageloc"
    " defaultstoragepass defaultstorageport defaultstoragetype defaultstorageuser eiotimeout epilogmsgtime"
    " epilogtimeout extsensorsfreq extsensorstype fairsharedampeningfactor fastschedule firstjobid getenvtimeout"
    " gpufreqdef grestypes groupupdateforce groupupdatetime hashplugin healthchecknodestate"
    " inactivelimit interactivestepoptions jobacctgatherfrequency jobacctgatherparams jobacctgathertype"
    " jobcheckpointdir jobcompcode jobcomphost jobcomploc jobcompparams jobcomppass jobcomppassscript jobcompport"
    " jobcomptype jobcompuser jobcredentialprivatekey jobcredentialpubliccertificate jobfileappend"
    " keepalivetime killonbadexit launchparameters launchtype maildomain maxdbdmsgs maxjobid maxnodecount maxstepcount"
    " maxtaskspernode mcsparameters mcsplugin memlimitenforce messagetimeout mpiparams msgaggregationparams"
    " nodefeaturesplugins plugindir plugstackconfig powerplugin prepparameters prepplugins"
    " prioritycalcperiod proctracktype prologflags prologtimeout propagateprioprocess"
    " propagateresourcelimits propagateresourcelimitsexcept reconfigflags resumefailprogram resumerate resumetimeout"
    " resvepilog resvoverrun resvprolog returntoservice routeplugin sallocdefaultcommand sbcastparameters"
    " schedulerauth schedulerport schedulerrootfilter scronparameters selecttype slurmctldaddr slurmctlddebug"
    " slurmctldhost slurmctldlogfile slurmctldparameters slurmctldpidfile slurmctldplugstack slurmctldport"
    " slurmctldprimaryoffprog slurmctldprimaryonprog slurmctldsyslogdebug slurmctldtimeout slurmddebug slurmdlogfile"
    " slurmdparameters slurmdpidfile slurmdplugstack slurmdport slurmdspooldir slurmdsyslogdebug slurmdtimeout"
    " slurmduser slurmschedlogfile slurmschedloglevel slurmuser srunportrange statesavelocation suspendexcnodes"
    " suspendexcparts suspendexcstates suspendrate suspendtime suspendtimeout switchparameters switchtype taskplugin"
    " taskpluginparam tcptimeout tlsparameters tlstype topologyparam topologyplugin trackwckey treewidth"
    " unkillablestepprogram vsizefactor waittime x11parameters"
)
"""Settings of Slurm's own daemons: ports, logs, folders, plugins, timers.

From slurm.conf(5), versions 14.11 to 25.05.
"""


class SiteReader:
    """Reads lines about the whole site and builds the tables of the configuration."""

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self._values: dict[str, str] = {}
        self._daemons: dict[str, None] = {}

    def take(self, line: ConfLine) -> None:
        """Read a line. A later line overrides an earlier one."""
        for key, value in line.pairs.items():
            self._values[key] = value
            if key in USED:
                continue
            if key in UNSUPPORTED:
                if value.lower() not in ("no", "none", "0", ""):
                    self._notes.add(line.spelled[key], UNSUPPORTED[key])
            elif key in DAEMONS:
                self._daemons[line.spelled[key]] = None
            else:
                self._notes.add(f"{line.place}: {line.spelled[key]}", "unknown key")

    def mention_daemons(self) -> None:
        """Add one remark for all settings of Slurm's own daemons."""
        for name in self._daemons:
            self._notes.add(name, "configures Slurm's own daemons and plugins; no equivalent here")

    def config(self, scheduler: tables.Scheduler) -> tables.Config:
        """Return the tables. `scheduler` contains the values that were read from the partitions."""
        weights = self._weights()
        made = msgspec.structs.replace(
            scheduler,
            weights=weights,
            max_age=self._read("prioritymaxage", values.limit_s, None) or 7 * 86_400,
            favor_small=values.yes(self._get("priorityfavorsmall")),
            default_mem_per_cpu=self._read("defmempercpu", values.whole, 0) * 2**20,
            kill_invalid_dependency="kill_invalid_depend" in self._flags(),
            expedited_requeue="enable_expedited_requeue" in self._get("slurmctldparameters").lower(),
            enforce_limits=self._enforces_limits(),
            preempt_exempt_s=max(0, self._read("preemptexempttime", _exempt_s, 0)),
            **self._backfill(),
            **self._preemption(),
        )
        return tables.Config(
            grace_s=float(self._read("killwait", values.whole, 30)),
            keep_finished_s=float(self._read("minjobage", values.whole, 300)),
            scheduler=made,
            fairshare=tables.Fairshare(half_life=self._half_life()),
            licenses=self._licenses(),
            hooks=self._hooks(),
            steps=self._steps(),
            containment=node_tables.Containment(
                tmp_dir=self._path("tmpfs"),
                private_dirs=self._private_dirs(),
                unkillable_s=float(max(1, self._read("unkillablesteptimeout", values.whole, 60))),
            ),
            health=self._health(),
            access=tables.Access(private_data=self._private_data()),
        )

    def _private_data(self) -> tuple[Private, ...]:
        named = [word for word in self._get("privatedata").lower().split(",") if word and word != "none"]
        known = [word for word in get_args(Private) if word in named or "all" in named]
        for word in named:
            if word not in known and word != "all":
                self._notes.add(f"PrivateData={word}", "there are no cloud nodes")
        return tuple(known)

    def _hooks(self) -> node_tables.Hooks:
        timeout_s = self._read("prologepilogtimeout", values.whole, 60)
        return node_tables.Hooks(
            prolog=self._path("prolog"),
            epilog=self._path("epilog"),
            task_prolog=self._path("taskprolog"),
            task_epilog=self._path("taskepilog"),
            timeout_s=float(max(1, timeout_s)),
        )

    def _private_dirs(self) -> tuple[str, ...]:
        kind = self._get("jobcontainertype") or self._get("namespacetype")
        if not kind.lower().endswith("/tmpfs"):
            return ()
        self._notes.add(
            "job_container.conf", "is not read; private_dirs has its defaults: each job gets private folders"
        )
        return ("/tmp", "/dev/shm")

    def _steps(self) -> tables.Steps:
        mpi = self._get("mpidefault").lower()
        # In Slurm the value "openmpi" meant that nothing had to be done.
        if mpi not in ("", "none", "pmi2", "openmpi"):
            self._notes.add(
                f"MpiDefault={mpi}", "only pmi2 is supported; Open MPI's mpirun finds the job's nodes itself"
            )
        return tables.Steps(mpi="pmi2") if mpi == "pmi2" else tables.Steps()

    def _path(self, key: str) -> str:
        """Return the path of one program or folder. A pattern for several paths is not used."""
        text = self._get(key)
        if text and (not text.startswith("/") or any(mark in text for mark in "*?[,%")):
            self._notes.add(
                key, f"{text} is not a single absolute path; write one program that runs the others"
            )
            return ""
        return text

    def _health(self) -> node_tables.Health:
        """Return the health settings. Slurm runs its program only if an interval is set."""
        interval_s, program = (
            self._read("healthcheckinterval", values.whole, 0),
            self._get("healthcheckprogram"),
        )
        if program and not interval_s:
            self._notes.add("HealthCheckProgram", "not run, because HealthCheckInterval is 0")
        if not program or not interval_s:
            return node_tables.Health()
        return node_tables.Health(program=program, interval_s=float(interval_s))

    def _get(self, key: str) -> str:
        return self._values.get(key, "")

    def _read(self, key: str, read: Callable[[str], Any], otherwise: Any) -> Any:
        text = self._get(key)
        return self._notes.attempt(key, read, text, otherwise) if text else otherwise

    def _flags(self) -> str:
        return f"{self._get('schedulerparameters')},{self._get('dependencyparameters')}".lower()

    def _weights(self) -> tables.Weights:
        if self._get("prioritytype").lower().endswith("/basic"):
            return tables.Weights()
        numbers = {
            field: self._read(f"priorityweight{key}", values.whole, 0)
            for field, key in (
                ("age", "age"),
                ("fairshare", "fairshare"),
                ("job_size", "jobsize"),
                ("partition", "partition"),
                ("qos", "qos"),
            )
        }
        tres: dict[str, float] = {}
        nothing: dict[str, float] = {}
        for item in self._get("priorityweighttres").split(","):
            if item:
                tres |= self._notes.attempt(f"PriorityWeightTRES {item}", parse_tres_weights, item, nothing)
        for flag in self._get("priorityflags").upper().split(","):
            if flag and flag not in ("FAIR_TREE", "NO_FAIR_TREE"):
                self._notes.add(f"PriorityFlags={flag}", "priority flags are not supported")
            if flag == "NO_FAIR_TREE":
                self._notes.add(f"PriorityFlags={flag}", "fair-share always uses the Fair Tree algorithm")
        return tables.Weights(**numbers, tres=tres)

    def _half_life(self) -> int | None:
        text = self._get("prioritydecayhalflife")
        if text == "0":
            return None
        found: int | None = self._read("prioritydecayhalflife", values.limit_s, 7 * 86_400)
        return found

    def _backfill(self) -> dict[str, Any]:
        if self._get("schedulertype").lower().endswith("/builtin"):
            return {"backfill": "none"}
        if self._get("schedulerparameters"):
            self._notes.add(
                "SchedulerParameters", "tunes Slurm's scheduling loop; see [scheduler] for the settings here"
            )
        reason = "set as in Slurm: conservative, by priority; the default here (easy, shortest first) usually waits less"
        self._notes.add("backfill", reason)
        return {"backfill": "conservative", "queue_order": "submission", "backfill_order": "priority"}

    def _preemption(self) -> dict[str, Any]:
        kind = self._get("preempttype").lower().rpartition("/")[2]
        items = [word for word in self._get("preemptmode").lower().split(",") if word]
        if "gang" in items:
            self._notes.add(
                "PreemptMode=GANG",
                "time slicing is not supported; a suspended job resumes when resources are free",
            )
        if "within" in items:
            self._notes.add("PreemptMode=WITHIN", "preemption within one QoS is not supported")
        modes = [word for word in items if word in ("requeue", "suspend", "cancel")]
        by = {"qos": "qos", "partition_prio": "partition"}.get(kind, "off")
        if by == "off" or not modes:
            if by != "off":
                self._notes.add("PreemptType", "PreemptMode is OFF, so no job is preempted")
            return {"preempt_by": "off", "reclaim": False}
        return {"preempt_by": by, "preempt_mode": modes[0], "reclaim": False}

    def _enforces_limits(self) -> bool:
        items = self._get("accountingstorageenforce").lower().split(",")
        return any(word in ("limits", "safe", "all", "1") for word in items)

    def _licenses(self) -> dict[str, int]:
        made: dict[str, int] = {}
        for item in re.split(r"[,;]", self._get("licenses")):
            name, _, number = item.strip().replace("*", ":").partition(":")
            if name:
                made[name] = self._notes.attempt(f"Licenses={item}", values.whole, number or "1", 0)
        return made


def _exempt_s(text: str) -> int:
    return 0 if text.startswith("-") else values.limit_s(text) or 0


USED = values.word_set(
    "prioritytype priorityweightage priorityweightfairshare priorityweightjobsize priorityweightpartition"
    " priorityweightqos priorityweighttres prioritymaxage priorityfavorsmall prioritydecayhalflife priorityflags"
    " schedulertype schedulerparameters dependencyparameters preempttype preemptmode preemptexempttime"
    " accountingstorageenforce licenses killwait minjobage defmempercpu prolog epilog prologepilogtimeout tmpfs unkillablesteptimeout"
    " taskprolog taskepilog mpidefault healthcheckprogram healthcheckinterval"
    " jobcontainertype namespacetype privatedata"
)
"""Keys that are converted to values of the tables."""
