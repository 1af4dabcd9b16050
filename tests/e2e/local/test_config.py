"""warpdeck config for administrators: files, a running controller, signals, and import of a site's
slurm.conf.
"""

from __future__ import annotations

import grp
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.home import Home
from tests.support.processes import running
from tests.support.waiting import WAIT_S, eventually

SITES = Path(__file__).parents[2] / "unit/config/sites"


def write(home: Home, text: str) -> None:
    home.path.mkdir(mode=0o700, exist_ok=True)
    (home.path / "config.toml").write_text(text)


def submit(home: Home, *options: str) -> subprocess.CompletedProcess[str]:
    return home.run("submit", "--no-snapshot", *options, "--wrap", "true")


def reason_code(home: Home, job: int) -> str:
    """Return the reason code of a waiting job."""
    return str((home.job(job)["why"] or {"code": ""})["code"])


def test_config_check_prints_ok_or_each_error_with_its_line(home: Home) -> None:
    assert home.ok("config", "check").endswith(
        "config.toml does not exist; all settings have their defaults\n"
    )
    write(home, '[partitions.gpu]\nmax_time = "2x"\n[qos.a]\nprio = 1\n')
    result = home.run("config", "check")
    path = home.path / "config.toml"
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        f"{path}:2: partitions.gpu.max_time: '2x' is not a time; write 2:00:00 or 2-00:00:00",
        f"{path}:4: qos.a.prio: unknown key; did you mean priority?",
    ]
    write(home, '[nodes.n1]\n[partitions.gpu]\nnodes = "n2"\n[qos.a]\n')
    result = home.run("config", "check")
    assert result.stdout == "ok: 1 partition, 1 QoS, 0 accounts, 0 users, 0 reservations\n"
    assert "config.toml:3: partitions.gpu.nodes: no [nodes] table contains n2" in result.stderr
    assert home.run("config", "check", "/nonexistent").returncode == 1


def test_config_show_prints_values_with_their_source(home: Home) -> None:
    write(home, "keep_finished_s = 5\n\n[partitions.gpu]\nmin_nodes = 2\n")
    lines = home.ok("config", "show").splitlines()
    assert any(line.split() == ["keep_finished_s", "=", "5", "#", "config.toml:1"] for line in lines)
    assert any(line.split() == ["grace_s", "=", "30", "#", "default"] for line in lines)
    settings = {tuple(row["key"]): row for row in home.json("config", "show")["settings"]}
    assert settings["partitions", "gpu", "min_nodes"]["source"] == "config.toml:4"
    assert settings["partitions", "gpu", "max_nodes"] == {
        "key": ["partitions", "gpu", "max_nodes"],
        "value": "",
        "source": "default",
    }


def test_a_controller_with_an_invalid_configuration_does_not_start(home: Home) -> None:
    write(home, "grace_s = 1\nwat = 2\n")
    result = home.run("up")
    assert result.returncode == 1
    assert "config.toml:2: wat: unknown key" in result.stderr


def test_rules_apply_at_submission_and_change_with_a_reload(home: Home) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    rules = (
        '[scheduler]\ndefault_partition = "all"\n[partitions.all]\nmax_time = "1:00:00"\n'
        f'[partitions.mine]\nallow_groups = ["{group}"]\n[partitions.theirs]\nallow_users = ["nobody"]\n'
    )
    write(home, rules)
    home.ok("up")
    assert submit(home).returncode == 0
    assert submit(home, "-p", "mine").returncode == 0
    assert "partition theirs does not admit user" in submit(home, "-p", "theirs").stderr
    assert "partition all allows" in submit(home, "-t", "2:00:00").stderr
    write(home, rules.replace("1:00:00", "3:00:00"))
    assert home.ok("config", "reload") == 'partitions.all.max_time: "1:00:00" -> "3:00:00"\n'
    assert home.ok("config", "reload") == "no changes\n"
    assert submit(home, "-t", "2:00:00").returncode == 0
    write(home, rules.replace("1:00:00", "4:00:00").replace('"all"', '"none"'))
    result = home.run("config", "reload")
    assert result.returncode == 1
    assert "scheduler.default_partition: there is no partition 'none'" in result.stdout
    assert "nothing was changed" in result.stderr
    assert "partition all allows" in submit(home, "-t", "4:00:00").stderr, "an invalid file changes nothing"


def test_sighup_reloads_the_configuration_and_logs_errors(home: Home) -> None:
    write(home, "[partitions.all]\n")
    home.ok("up")
    job = home.json("submit", "--no-snapshot", "--wrap", "sleep 1000")["job_id"]
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    write(home, '[partitions.all]\nmax_time = "wat"\n')
    os.kill(home.controller_pid(), signal.SIGHUP)
    eventually(lambda: "config.toml:2: partitions.all.max_time: 'wat' is not a time" in home.log())
    write(home, '[partitions.all]\nstate = "DOWN"\n')
    os.kill(home.controller_pid(), signal.SIGHUP)
    eventually(lambda: 'configuration: partitions.all.state: "UP" -> "DOWN"' in home.log())
    assert home.state(job) == "RUNNING"
    waiting = home.json("submit", "--no-snapshot", "--wrap", "true")["job_id"]
    eventually(lambda: reason_code(home, waiting) == "PartitionDown", what="the job waits for its partition")


def test_sighup_during_the_start_does_not_end_the_controller(home: Home) -> None:
    write(home, "[partitions.all]\n")
    home.path.chmod(0o700)
    up = subprocess.Popen(
        [sys.executable, "-m", "warpdeck.cli.main", "up"], env=home.environ, stdout=subprocess.DEVNULL
    )
    cmdline_parts = "warpdeck.daemon.controller_process\0", f"\0--home\0{home.path}\0"
    pid = min(eventually(lambda: running(*cmdline_parts), what="the controller's process"))
    os.kill(pid, signal.SIGHUP)
    assert up.wait(timeout=WAIT_S) == 0
    eventually(lambda: "configuration: nothing has changed" in home.log(), what="it reloads after its start")


def test_config_show_prints_the_active_and_the_file_values(home: Home) -> None:
    write(home, "keep_finished_s = 5\n\n[partitions.gpu]\nmin_nodes = 2\n")
    home.ok("up")
    write(home, "\nkeep_finished_s = 7\n")
    settings = {tuple(row["key"]): row for row in home.json("config", "show")["settings"]}
    assert (settings["keep_finished_s",]["value"], settings["keep_finished_s",]["source"]) == (
        "5",
        "config.toml:1",
    )
    assert settings["partitions", "gpu", "min_nodes"]["source"] == "config.toml:4"
    assert "has changed since it was loaded" in home.run("config", "show").stderr
    file_settings = home.json("config", "show", "--file")["settings"]
    assert {"key": ["keep_finished_s"], "value": "7", "source": "config.toml:2"} in file_settings
    home.ok("config", "reload")
    result = home.run("config", "show")
    assert "keep_finished_s = 7" in result.stdout and not result.stderr


def test_jobs_of_a_removed_partition_wait_with_a_reason(home: Home) -> None:
    write(home, '[partitions.old]\nstate = "DOWN"\n')
    home.ok("up")
    job = home.json("submit", "--no-snapshot", "--wrap", "true")["job_id"]
    write(home, "[partitions.new]\n")
    home.ok("config", "reload")
    eventually(lambda: reason_code(home, job) == "PartitionInactive", what="the job waits")


def test_an_imported_site_passes_the_check(home: Home, short_tmp: Path) -> None:
    imported_file = short_tmp / "made.toml"
    argv = ["config", "import", str(SITES / "lab.conf"), "--topology", str(SITES / "topology.conf")]
    argv += ["--gres", str(SITES / "gres.conf"), "--sacctmgr", str(SITES / "physics.cfg")]
    result = home.run(*argv, "--sacctmgr", str(SITES / "qos.txt"), "--out", str(imported_file))
    assert result.returncode == 0, result.stderr
    assert "JobSubmitPlugins: submit plugins are not supported" in result.stderr
    assert result.stdout == f"{imported_file}: 4 partitions, 3 QoS, 3 accounts, 3 users, 0 reservations\n"
    assert home.ok("config", "check", str(imported_file)).startswith("ok: 4 partitions")
    second_import = home.run(*argv, "--out", str(imported_file))
    assert second_import.returncode == 1
    assert "already exists" in second_import.stderr


def test_a_reload_without_a_controller_is_refused(home: Home) -> None:
    result = home.run("config", "reload")
    assert result.returncode == 1
    assert "no controller is running" in result.stderr
