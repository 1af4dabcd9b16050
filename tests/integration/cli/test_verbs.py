"""Commands with a real controller and this machine's node, run in this process: output and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import USER
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.peek_terminal import Glance, glance
from warpdeck.client.submission import draft_command

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller for all tests here. Each test uses its own job names."""
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        yield home


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Return the parsed --json output of a command that must succeed."""

    def call(verb: str, *argv: str) -> Any:
        code, out, err = run(verb, "--json", *argv)
        assert code == 0, (verb, argv, out, err)
        return json.loads(out)

    return call


def submit(ask: Callable[..., Any], command: str, *options: str) -> int:
    return int(ask("submit", "--no-snapshot", *options, "--wrap", command)["job_id"])


def rows(ask: Callable[..., Any], *argv: str) -> dict[str, str]:
    return {row["label"]: row["state"] for row in ask("queue", *argv)}


def test_queue_shows_the_columns_of_squeue(run: Run, ask: Callable[..., Any]) -> None:
    job = submit(ask, "true", "--hold", "-J", "columns")
    code, out, _ = run("queue", "--name", "columns")
    head, line = out.splitlines()
    assert code == 0
    assert head.split() == [
        "JOBID",
        "PARTITION",
        "NAME",
        "USER",
        "ST",
        "TIME",
        "NODES",
        "GPUS",
        "NODELIST(REASON)",
    ]
    assert line.split()[:8] == [str(job), "main", "columns", USER, "PD", "0:00", "1", "0"]
    assert "(JobHeldUser)" in line
    code, out, _ = run("queue", "--name", "columns", "-o", "+priority,account")
    assert out.splitlines()[0].split()[-3:] == ["PRIORITY", "ACCOUNT", "NODELIST(REASON)"]
    code, _, err = run("queue", "-o", "size")
    assert code == 2 and "there is no column 'size'" in err
    code, out, _ = run("queue", "--name", "columns", "--columns", "qos,job")
    assert [line.split() for line in out.splitlines()] == [["QOS", "JOBID"], ["normal", str(job)]]
    assert len(run("queue", "--name", "columns", "--noheader")[1].splitlines()) == 1
    start = run("queue", "--start", "-j", str(job))[1].splitlines()
    assert "START_TIME" in start[0] and "N/A" in start[1]


def test_queue_filters_by_user_state_name_and_id(run: Run, ask: Callable[..., Any]) -> None:
    array = submit(ask, "true", "--hold", "-a", "0-9", "-J", "narrow")
    plain = submit(ask, "true", "--hold", "-J", "narrow2")
    run("cancel", f"{array}_[2-3]")
    held, gone = f"{array}_[0-1,4-9]", f"{array}_[2-3]"
    assert rows(ask, "-j", str(array)) == {held: "PENDING", gone: "CANCELLED"}
    assert rows(ask, "-n", "narrow") == {held: "PENDING"}
    assert rows(ask, "-n", "narrow,narrow2") == {held: "PENDING", str(plain): "PENDING"}
    assert rows(ask, "-n", "narrow", "--all") == {held: "PENDING", gone: "CANCELLED"}
    assert rows(ask, "-n", "narrow", "-t", "ca") == {gone: "CANCELLED"}
    assert rows(ask, "-n", "narrow", "-t", "PD,CANCELLED") == {held: "PENDING", gone: "CANCELLED"}
    assert rows(ask, "-j", f"{array}_2,{plain}") == {gone: "CANCELLED", str(plain): "PENDING"}
    assert rows(ask, "-n", "narrow", "-u", "somebody") == {}
    assert rows(ask, "-n", "narrow", "-u", f"somebody,{USER}") == {held: "PENDING"}
    assert rows(ask, "-n", "narrow", "--me") == {held: "PENDING"}
    assert [row["label"] for row in ask("queue", "--limit", "1")] == [str(plain)]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["queue", "-t", "BUSY"], "there is no job state 'BUSY'"),
        (["queue", "-j", "x"], "'x' is not a job ID"),
        (["prio", "99999"], "not known"),
        (["show", "99999"], "job 99999 is not known"),
        (["show", "1_"], "'1_' is not a job ID"),
        (["why", "99999"], "not known"),
        (["logs", "99999"], "not known"),
        (["cancel", "99999"], "not known"),
        (["cancel", "12_[9-"], "is not a job ID"),
        (["cancel", "--signal", "NOPE", "1"], "there is no signal NOPE"),
        (["hold", "x"], "is not a job ID"),
        (["release", "99999"], "not known"),
        (["requeue", "99999"], "not known"),
        (["snapshot", "show", "99999"], "not known"),
        (["node", "show", "nope"], "there is no node nope"),
        (["node", "drain", "nope"], "there is no node nope"),
        (["node", "rm", "nope"], "there is no node nope"),
        (["submit", "--gpus", "64", "--wrap", "true"], "can never start: the job requests 64 GPUs"),
        (["submit", "-N", "50", "--wrap", "true"], "can never start: the job requests 50 nodes; there are 1"),
        (["submit", "-N", "1000-90000", "--wrap", "true"], "the job requests 1000 nodes"),
        (["submit", "--mem", "900T", "--wrap", "true"], "can never start"),
        (["submit", "-c", "9999", "--wrap", "true"], "can never start"),
        (["submit", "-w", "nohost", "--wrap", "true"], "there is no node nohost"),
        (["submit", "--comment", "x" * 5000, "--wrap", "true"], "not understood"),
        (["run", "--gpus", "64", "true"], "can never start"),
    ],
)
def test_an_impossible_request_has_a_message_and_exit_code_1(run: Run, argv: list[str], message: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (1, "")
    lines = [line for line in err.splitlines() if "no snapshot" not in line and "left out" not in line]
    assert message in lines[0] and 1 <= len(lines) <= 2, err


WHY_KEYS = {
    *(
        "verdict",
        "job",
        "state",
        "code",
        "sentence",
        "expected_start",
        "priority",
        "ahead",
        "leaders",
        "changes",
    )
}
JOB_KEYS = {
    *(
        "id",
        "label",
        "array_job_id",
        "array_task_id",
        "tasks_pending",
        "name",
        "user",
        "account",
        "partition",
    ),
    *(
        "qos",
        "state",
        "state_short",
        "why",
        "priority",
        "nodes",
        "node_list",
        "cpus",
        "gpus",
        "gpu_type",
        "mem_bytes",
    ),
    *("time_limit_s", "submit", "start", "end", "exit_code", "exit_cause", "restarts", "held", "interactive"),
    *("gpu_util_pct", "gpu_mem_bytes", "tree", "comment", "used"),
}
DETAIL_KEYS = {
    *("row", "script", "argv", "submit_line", "submit_dir", "work_dir", "stdout", "stderr", "gpus"),
    *("dependency", "snapshot", "message", "notice", "events"),
}
NODE_KEYS = {
    *("name", "target", "state", "reason", "hostname", "cpus", "cpus_used", "cpu_pct", "mem_bytes"),
    *(
        "mem_alloc_bytes",
        "mem_used_bytes",
        "gpus",
        "driver",
        "kernel",
        "containment",
        "gpu_error",
        "jobs",
        "at",
    ),
}


def test_json_has_stable_keys(run: Run, ask: Callable[..., Any]) -> None:
    job = submit(ask, "true", "--begin", "now+1hour")
    assert set(ask("queue", "-j", str(job))[0]) >= JOB_KEYS
    detail = ask("show", str(job))
    assert set(detail) >= DETAIL_KEYS and set(detail["row"]) >= JOB_KEYS
    assert set(ask("why", str(job))) >= WHY_KEYS
    assert set(ask("status")) >= {
        "running",
        "pid",
        "home",
        "version",
        "uptime_s",
        "user",
        "jobs",
        "nodes",
        "log",
    }
    code, out, _ = run("node", "ls", "--json")
    assert code == 0 and set(json.loads(out)[0]) >= NODE_KEYS
    for verb in ("hold", "release", "cancel"):
        done = ask(verb, str(job))
        assert (done["jobs"], done["errors"]) == ([str(job)], [])


def test_commands_accept_several_jobs_ranges_and_filters(run: Run, ask: Callable[..., Any]) -> None:
    array = submit(ask, "true", "--hold", "-a", "0-9", "-J", "orders")
    first, second = (submit(ask, "true", "--hold", "-J", "orders") for _ in range(2))
    assert run("cancel", str(first), f"{array}_[0-3,7]", "99999")[0] == 1
    assert rows(ask, "-n", "orders", "--all") == {
        f"{array}_[4-6,8-9]": "PENDING",
        f"{array}_[0-3,7]": "CANCELLED",
        str(first): "CANCELLED",
        str(second): "PENDING",
    }
    assert run("cancel", "--name", "orders", "--state", "PENDING", str(array)) == (0, "", "")
    assert rows(ask, "-n", "orders") == {str(second): "PENDING"}
    assert run("cancel", "--me", "--name", "orders")[0] == 0
    assert rows(ask, "-n", "orders") == {}
    assert run("cancel", "--name", "orders") == (0, "", "no matching jobs\n")
    code, _, err = run("cancel", str(second))
    assert code == 1 and f"job {second} has already ended (CANCELLED)" in err


def test_held_jobs_run_after_a_release_and_again_after_a_requeue(run: Run, ask: Callable[..., Any]) -> None:
    job = submit(ask, "echo ${SLURM_RESTART_COUNT:-0}", "--hold", "-o", "again.out")
    assert run("release", str(job))[0] == 0
    eventually(lambda: ask("show", str(job))["row"]["state"] == "COMPLETED", what="the program ran")
    assert run("requeue", str(job))[0] == 0
    eventually(lambda: ask("show", str(job))["row"]["restarts"] == 1, what="the job waits again")
    eventually(lambda: ask("show", str(job))["row"]["state"] == "COMPLETED", what="the program ran again")
    assert ask("logs", str(job))["text"] == "0\n1\n"


def test_logs_of_a_job_that_has_not_started_are_refused(run: Run, ask: Callable[..., Any]) -> None:
    job = submit(ask, "echo hello; sleep 0.2; echo world; exit 3", "--hold")
    code, out, err = run("logs", str(job))
    assert (code, out) == (1, "")
    assert f"job {job} has not started" in err and f"to wait for it, run `warpdeck logs -f {job}`" in err


def test_followed_logs_wait_for_the_start_and_end_with_the_job(site: Home, ask: Callable[..., Any]) -> None:
    job = submit(ask, "echo hello; sleep 0.2; echo world; exit 3", "--hold")
    argv = [sys.executable, "-m", "warpdeck.cli.main", "logs", "-f", str(job)]
    with subprocess.Popen(argv, env=site.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        assert b"waiting: held" in child.stderr.readline()
        ask("release", str(job))
        out, _ = child.communicate(timeout=60)
    assert out == b"hello\nworld\n"


def test_nodes_can_be_listed_at_a_past_moment(run: Run, ask: Callable[..., Any]) -> None:
    job = str(submit(ask, "sleep 1000", "-J", "then"))

    def ran() -> list[dict[str, Any]]:
        listed = json.loads(run("node", "ls", "--at", "now-1second", "--json")[1])
        return [row for row in listed if job in row["jobs"]]

    (row,) = eventually(ran, what="the job ran a second ago")
    assert row["state"] in ("mixed", "allocated")
    _, out, _ = run("node", "ls", "--at", "now-2days")
    assert "MEASURED" in out and "it was not yet a node of this cluster" in out and " absent " in out
    assert "measured" in run("node", "show", row["name"], "--at", "now-2days")[1]
    code, _, err = run("node", "ls", "--at", "tomorrow")
    assert code == 1 and "is in the future" in err
    ask("cancel", job)


def test_logs_of_one_task_of_an_array_can_be_read(run: Run, ask: Callable[..., Any]) -> None:
    array = submit(ask, "echo task $SLURM_ARRAY_TASK_ID", "-a", "1-2", "-o", "arr-%A_%a.out", "-J", "arr")
    eventually(lambda: not rows(ask, "-n", "arr"), what="both tasks ended")
    assert ask("logs", f"{array}_2")["text"] == "task 2\n"
    held = submit(ask, "true", "-a", "1-2", "--hold")
    _, _, err = run("logs", str(held))
    assert f"job {held}_[1-2] is an array" in err and f"{held}_1" in err


def test_control_characters_in_names_do_not_reach_the_terminal(run: Run, ask: Callable[..., Any]) -> None:
    job = submit(ask, "true", "--hold", "-J", "evil\x1b[2J\nname", "--comment", "\x1b]0;x\x07")
    for argv in (("queue", "-j", str(job)), ("show", str(job))):
        _, out, _ = run(*argv)
        assert "\x1b" not in out and "evil?[2J?name" in out


def test_variables_that_are_not_utf_8_are_dropped(
    run: Run, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD", "caf\udce9")
    monkeypatch.setenv("EVEN", "café")
    job = submit(ask, "echo [$ODD] [$EVEN]")
    eventually(lambda: ask("show", str(job))["row"]["end"], what="the job has ended")
    assert ask("logs", str(job))["text"] == "[] [café]\n"
    _, _, err = run("submit", "--no-snapshot", "-J", "caf\udce9", "--wrap", "true")
    assert "not UTF-8 text" in err


def test_a_dependency_that_can_never_be_satisfied_is_reported(run: Run, ask: Callable[..., Any]) -> None:
    first = submit(ask, "exit 1")
    second = submit(ask, "true", "-d", f"afterok:{first}")
    eventually(
        lambda: (ask("show", str(second))["row"]["why"] or {}).get("code") == "DependencyNeverSatisfied",
        what="the dependency can never be satisfied",
    )
    _, out, _ = run("why", str(second))
    assert (
        out
        == f"DependencyNeverSatisfied: ended without a start: depends on the success of job {first}, but {first} ended as FAILED\n"
    )
    assert f"afterok:{first}" in run("show", str(second))[1]


def test_options_with_less_effect_are_reported(run: Run) -> None:
    _, _, err = run("submit", "--no-snapshot", "--hold", "-p", "gpu", "--mail-type", "ALL", "--wrap", "true")
    assert "--partition=gpu has no effect: this site has none configured" in err
    assert "--mail-type has no effect here" in err
    _, _, err = run("submit", "--no-snapshot", "--hold", "-p", "main", "-q", "normal", "--wrap", "true")
    assert not err, "sinfo and sacctmgr use this name for the only ones"


def test_a_job_can_run_the_code_of_another_job(
    run: Run, ask: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("layers = 1\n")
    monkeypatch.chdir(tmp_path)
    first = ask("submit", "--hold", "--wrap", "cat model.py")["job_id"]
    (tmp_path / "model.py").write_text("layers = 2\n")
    second = ask("submit", "--hold", "--code-of", str(first), "--wrap", "cat model.py")["job_id"]
    trees = [ask("show", str(job))["snapshot"]["tree"] for job in (first, second)]
    assert trees[0] == trees[1]
    monkeypatch.chdir("/")
    assert run("submit", f"--code-of={first}", "--wrap", "true")[0] == 1
    bare = submit(ask, "true", "--hold")
    code, _, err = run("submit", "--code-of", str(bare), "--wrap", "true")
    assert code == 1
    assert err.startswith(f"warpdeck: job {bare} has no snapshot\n")
    ask("cancel", str(first), str(second), str(bare))


def test_snapshot_show_lists_the_files_that_were_left_out(
    run: Run, ask: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "model.py").write_text("layers = 1\n")
    (tmp_path / ".warpdeckignore").write_text("notes.txt\n")
    (tmp_path / "notes.txt").write_text("x")
    with open(tmp_path / "big.bin", "wb") as file:
        file.truncate(51 * 2**20)
    monkeypatch.chdir(tmp_path)
    answer = ask("submit", "--hold", "--wrap", "true")
    job = str(answer["job_id"])
    ((line,),) = [[note for note in answer["notes"] if "not in the snapshot" in note]]
    assert "big.bin (over 50 MiB and not tracked by git)" in line
    assert ask("snapshot", "show", job)["left_out"] == {
        "count": 2,
        "paths": [
            {"path": "big.bin", "why": "over 50 MiB and not tracked by git"},
            {"path": "notes.txt", "why": "named in .warpdeckignore"},
        ],
    }
    assert "left out 2\n  big.bin (over 50 MiB" in run("snapshot", "show", job)[1]
    ask("cancel", job)


def test_a_sweep_is_an_array_of_every_combination(run: Run, ask: Callable[..., Any], tmp_path: Path) -> None:
    out = f"{tmp_path}/%a.out"
    job = submit(ask, "echo $lr $seed", "--sweep", "lr=0.1,0.01 seed=1..2", "-o", out)
    message = ["0.1 1\n", "0.1 2\n", "0.01 1\n", "0.01 2\n"]
    files = [tmp_path / f"{task}.out" for task in range(4)]
    eventually(lambda: all(path.exists() and path.read_text() for path in files), what="all tasks wrote")
    assert [path.read_text() for path in files] == message
    assert "# sweep: lr=0.1,0.01 seed=1..2\n" in ask("show", f"{job}_0")["script"]
    code, _, err = run("submit", "--sweep", "lr=", "--wrap", "true")
    assert code == 1
    assert "the parameter lr has an empty value" in err


def test_a_job_can_be_repeated_as_recorded(
    run: Run, ask: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("layers = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEED", "7")
    argv = ("-J", "again", "-o", f"{tmp_path}/%j.out", "--wrap", "cat model.py; echo $SEED")
    first = ask("submit", "--hold", "--begin", "now+1", *argv)["job_id"]
    (tmp_path / "model.py").write_text("layers = 2\n")
    monkeypatch.setenv("SEED", "8")
    second = ask("rerun", str(first))["job_id"]
    out = tmp_path / f"{second}.out"
    eventually(lambda: out.exists() and out.read_text().count("\n") == 2, what="the program ran again")
    assert out.read_text() == "layers = 1\n7\n"
    assert ask("show", str(second))["row"]["name"] == "again"
    ask("cancel", str(first))
    code, _, err = run("rerun", str(second), "--set", "lr=1")
    assert code == 1
    assert f"job {second} has no parameter lr" in err
    code, _, err = run("rerun", "999999")
    assert code == 1
    assert "999999" in err


def test_one_task_or_all_tasks_of_an_array_can_be_repeated(ask: Callable[..., Any]) -> None:
    array = submit(ask, "true", "--hold", "--array", "0-3", "-o", "/dev/null")
    assert ask("rerun", f"{array}_2")["tasks"] == 1
    assert ask("rerun", str(array))["tasks"] == 4
    ask("cancel", str(array))


def test_the_variables_of_a_job_are_shown_on_request(
    run: Run, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "7")
    job = submit(ask, "true", "--hold")
    assert "SEED" not in run("show", str(job))[1]
    assert "SEED=7\n" in run("show", "--environment", str(job))[1]
    assert ask("show", "--environment", str(job))["SEED"] == "7"
    ask("cancel", str(job))


def test_the_terminal_of_a_session_can_be_viewed_without_joining(site: Home) -> None:
    text = ["sh", "-c", "echo seen; read line; echo $line"]
    with SyncClient.connect(Paths(site.environ["WARPDECK_HOME"]), start=False) as client:
        draft = draft_command(text, cwd="/", environ={}, now=time.time(), pty=(24, 80))
        job = str(client.call("submit", request=draft.request)["job_id"])
        found = eventually(
            lambda: seen if (seen := glance(client, job)).data else None, what="the job has written"
        )
        assert found is not None
        assert found.data == b"seen\r\n"
        assert glance(client, job, offset=found.offset) == Glance(b"", found.offset)
        client.call("cancel", jobs=[job])
        bare = str(client.call("submit", request=draft.request | {"pty": None})["job_id"])
        with pytest.raises(UserError, match="has no terminal"):
            glance(client, bare)
        client.call("cancel", jobs=[bare])
