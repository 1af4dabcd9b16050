"""Imports of slurm.conf(5) and of dumps of sacctmgr(1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import decode
from warpdeck.config.slurm import Imported, import_site
from warpdeck.config.slurm.conf import read_conf
from warpdeck.config.tables import Config, NodeTable

SITES = Path(__file__).parent / "sites"


def imported(name: str, **more: object) -> Imported:
    made = import_site(str(SITES / name), **more)  # type: ignore[arg-type]
    assert decode(made.text, "config.toml").config == made.config
    return made


@pytest.fixture(scope="module")
def lab() -> Imported:
    return imported(
        "lab.conf",
        gres=str(SITES / "gres.conf"),
        topology=str(SITES / "topology.conf"),
        sacctmgr=[str(SITES / "physics.cfg"), str(SITES / "qos.txt")],
    )


def remark(made: Imported, about: str) -> str:
    """Return the only remark that contains this text."""
    (found,) = [line for line in made.remarks if about in line]
    return found


def test_a_small_site_is_imported_completely() -> None:
    made = imported("small.conf")
    assert made.config.nodes == {
        "g[1-2]": NodeTable(features=("2.25GHz",)),
        "g3": NodeTable(features=("2.5GHz",)),
    }
    (main,) = made.config.partitions.values()
    assert (main.nodes, main.max_time, main.state) == (None, None, "UP")
    assert made.config.scheduler.default_partition == "main"
    assert not made.config.scheduler.enforce_limits
    assert made.config.scheduler.preempt_by == "off"
    assert decode(made.text, "f").warnings == ()
    assert "configures Slurm's own daemons" in remark(made, "ClusterName")


def test_the_health_check_is_imported_if_slurm_runs_it(tmp_path: Path) -> None:
    lines = "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\nHealthCheckProgram=/usr/sbin/nhc\n"
    for interval_s, program in ((300, "/usr/sbin/nhc"), (0, "")):
        (tmp_path / "slurm.conf").write_text(f"{lines}HealthCheckInterval={interval_s}\n")
        made = import_site(str(tmp_path / "slurm.conf"))
        assert made.config.health.program == program
        assert made.config.health.interval_s == (interval_s or 60)
        assert bool(program) is not any("not run" in line for line in made.remarks)


def test_private_folders_of_jobs_are_imported(tmp_path: Path) -> None:
    lines = "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\nJobContainerType=job_container/"
    for kind, folders in (("tmpfs", ("/tmp", "/dev/shm")), ("none", ())):
        (tmp_path / "slurm.conf").write_text(f"{lines}{kind}\n")
        made = import_site(str(tmp_path / "slurm.conf"))
        assert made.config.containment.private_dirs == folders
        assert bool(folders) is any("is not read" in line for line in made.remarks)


def test_partitions_get_defaults_and_node_sets(lab: Imported) -> None:
    partitions = lab.config.partitions
    assert list(partitions) == ["batch", "gpu", "debug", "admin"]
    assert lab.config.scheduler.default_partition == "batch"
    assert partitions["batch"].max_time == 2 * 86_400
    gpu = partitions["gpu"]
    assert gpu.nodes == tuple(f"g{number:02d}" for number in range(1, 17))
    assert (gpu.max_time, gpu.default_time, gpu.priority_tier) == (7 * 86_400, 3600, 10)
    assert (gpu.allow_groups, gpu.allow_qos, gpu.qos) == (("phys", "chem"), ("normal", "high"), "gpupart")
    debug = partitions["debug"]
    assert (debug.max_time, debug.default_time, debug.max_nodes, debug.exclusive) == (1800, None, 2, True)
    admin = partitions["admin"]
    assert (admin.allow_users, admin.grace_s, admin.preempt_mode, admin.state) == (
        ("root",),
        120,
        "off",
        "DOWN",
    )


def test_nodes_get_features_weights_and_switches(lab: Imported) -> None:
    assert lab.config.nodes == {
        "g[01-08]": NodeTable(features=("a100", "ib"), weight=10, switch="leaf1"),
        "g[09-16]": NodeTable(features=("a100", "ib"), weight=10, switch="leaf2"),
        "c[001-064]": NodeTable(features=("cpu",)),
        "r1n[01-02],r2n[01-02]": NodeTable(features=("bigmem",)),
    }
    assert lab.config.gpus.shards_per_gpu == 8


def test_scheduler_settings_are_imported(lab: Imported) -> None:
    scheduler = lab.config.scheduler
    assert (scheduler.backfill, scheduler.backfill_order) == ("conservative", "priority")
    assert scheduler.weights.fairshare == 100_000
    assert scheduler.weights.tres == {"cpu": 1000.0, "mem": 2000.0, "gres/gpu": 3000.0}
    assert scheduler.billing_weights == {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 8.0}
    assert (scheduler.preempt_by, scheduler.preempt_mode, scheduler.preempt_exempt_s) == (
        "qos",
        "requeue",
        1800,
    )
    assert scheduler.default_mem_per_cpu == 4000 * 2**20
    assert scheduler.kill_invalid_dependency and scheduler.enforce_limits
    assert lab.config.fairshare.half_life == 14 * 86_400
    assert (lab.config.grace_s, lab.config.keep_finished_s) == (60.0, 600.0)
    assert lab.config.licenses == {"matlab": 4, "ansys": 1}


def test_accounts_and_users_are_imported_from_the_sacctmgr_dump(lab: Imported) -> None:
    accounts = lab.config.accounts
    assert {name: entry.parent for name, entry in accounts.items()} == {
        "astro": "",
        "bio": "",
        "astro_ml": "astro",
    }
    assert (accounts["astro"].shares, accounts["astro"].grp_tres) == (50, {"gres/gpu": 16, "cpu": 512})
    assert accounts["astro"].qos == ("normal",), "inherited from the cluster"
    assert accounts["astro_ml"].qos == ("normal", "high"), "its default is among them"
    assert accounts["astro_ml"].users["bob"].qos == ("normal", "high"), (
        "+high in addition to those of the account"
    )
    assert accounts["astro_ml"].default_qos == "high"
    assert accounts["bio"].max_wall == 2 * 86_400
    assert accounts["astro"].users["ann"].max_jobs_per_user == 10
    assert accounts["astro"].users["ann"].default
    assert not accounts["astro_ml"].users["ann"].default
    assert accounts["astro_ml"].users["bob"].shares == 2
    assert accounts["bio"].users["eve"].max_tres_per_job == {"cpu": 64}
    eve = accounts["bio"].users["eve"]
    assert (eve.grp_wall, eve.grp_tres_run_mins) == (10 * 86_400, {"cpu": 1000})
    assert "root" not in accounts


def test_qos_are_imported_from_the_table_of_sacctmgr(lab: Imported) -> None:
    high = lab.config.qos["high"]
    assert (high.priority, high.preempts, high.preempt_mode) == (100, ("normal",), "requeue")
    assert (high.grace_s, high.preempt_exempt_s, high.usage_factor) == (120, 600, 2.0)
    assert (high.grp_tres, high.max_tres_per_user) == ({"gres/gpu": 32}, {"gres/gpu": 8, "mem": 2**20})
    assert (high.max_wall, high.max_jobs_per_user, high.max_submit_per_user) == (86_400, 4, 20)
    assert (high.max_submit_per_account, high.min_tres_per_job) == (50, {"gres/gpu": 1})
    assert high.deny_on_limit and not high.overrides_partition
    assert lab.config.qos["gpupart"].overrides_partition
    assert list(lab.config.qos) == ["normal", "high", "gpupart"]


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ("JobSubmitPlugins", "submit plugins are not supported"),
        ("prolog", "is not a single absolute path"),
        ("MAX_TRES", "priority flags are not supported"),
        ("DefMemPerGPU of debug", "a default memory per GPU is not supported"),
        ("DefaultTime of debug", "longer than MaxTime"),
        ("SwitchName=spine", "only leaf switches are imported"),
        ("old1 on switch leaf2", "no NodeName line names this node"),
        ("Name=nic", "only GPUs and their shards are supported as GRES"),
        ("Type=a100", "the driver defines the type of a GPU"),
        ("Fairshare=parent of user ann", "users cannot use the shares of the parent"),
        ("maxtresrunmins of user eve", "no equivalent"),
        ("fs/disk in grptres of account astro", "this TRES is not counted here"),
        ("flag NoReserve of QoS high", "no equivalent"),
        ("DownNodes=c009", "drain these nodes"),
        ("MaxArraySize", "the size of arrays has a fixed limit"),
    ],
)
def test_each_setting_that_is_not_imported_has_a_remark_with_the_reason(
    lab: Imported, about: str, why: str
) -> None:
    assert why in remark(lab, about)


def test_no_key_of_slurms_manual_is_called_unknown(lab: Imported) -> None:
    assert [line for line in lab.remarks if "unknown key" in line] == []


def test_invalid_values_are_remarked_and_the_rest_is_imported() -> None:
    made = imported("tiers.conf")
    scheduler = made.config.scheduler
    assert (scheduler.backfill, scheduler.preempt_by, scheduler.preempt_mode) == (
        "none",
        "partition",
        "suspend",
    )
    assert scheduler.weights.age == 0, "priority/basic weighs nothing"
    assert made.config.grace_s == 30.0
    assert made.config.licenses == {"vasp": 4}
    low, high = made.config.partitions["low"], made.config.partitions["high"]
    assert (low.preempt_mode, low.exclusive, low.max_nodes, low.min_nodes) == ("requeue", False, 2, 0)
    assert (high.nodes, high.priority_tier) == (("n1", "n2", "n3", "n4", "n6"), 5)
    assert high.allow_accounts == ("gold", "silver")
    assert set(made.config.accounts) == {"gold", "silver"}, "closed, except for added users"
    assert set(made.config.qos) == {"bad"}
    assert made.config.partitions["empty"].state == "INACTIVE"
    assert made.config.partitions["odd"].state == "INACTIVE"
    assert "created without users" in remark(made, "account gold")
    assert "'soon' is not a whole number" in remark(made, "killwait")
    assert "time slicing is not supported" in remark(made, "PreemptMode=GANG")
    assert "'tomorrow' is not a time" in remark(made, "maxtime of odd")
    assert "is not a hostlist" in remark(made, "Nodes of odd")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("NodeName=a\nwhat is this\n", "slurm.conf:2: 'what' is not KEY=VALUE"),
        ("Include slurm.conf\n", "more than 200 included files"),
    ],
)
def test_an_invalid_slurm_conf_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "slurm.conf").write_text(text)
    with pytest.raises(UserError, match=complaint):
        import_site(str(tmp_path / "slurm.conf"))


def test_a_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nothing.conf: No such file"):
        import_site(str(tmp_path / "nothing.conf"))


def test_a_file_that_sacctmgr_did_not_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=x\n")
    (tmp_path / "other").write_text("hello\n")
    with pytest.raises(UserError, match="not output of sacctmgr"):
        import_site(str(tmp_path / "slurm.conf"), sacctmgr=[str(tmp_path / "other")])


def test_continued_lines_join_without_a_space_and_comments_are_cut() -> None:
    text = 'Key=one,\\\ntwo # no\nOTHER="a b" Third=x\\#y\n'
    lines = read_conf("slurm.conf", lambda path: text)
    assert [(line.number, line.pairs) for line in lines] == [
        (1, {"key": "one,two"}),
        (3, {"other": "a b", "third": "x#y"}),
    ]


def test_an_empty_slurm_conf_gives_a_usable_configuration(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("")
    assert imported(str(tmp_path / "slurm.conf")).config.partitions == Config().partitions
