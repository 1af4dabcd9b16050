"""Options of srun inside batch jobs on this machine's own node, with the real controller, agent and tasks."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, running
from tests.support.terminal import AtTerminal
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module."""
    with temporary_home() as new_home:
        yield new_home


class Batch:
    """Runs batch scripts in their own folder."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder

    def run(self, script: str, *options: str) -> list[str]:
        """Run the script in a job and return the lines of its output."""
        path = self.folder / "job.sh"
        path.write_text("#!/bin/bash\n" + script)
        argv = ["--no-snapshot", "--wait", "-o", "out.txt", *(options or ("-n2",)), str(path)]
        result = self.home.run("submit", *argv, cwd=self.folder)
        out = self.folder / "out.txt"
        assert out.exists(), result.stdout + result.stderr + self.home.log()
        return out.read_text().splitlines()


@pytest.fixture
def batch(home: Home, short_tmp: Path) -> Batch:
    return Batch(home, short_tmp)


def test_labels_show_the_task_of_each_line(batch: Batch) -> None:
    lines = batch.run("srun -l sh -c 'echo a; printf b'\n")
    assert sorted(lines) == ["0: a", "0: b", "1: a", "1: b"]


def test_each_task_has_its_own_output_file(batch: Batch) -> None:
    batch.run("srun -o logs/task-%t.txt -e err-%2t.txt sh -c 'echo $SLURM_PROCID; echo bad >&2'\n")
    assert (batch.folder / "logs/task-1.txt").read_text() == "1\n"
    assert (batch.folder / "err-00.txt").read_text() == "bad\n"


def test_multi_prog_runs_programs_by_task_id(batch: Batch) -> None:
    (batch.folder / "programs").write_text("0 echo zero %t\n1-2 echo rest %t %o  # of these\n* echo star\n")
    lines = batch.run("srun -O -l -n4 --multi-prog programs\n")
    assert sorted(lines) == ["0: zero 0", "1: rest 1 0", "2: rest 2 1", "3: star"]


def test_srun_passes_on_no_signal_that_it_is_to_ignore(batch: Batch) -> None:
    task = "trap 'echo one' USR1; trap 'echo two; exit' USR2; touch started; while :; do sleep 0.1; done"
    (batch.folder / "task.sh").write_text(task)
    lines = batch.run(
        f"cd {batch.folder}\nsrun -n1 --ignore-signals=USR1,HUP sh task.sh &\n"
        "until [ -e started ]; do sleep 0.1; done\nkill -USR1 $!; kill -HUP $!; kill -USR2 $!; wait\n"
    )
    assert "two" in lines and "one" not in lines


def test_a_failed_task_ends_the_others_with_kill_on_bad_exit(batch: Batch) -> None:
    lines = batch.run("srun -K sh -c '[ $SLURM_PROCID = 0 ] && exit 3; sleep 600'\necho $?\n")
    assert "srun: error: " in lines[0]
    assert lines[0].endswith("task 0: Exited with exit code 3")
    assert lines[-1] == "143"  # This is the highest exit code: the other task was ended by TERM.


def test_wait_limits_the_time_after_the_first_task_ends(batch: Batch) -> None:
    lines = batch.run("srun -W 1 sh -c '[ $SLURM_PROCID = 0 ] || sleep 600'\necho $?\n")
    assert "srun: First task exited 1s ago" in lines
    assert lines[-1] == "143"


def test_input_can_go_to_all_tasks_to_one_or_to_none(batch: Batch) -> None:
    (batch.folder / "in.txt").write_text("a\n")
    assert sorted(batch.run("srun -l --input=in.txt cat\n")) == ["0: a", "1: a"]
    assert sorted(batch.run("srun -l cat < in.txt\n")) == ["0: a", "1: a"]
    assert batch.run("srun -l --input=1 cat < in.txt\n") == ["1: a"]
    assert batch.run("srun -l --input=none cat < in.txt\n") == []


def test_large_input_and_output_arrive_completely(batch: Batch) -> None:
    script = "head -c 20000000 /dev/zero | srun -n1 cat | cksum\nhead -c 20000000 /dev/zero | cksum\n"
    first, second = batch.run(script)
    assert first == second


def test_a_second_step_waits_for_the_first_with_a_message(batch: Batch) -> None:
    lines = batch.run(
        "srun sh -c 'touch here; while [ ! -e go ]; do sleep 0.05; done' &\n"
        "while [ ! -e here ]; do sleep 0.05; done\n"
        "srun true 2> errors & while ! grep -qs busy errors; do sleep 0.05; done; touch go\n"
        "wait\ncat errors\n"
    )
    assert "step creation temporarily disabled, retrying (Requested nodes are busy)" in lines[0]
    assert "Step created for job" in lines[1]


def test_overlapping_or_smaller_steps_run_in_parallel(batch: Batch) -> None:
    wait = "touch $0.{0}; while [ ! -e $0.{1} ]; do sleep 0.05; done"
    first, second = wait.format("a", "b"), wait.format("b", "a")
    for option in ("--exact -n1", "--overlap -n2"):
        lines = batch.run(
            f"srun {option} sh -c '{first}' & srun {option} sh -c '{second}' & wait\necho over\n"
        )
        assert lines[-1] == "over"


def test_an_immediate_step_does_not_wait(batch: Batch) -> None:
    lines = batch.run(
        "srun sh -c 'touch here; while [ ! -e go ]; do sleep 0.05; done' &\n"
        "while [ ! -e here ]; do sleep 0.05; done\nsrun -I true; echo $?; touch go; wait\n"
    )
    assert lines[-1] == "1"
    assert "Requested nodes are busy" in lines[0]


def test_the_environment_is_exported_as_requested(batch: Batch) -> None:
    assert batch.run("export FOO=1\nsrun -n1 sh -c 'echo $FOO'\n") == ["1"]
    assert batch.run("export FOO=1\nsrun -n1 --export=NONE sh -c 'echo .$FOO'\n") == ["."]
    assert batch.run("srun -n1 --export=ALL,BAR=2 sh -c 'echo $BAR'\n") == ["2"]


def test_signals_reach_the_tasks(batch: Batch) -> None:
    lines = batch.run(
        "srun -n1 sh -c 'trap \"echo got it; exit 7\" USR1; touch here; while :; do sleep 0.05; done' &\n"
        "while [ ! -e here ]; do sleep 0.05; done\nkill -USR1 $!; wait $!; echo $?\n"
    )
    assert "got it" in lines  # The shell may report first that its sleep got the signal too.
    assert lines[-1] == "7"


def test_one_interrupt_shows_the_tasks_and_two_end_the_step(batch: Batch) -> None:
    lines = batch.run(
        "srun -n1 sh -c 'touch here; sleep 600' 2> errors &\nwhile [ ! -e here ]; do sleep 0.05; done\n"
        "kill -INT $!; while ! grep -qs running errors; do sleep 0.05; done\n"
        "while kill -INT $! 2>/dev/null; do sleep 0.1; done; cat errors\n"
    )
    assert lines[0] == "srun: interrupt (one more within 1 sec to abort)"
    assert lines[1].endswith("task 0: running")
    assert any("sending Ctrl-C" in line for line in lines)


def test_a_killed_srun_ends_its_step(batch: Batch) -> None:
    lines = batch.run(
        "srun -n1 sh -c 'echo $$ > pid; sleep 600' &\nwhile [ ! -s pid ]; do sleep 0.05; done\n"
        "kill -9 $!\nwhile kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done\necho gone\n"
    )
    assert lines[-1] == "gone"


def test_requests_beyond_the_job_are_refused_at_once(batch: Batch) -> None:
    lines = batch.run(
        "srun -n9 true; echo $?\nsrun -N3 true; echo $?\nsrun -w nowhere true; echo $?\nsrun --mem=201M true; echo $?\n",
        "-n2",
        "--mem=200M",
    )
    assert lines[4] == "srun: error: Only allocated 1 nodes asked for 2"
    reasons = [line.partition(": ")[2] for line in lines if line.startswith("srun: error: Unable")]
    reasons = [line.partition("job ")[2].partition(": ")[2] for line in reasons]
    assert reasons == [
        "More processors requested than permitted",
        "Requested node configuration is not available",
        "Memory required by task is not available",
    ]
    assert "srun: error: 9 tasks of 1 CPUs do not fit on 1 nodes" in lines[1]
    assert lines[3] == "srun: Warning: can't run 2 processes on 3 nodes, setting nnodes to 2"
    assert "node nowhere does not belong to the job" in lines[8]
    assert "the step requests 201M of memory" in lines[11]
    assert [lines[2], lines[6], lines[9], lines[12]] == ["1", "1", "1", "1"]


def test_the_exit_code_of_a_refused_step_can_be_set(batch: Batch) -> None:
    script = """
export SLURM_EXIT_ERROR=77 SLURM_EXIT_IMMEDIATE=78
srun -n9 true; echo $?
srun --exact --whole true; echo $?
srun -n x true; echo $?
srun sh -c 'exit 5'; echo $?
"""
    codes = [line for line in batch.run(script, "-n1") if line.isdecimal()]
    assert codes == ["77", "77", "1", "5"]


def test_exported_counts_act_as_options(batch: Batch) -> None:
    script = """
srun -l true; echo $SLURM_NTASKS
SLURM_NTASKS=1 srun -l echo one
SLURM_NTASKS=1 srun -n2 -l echo two | sort
SLURM_REMOTE_CWD=/ srun -n1 pwd
SLURM_JOB_NUM_NODES=3 srun true; echo $?
"""
    lines = batch.run(script, "-n2")
    assert lines[:5] == ["2", "0: one", "0: two", "1: two", "/"]
    assert lines[5] == "srun: Warning: can't run 2 processes on 3 nodes, setting nnodes to 2"
    assert lines[6] == "srun: error: Only allocated 1 nodes asked for 2" and lines[-1] == "1"


def test_an_immediate_step_on_busy_nodes_is_given_up(batch: Batch) -> None:
    script = """
srun sh -c 'touch begun; while [ ! -e over ]; do sleep 0.1; done' &
while [ ! -e begun ]; do sleep 0.1; done
SLURM_EXIT_IMMEDIATE=78 srun -I true; echo $?
touch over; wait
"""
    lines = batch.run(script, "-n1")
    assert "Requested nodes are busy" in lines[0]
    assert lines[-1] == "1"


def test_invalid_command_lines_are_refused(batch: Batch) -> None:
    lines = batch.run("srun --nosuch true; echo $?\nsrun; echo $?\nsrun -n0 true; echo $?\n")
    assert lines[0] == "srun: unrecognized option '--nosuch'"
    assert lines[1] == 'Try "srun --help" for more information'
    assert "No command given to execute." in lines[4]
    assert lines[7] == 'srun: error: Invalid numeric value "0" for --ntasks.'
    lines = batch.run("srun --cpu-bind=x true; echo $?\nsrun --acctg-freq=x true; echo $?\n")
    assert lines[:2] == [
        'srun: error: unrecognized --cpu-bind argument "x"',
        "srun: fatal: Failed to parse --cpu-bind= values.",
    ]
    assert [lines[3], lines[6]] == ["1", "255"]
    assert lines[4] == "srun: error: Invalid --acctg-freq specification: x"
    lines = batch.run("srun --container-mounts /a true\nsrun --mpi=pmix true\n")
    assert "the container has no image" in lines[0]
    assert "--mpi=pmix is not supported" in lines[2] and "mpirun" in lines[3]


def test_the_mpi_types_are_listed(batch: Batch) -> None:
    assert batch.run("srun --mpi=list; echo $?\n") == ["MPI plugin types are...", "\tnone", "\tpmi2", "0"]


def test_tasks_are_bound_to_separate_cpus(batch: Batch) -> None:
    lines = batch.run("srun --cpu-bind=cores grep Cpus_allowed_list /proc/self/status\n")
    assert len(set(lines)) == 2
    assert all(line.split()[-1].isdecimal() for line in lines)


def test_verbose_cpu_binding_prints_the_mask_of_each_task(batch: Batch) -> None:
    command = "sh -c 'echo pid $$; env | grep ^WARPDECK_BOUND'"
    lines = batch.run(f"srun -l --cpu-bind=verbose {command} 2>&1 | sort\nsrun --cpu-bind=v,none true\n")
    for rank in (0, 1):
        pid, *_ = [line.split()[-1] for line in lines if line.startswith(f"{rank}: pid ")]
        pattern = rf"{rank}: cpu-bind=MASK - \S+, task +{rank} +\d \[{pid}\]: mask 0x[0-9A-F]+ set"
        assert any(re.fullmatch(pattern, line) for line in lines), lines
    assert not any("WARPDECK_BOUND" in line for line in lines)
    unbound = [line for line in lines if line.startswith("cpu-bind=NONE")]
    assert len(unbound) == 2 and all(line.endswith("]: mask 0x0") for line in unbound)


def test_options_print_their_values_with_help(batch: Batch) -> None:
    lines = batch.run("for o in --hint --mem-bind --cpu-bind; do srun $o=help true 2>&-; echo $?; done\n")
    assert [line for line in lines if line.isdecimal()] == ["1", "255", "1"]
    assert sum(line.startswith("--") for line in lines) == 3


@pytest.mark.two_cpus
@pytest.mark.parametrize(("bind", "masks"), [("mask_cpu:0x2,0x1", [1, 0]), ("map_cpu:1,0", [1, 0])])
def test_tasks_are_bound_to_the_given_cpus(batch: Batch, bind: str, masks: list[int]) -> None:
    command = "sh -c 'grep Cpus_allowed_list /proc/self/status'"
    lines = sorted(batch.run(f"srun -l --cpu-bind={bind} {command}\n"))
    assert [int(line.split()[-1]) for line in lines] == masks


def test_a_closed_pipe_ends_the_step(batch: Batch) -> None:
    lines = batch.run("srun -n1 yes | head -1\necho ${PIPESTATUS[0]}\n")
    assert lines[0] == "y"
    assert lines[-1] == "137"


def test_tasks_run_in_the_folder_of_srun_or_the_given_one(batch: Batch) -> None:
    (batch.folder / "sub").mkdir()
    lines = batch.run("cd sub\nsrun -n1 pwd\nsrun -n1 -D /usr pwd\nsrun -n1 -D /nowhere pwd\n")
    assert lines[:2] == [f"{batch.folder}/sub", "/usr"]
    assert any("couldn't chdir to `/nowhere'" in line for line in lines)


INTERRUPTED_SCRIPT = "srun -n1 sh -c 'echo one; touch here; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 4'\necho code $?\n"


def agent_pids(home: Home) -> list[int]:
    """Return the pids of this home's agent."""
    return running(f"serve\0--dir\0{home.path}/agent\0")


@pytest.mark.parametrize("victim", ["controller", "agent"])
def test_a_step_and_its_streams_survive_a_kill(batch: Batch, victim: str) -> None:
    (batch.folder / "job.sh").write_text("#!/bin/bash\n" + INTERRUPTED_SCRIPT)
    home = batch.home
    job = home.json("submit", "--no-snapshot", "-n2", "-o", "out.txt", "job.sh", cwd=batch.folder)["job_id"]
    out = batch.folder / "out.txt"
    eventually(lambda: out.exists() and "one" in out.read_text(), what="the step runs")
    if victim == "controller":
        home.kill_controller()
        home.ok("up")
    else:
        kill(agent_pids(home))
    eventually(lambda: "reconnecting" in out.read_text(), what="srun has noticed the kill")
    (batch.folder / "go").touch()
    eventually(lambda: home.job(job)["end"], what="the job has ended")
    lines = [line for line in out.read_text().splitlines() if not line.startswith("srun: ")]
    assert lines == ["one", "two", "code 4"]


def test_steps_are_recorded_with_state_and_exit_code(batch: Batch) -> None:
    batch.run("srun -n2 true\nsrun -n1 sh -c 'exit 3'\n")
    job = max(row["id"] for row in batch.home.json("queue", "--all"))
    steps = {row["id"].partition(".")[2]: row for row in batch.home.json("show", str(job))["steps"]}
    assert {name: (row["state"], row["exit_code"], row["tasks"]) for name, row in steps.items()} == {
        "batch": ("FAILED", "3:0", 1),
        "extern": ("COMPLETED", "0:0", 1),
        "0": ("COMPLETED", "0:0", 2),
        "1": ("FAILED", "3:0", 1),
    }
    assert f"{job}.1  sh  FAILED 3:0" in batch.home.ok("show", str(job))


def test_a_step_has_usage_curves_while_it_runs_and_after_its_end(batch: Batch) -> None:
    script = "srun -n1 sh -c 'touch here; while [ ! -e go ]; do :; done'\n"
    (batch.folder / "job.sh").write_text("#!/bin/bash\n" + script)
    home = batch.home
    job = home.json("submit", "--no-snapshot", "-n2", "-o", "out.txt", "job.sh", cwd=batch.folder)["job_id"]
    eventually((batch.folder / "here").exists, what="the step runs")
    eventually(lambda: home.json("metrics", f"{job}.0")["curves"], timeout_s=90, what="the step was measured")
    (batch.folder / "go").touch()
    eventually(lambda: home.job(job)["end"], what="the job has ended")
    metrics = home.json("metrics", f"{job}.0")
    [curve] = metrics["curves"]
    assert any(value for value in curve["columns"]["cpu_pct"]) and any(curve["columns"]["mem_bytes"])
    assert metrics["used"]["cpu_seconds"] > 0
    assert "has no step 5" in home.run("metrics", f"{job}.5").stderr


def test_a_cancelled_step_ends_and_its_job_continues(batch: Batch) -> None:
    (batch.folder / "job.sh").write_text("#!/bin/bash\nsrun sh -c 'touch here; sleep 600'\necho after $?\n")
    home = batch.home
    job = home.json("submit", "--no-snapshot", "-n2", "-o", "out.txt", "job.sh", cwd=batch.folder)["job_id"]
    eventually((batch.folder / "here").exists, what="the step runs")
    home.ok("cancel", f"{job}.0")
    eventually(lambda: home.job(job)["end"], what="the job has ended")
    lines = (batch.folder / "out.txt").read_text().splitlines()
    assert lines[-1] == "after 143"
    assert f"srun: error: StepId={job}.0 was cancelled" in lines
    assert "is not running" in home.run("cancel", f"{job}.0").stderr


def test_steps_of_a_cancelled_job_have_its_grace_time(batch: Batch) -> None:
    (batch.folder / "job.sh").write_text(
        "#!/bin/bash\nsrun -n1 sh -c 'trap \"echo saved > saved; exit 0\" TERM; touch here; while :; do sleep 0.05; done'\n"
    )
    home = batch.home
    job = home.json("submit", "--no-snapshot", "-n2", "-o", "out.txt", "job.sh", cwd=batch.folder)["job_id"]
    eventually((batch.folder / "here").exists, what="the step runs")
    home.ok("cancel", str(job))
    eventually(lambda: home.job(job)["end"], what="the job has ended")
    assert (batch.folder / "saved").read_text() == "saved\n"
    assert home.state(job) == "CANCELLED"


def test_a_batch_script_and_each_step_have_a_rendezvous_address(batch: Batch) -> None:
    lines = batch.run(
        "echo $MASTER_ADDR:$MASTER_PORT .$RANK\nsrun -n1 sh -c 'echo $MASTER_ADDR:$MASTER_PORT .$RANK'\n"
    )
    script, step = (line.split(" .") for line in lines)
    assert script[0] != step[0]
    assert (script[1], step[1]) == ("", "0")


def test_a_rendezvous_address_set_by_the_user_is_kept(batch: Batch) -> None:
    script = (
        "export MASTER_ADDR=here MASTER_PORT=29500\nsrun -n1 sh -c 'echo $MASTER_ADDR:$MASTER_PORT $RANK'\n"
    )
    assert batch.run(script) == ["here:29500 0"]


def test_a_command_of_warpdeck_run_has_the_rank_variables(home: Home, short_tmp: Path) -> None:
    argv = ("sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK $NODE_RANK $MASTER_PORT")
    rank, port = home.run("run", *argv, cwd=short_tmp).stdout.rsplit(" ", 1)
    assert rank == "0/1 0 0"
    assert int(port) >= 20_000
    several = home.run("run", "-n2", *argv, cwd=short_tmp).stdout.splitlines()
    assert sorted(line.split()[0] for line in several) == ["0/2", "1/2"]
    assert len({line.split()[-1] for line in several}) == 1


def test_a_task_with_pty_needs_no_terminal_of_srun(batch: Batch) -> None:
    lines = batch.run("srun --pty sh -c 'test -t 0 && test -t 1 && stty size; exit 3' </dev/null; echo $?\n")
    assert "24 80" in lines and lines[-1] == "3"


def test_only_the_first_task_has_the_terminal(batch: Batch) -> None:
    lines = batch.run("srun --pty sh -c 'test -t 0; echo $SLURM_PROCID $?' </dev/null\n")
    assert lines == ["0 0"]
    lines = batch.run("srun --pty sh -c 'test -t 0 || touch other.$SLURM_PROCID' </dev/null\n")
    assert [path.name for path in batch.folder.glob("other.*")] == ["other.1"]


def test_a_shell_in_a_running_job_uses_the_terminal_of_the_user(home: Home, batch: Batch) -> None:
    job = home.ok("submit", "--no-snapshot", "--wrap", "sleep 600", cwd=batch.folder).split()[-1]
    shell = AtTerminal(home, "srun", "--jobid", job, "--overlap", "--pty", "-n1", "sh")
    try:
        fcntl.ioctl(shell.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        prompt = "# " if os.geteuid() == 0 else "$ "
        shell.until(prompt)
        shell.type(
            "echo job $SLURM_JOB_ID; until stty size | grep '33 99'; do sleep 0.1; done; echo si''zed\n"
        )
        assert f"job {job}" in shell.until("sized")
        fcntl.ioctl(shell.master, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 88, 0, 0))
        shell.process.send_signal(signal.SIGWINCH)
        shell.type("until stty size | grep '44 88'; do sleep 0.1; done; echo re''sized; cat; echo c $?\n")
        shell.until("resized")
        shell.type("still here\n")
        shell.until("still here\r\nstill here")
        shell.type("\x03")
        shell.until(prompt)
        shell.type("echo c $?\n")
        shell.until("c 130")
        shell.type("sleep 600 & exit 7\n")
        assert shell.ended() == 7
    finally:
        shell.close()
        home.run("cancel", job)


def test_a_step_of_a_suspended_job_waits_with_a_message(home: Home, short_tmp: Path) -> None:
    script = short_tmp / "job.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    job = str(home.json("submit", "--no-snapshot", "-n1", str(script), cwd=short_tmp)["job_id"])
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    home.ok("suspend", job)
    srun_argv = ["srun", "--jobid", job, "--overlap", "-n1"]
    refused = home.run(*srun_argv, "-I", "true")
    assert refused.returncode == 1
    assert "Requested nodes are busy" in refused.stderr
    assert f"job {job} is suspended" in refused.stderr
    argv = [sys.executable, "-m", "warpdeck.cli.main", *srun_argv, "true"]
    with subprocess.Popen(argv, env=home.environ, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == f"srun: job {job} is suspended\n"
        home.ok("cancel", job)
        messages = waiting.stderr.read()
    assert "Step created" not in messages
    assert f"job {job} has ended" in messages
