"""warpdeck config, as an administrator uses it: files, a running controller, signals, and a site's slurm.conf."""

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


def why(home: Home, job: int) -> str:
    """The reason code of a waiting job."""
    return str((home.job(job)["why"] or {"code": ""})["code"])


def test_check_says_ok_or_every_error_with_its_line(home: Home) -> None:
    assert home.ok("config", "check").endswith(
        "config.toml does not exist; all settings have their defaults\n"
    )
    write(home, '[partitions.gpu]\nmax_time = "2x"\n[qos.a]\nprio = 1\n')
    done = home.run("config", "check")
    path = home.path / "config.toml"
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{path}:2: partitions.gpu.max_time: '2x' is not a time; write 2:00:00 or 2-00:00:00",
        f"{path}:4: qos.a.prio: unknown key; did you mean priority?",
    ]
    write(home, '[nodes.n1]\n[partitions.gpu]\nnodes = "n2"\n[qos.a]\n')
    done = home.run("config", "check")
    assert done.stdout == "ok: 1 partition, 1 QoS, 0 accounts, 0 users, 0 reservations\n"
    assert "config.toml:3: partitions.gpu.nodes: no [nodes] table contains n2" in done.stderr
    assert home.run("config", "check", "/nonexistent").returncode == 1


def test_show_tells_values_and_where_they_come_from(home: Home) -> None:
    write(home, "keep_finished_s = 5\n\n[partitions.gpu]\nmin_nodes = 2\n")
    lines = home.ok("config", "show").splitlines()
    assert any(line.split() == ["keep_finished_s", "=", "5", "#", "config.toml:1"] for line in lines)
    assert any(line.split() == ["grace_s", "=", "30", "#", "default"] for line in lines)
    found = {tuple(row["key"]): row for row in home.json("config", "show")["settings"]}
    assert found["partitions", "gpu", "min_nodes"]["source"] == "config.toml:4"
    assert found["partitions", "gpu", "max_nodes"] == {
        "key": ["partitions", "gpu", "max_nodes"],
        "value": "",
        "source": "default",
    }


def test_a_controller_with_a_broken_file_does_not_start_and_says_why(home: Home) -> None:
    write(home, "grace_s = 1\nwat = 2\n")
    done = home.run("up")
    assert done.returncode == 1
    assert "config.toml:2: wat: unknown key" in done.stderr


def test_rules_hold_at_submission_and_a_reload_changes_them(home: Home) -> None:
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
    done = home.run("config", "reload")
    assert done.returncode == 1
    assert "scheduler.default_partition: there is no partition 'none'" in done.stdout
    assert "nothing was changed" in done.stderr
    assert "partition all allows" in submit(home, "-t", "4:00:00").stderr, "all or nothing"


def test_a_hangup_reloads_and_what_is_wrong_goes_to_the_log(home: Home) -> None:
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
    eventually(lambda: why(home, waiting) == "PartitionDown", what="it waits for its partition")


def test_a_hangup_while_the_controller_starts_does_not_end_it(home: Home) -> None:
    write(home, "[partitions.all]\n")
    home.path.chmod(0o700)
    up = subprocess.Popen(
        [sys.executable, "-m", "warpdeck.cli.main", "up"], env=home.environ, stdout=subprocess.DEVNULL
    )
    mark = "warpdeck.daemon.controller_process\0", f"\0--home\0{home.path}\0"
    pid = min(eventually(lambda: running(*mark), what="the controller's process, and perhaps what it starts"))
    os.kill(pid, signal.SIGHUP)
    assert up.wait(timeout=WAIT_S) == 0
    eventually(lambda: "configuration: nothing has changed" in home.log(), what="it reloads when it can")


def test_show_tells_what_is_in_force_and_what_the_file_says_now(home: Home) -> None:
    write(home, "keep_finished_s = 5\n\n[partitions.gpu]\nmin_nodes = 2\n")
    home.ok("up")
    write(home, "\nkeep_finished_s = 7\n")
    found = {tuple(row["key"]): row for row in home.json("config", "show")["settings"]}
    assert (found["keep_finished_s",]["value"], found["keep_finished_s",]["source"]) == ("5", "config.toml:1")
    assert found["partitions", "gpu", "min_nodes"]["source"] == "config.toml:4"
    assert "has changed since it was loaded" in home.run("config", "show").stderr
    rows = home.json("config", "show", "--file")["settings"]
    assert {"key": ["keep_finished_s"], "value": "7", "source": "config.toml:2"} in rows
    home.ok("config", "reload")
    done = home.run("config", "show")
    assert "keep_finished_s = 7" in done.stdout and not done.stderr


def test_jobs_of_a_partition_that_is_gone_wait_and_say_so(home: Home) -> None:
    write(home, '[partitions.old]\nstate = "DOWN"\n')
    home.ok("up")
    job = home.json("submit", "--no-snapshot", "--wrap", "true")["job_id"]
    write(home, "[partitions.new]\n")
    home.ok("config", "reload")
    eventually(lambda: why(home, job) == "PartitionInactive", what="it waits")


def test_an_imported_site_passes_the_check(home: Home, short_tmp: Path) -> None:
    made = short_tmp / "made.toml"
    argv = ["config", "import", str(SITES / "lab.conf"), "--topology", str(SITES / "topology.conf")]
    argv += ["--gres", str(SITES / "gres.conf"), "--sacctmgr", str(SITES / "physics.cfg")]
    done = home.run(*argv, "--sacctmgr", str(SITES / "qos.txt"), "--out", str(made))
    assert done.returncode == 0, done.stderr
    assert "JobSubmitPlugins: submit plugins are not supported" in done.stderr
    assert done.stdout == f"{made}: 4 partitions, 3 QoS, 3 accounts, 3 users, 0 reservations\n"
    assert home.ok("config", "check", str(made)).startswith("ok: 4 partitions")
    again = home.run(*argv, "--out", str(made))
    assert again.returncode == 1
    assert "already exists" in again.stderr


def test_a_reload_without_a_controller_says_so(home: Home) -> None:
    done = home.run("config", "reload")
    assert done.returncode == 1
    assert "no controller is running" in done.stderr
