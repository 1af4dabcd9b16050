"""Connects the objects that submit jobs."""

from __future__ import annotations

import os

from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.poller import Poller
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.programs import Programs
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.engines.slurm.versions import Feature, Version, has

from .job_folder import JobFolders
from .sbatch import Sbatch
from .submissions import SlurmSubmissions
from .unsettled import Search


def open_submissions(
    cluster: Cluster,
    poller: Poller,
    commands: SlurmCommands,
    allowance: Allowance,
    settings: SlurmSettings,
    lookup: JobLookup,
    version: Version,
    programs: Programs,
) -> SlurmSubmissions:
    """Return the part of the engine that submits jobs."""
    folder = shared_folder(settings)
    folders = JobFolders(folder)
    return SlurmSubmissions(
        cluster=cluster,
        poller=poller,
        sbatch=Sbatch(commands, version),
        search=Search(
            commands=commands,
            allowance=allowance,
            uid=cluster.uid,
            has_lines=lambda: cluster.has_accounting and has(version, Feature.SUBMIT_LINE),
        ),
        folders=folders,
        trees=TreeFiles(os.path.join(folder, "code")),
        lookup=lookup,
        programs=programs,
        clock=cluster.clock,
    )


def shared_folder(settings: SlurmSettings) -> str:
    """Return the gateway's folder on the shared file system."""
    return os.path.abspath(os.path.expanduser(settings.folder or "~/.warpdeck"))
