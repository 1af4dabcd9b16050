"""Submissions to a real Slurm: the environment, code, arguments, arrays and components of jobs."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from tests.integration.engines.rig import Rig
from tests.integration.engines.slurm_rig import slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import VERSIONS, RealSlurm
from tests.support.waiting import eventually_async

from warpdeck.base.errors import UserError
from warpdeck.model import ArraySpec, Request, Resources, Snapshot
from warpdeck.protocol import requests as ask

TREE = "ab" * 20
OF_THE_SITE = (
    "SLURM",
    "HYDRA",
    "I_MPI",
    "OMPI",
    "PRTE",
    "ZE_",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "TMPDIR",
)
OF_THE_RIG = {"PATH", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "ENVIRONMENT"}
"""Variables that the rig's program around sbatch and the shells set."""


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    with small_slurm(request.param) as peer:
        yield peer


@pytest.fixture
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


def out(rig: Rig, job: str, name: str = "slurm-{job}.out") -> str:
    return (rig.folder / name.format(job=job)).read_text()


@pytest.mark.slurm
async def test_a_job_gets_exactly_the_environment_of_its_request(rig: Rig) -> None:
    env = {
        "PATH": "/usr/bin:/bin",
        "SECRET": "in no command line",
        "TEXT": "two\nlines 'x' \"$HOME\"",
        "SBATCH_PARTITION": "nowhere",
        "SLURM_CONF": "/nowhere",
    }
    job = await rig.ran("env -0 >env; cat /proc/*/cmdline >cmdlines 2>/dev/null", env=env)
    pairs = (rig.folder / "env").read_bytes().decode().split("\0")
    found = dict(pair.split("=", 1) for pair in pairs if pair)
    rest = {
        name: text
        for name, text in found.items()
        if not name.startswith(OF_THE_SITE) and name not in OF_THE_RIG
    }
    assert rest == {name: text for name, text in env.items() if name not in {"PATH", "SLURM_CONF"}}
    assert found["SLURM_JOB_ID"] == job and found["SLURM_SUBMIT_DIR"] == str(rig.folder)
    assert "in no command line" not in (rig.folder / "cmdlines").read_text(errors="replace")
    [folder] = (rig.folder.parent / "shared" / "jobs").iterdir()
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.slurm
async def test_arguments_of_scripts_and_commands_arrive_unchanged(rig: Rig) -> None:
    words = ("-x", "", "a b", ":", "--", "$HOME", "line\nbreak", "'")
    job = await rig.ran("printf '%s|' \"$@\"", script_args=words)
    assert out(rig, job) == "".join(f"{word}|" for word in words)
    request = Request(
        argv=("printf", "%s|", *words), submit_dir=str(rig.folder), env={"PATH": "/usr/bin:/bin"}
    )
    made = await rig.engine.submissions.submit(rig.user, ask.Submit(request=request))
    await rig.reached(made.label)
    assert out(rig, made.label) == "".join(f"{word}|" for word in words)


@pytest.mark.slurm
async def test_a_command_runs_as_all_of_its_tasks(rig: Rig) -> None:
    request = Request(
        argv=("sh", "-c", "echo task $SLURM_PROCID"),
        resources=Resources(tasks=3, cpus_per_task=2),
        submit_dir=str(rig.folder),
        env={"PATH": "/usr/bin:/bin"},
    )
    made = await rig.engine.submissions.submit(rig.user, ask.Submit(request=request))
    await rig.reached(made.label)
    assert sorted(out(rig, made.label).split("\n")) == ["", "task 0", "task 1", "task 2"]


@pytest.mark.slurm
async def test_tasks_of_an_array_have_their_own_records_with_the_script(rig: Rig) -> None:
    array = ArraySpec(ranges=((1, 5, 2),), throttle=2)
    message = ask.Submit(request=rig.request("echo $SLURM_ARRAY_TASK_ID", array=array))
    made = await rig.engine.submissions.submit(rig.user, message)
    assert (made.tasks, made.label) == (3, f"{made.job_id}_[1-5:2]")
    await rig.reached(str(made.job_id))
    for task in (1, 3, 5):
        detail = await rig.detail(f"{made.job_id}_{task}")
        assert (detail.row.state, detail.script) == ("COMPLETED", "#!/bin/sh\necho $SLURM_ARRAY_TASK_ID\n")
        assert (rig.folder / f"slurm-{made.job_id}_{task}.out").read_text() == f"{task}\n"
    again = await rig.engine.submissions.rerun(rig.user, ask.Rerun(job=f"{made.job_id}_3"))
    assert again.tasks == 1 and again.label == f"{again.job_id}_3"
    await rig.reached(str(again.job_id))


@pytest.mark.slurm
async def test_an_array_of_plain_sbatch_has_all_its_tasks_however_long_their_list_is(
    slurm: RealSlurm, rig: Rig
) -> None:
    tasks = ",".join(str(1000 + 7 * number**2) for number in range(60))
    job = slurm.ok("sbatch", "--parsable", "--hold", f"--array={tasks}", "--wrap=true").strip()
    await rig.until(f"{job}_[{tasks}]", lambda row: row.state == "PENDING")
    slurm.ok("scancel", job)


@pytest.mark.slurm
async def test_components_are_recorded_with_their_requests_and_rerun_together(rig: Rig) -> None:
    first, second = rig.request("true", name="first", hold=True), rig.request("", name="second", hold=True)
    second = msgspec.structs.replace(second, resources=Resources(tasks=3))
    message = ask.Submit(request=first, components=(second,), nonce="het" + os.urandom(8).hex())
    made = await rig.engine.submissions.submit(rig.user, message)
    assert made.label == f"{made.job_id}+0"
    assert await rig.engine.submissions.submit(rig.user, message) == made
    other = str(made.job_id + 1)
    await rig.until(f"{made.job_id}+1", lambda row: row.name == "second")
    assert (await rig.detail(other)).row.label == f"{made.job_id}+1"
    again = await rig.engine.submissions.rerun(rig.user, ask.Rerun(job=str(made.job_id)))
    await rig.until(f"{again.job_id}+1", lambda row: row.name == "second")
    await rig.cancel(str(made.job_id), str(again.job_id))


def packed() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in (("code.txt", b"snapshot\n"), ("sub/here.txt", b"here\n")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return data.getvalue()


async def upload(rig: Rig) -> None:
    data = packed()
    put = ask.PutTree(tree=TREE, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
    upload = await rig.engine.submissions.receive_tree(rig.user, put)
    upload.write(data)
    upload.finish()


def snapshot(rig: Rig, **fields: Any) -> Snapshot:
    return Snapshot(commit="c", tree=TREE, root=str(rig.folder), **fields)


@pytest.mark.slurm
async def test_a_job_runs_the_code_of_its_submission(rig: Rig) -> None:
    (rig.folder / "code.txt").write_text("changed since\n")
    (rig.folder / "data").mkdir()
    found = snapshot(rig, subdir="sub", links=("data",))
    with pytest.raises(UserError) as missing:
        await rig.submit("true", snapshot=found)
    assert missing.value.code == "need_tree"
    await upload(rig)
    job = await rig.ran("cat here.txt ../code.txt; readlink ../data", snapshot=found)
    assert out(rig, job) == f"here\nsnapshot\n{rig.folder}/data\n"
    again = await rig.engine.submissions.rerun(rig.user, ask.Rerun(job=job))
    await rig.reached(again.label)
    assert out(rig, again.label) == f"here\nsnapshot\n{rig.folder}/data\n"


@pytest.mark.slurm
async def test_a_job_waits_for_its_code_and_then_starts(rig: Rig) -> None:
    due = time.time() + 600
    job = await rig.submit("pwd", code_due_unix=due, in_place=True)
    assert (await rig.detail(job)).row.state == "PENDING"
    await upload(rig)
    recorded = await rig.engine.orders.record_code(
        rig.user, ask.CodeRecorded(jobs=(job,), snapshot=snapshot(rig))
    )
    assert recorded.jobs == [job]
    await rig.reached(job)
    assert out(rig, job) == f"{rig.folder}\n"
    detail = await rig.detail(job)
    assert detail.snapshot is not None and detail.snapshot["tree"] == TREE
    with pytest.raises(UserError, match="does not wait for a code snapshot"):
        await rig.engine.orders.record_code(rig.user, ask.CodeRecorded(jobs=(job,)))


@pytest.mark.slurm
async def test_a_forecast_names_the_start_the_nodes_and_the_refusal(rig: Rig) -> None:
    forecast = rig.engine.submissions.dry_run
    found = await forecast(rig.user, ask.DryRun(request=rig.request("true")))
    assert (found.verdict, found.node_list, found.partition) == ("now", rig.node, "gpu")
    later = rig.request("true", begin_at_unix=time.time() + 7200)
    found = await forecast(rig.user, ask.DryRun(request=later))
    assert found.verdict == "later" and found.expected_start is not None
    assert abs(found.expected_start - time.time() - 7200) < 120
    held = await forecast(rig.user, ask.DryRun(request=rig.request("true", hold=True)))
    assert held.verdict == "now"
    both = ask.DryRun(request=rig.request("true"), components=(rig.request("true"),))
    assert (await forecast(rig.user, both)).cpus >= 2
    wrong = await forecast(rig.user, ask.DryRun(request=rig.request("true", partition="nowhere")))
    assert wrong.verdict == "never" and "partition" in wrong.sentence.lower()


@pytest.mark.slurm
async def test_other_users_and_impossible_texts_are_refused(rig: Rig) -> None:
    with pytest.raises(UserError, match="acts for its own user only"):
        await rig.engine.submissions.submit(rig.other, ask.Submit(request=rig.request("true")))
    with pytest.raises(UserError, match="NUL"):
        await rig.submit("echo a\0b")
    with pytest.raises(UserError, match="does not exist on this machine"):
        await rig.submit("true", submit_dir="/no/such/folder")
    with pytest.raises(UserError, match="neither a script nor a command"):
        await rig.engine.submissions.submit(rig.user, ask.Submit(request=Request(submit_dir=str(rig.folder))))
    assert list((rig.folder.parent / "shared" / "jobs").iterdir()) == []


@pytest.mark.slurm
async def test_long_names_and_comments_are_recorded_completely(rig: Rig) -> None:
    name, comment = "é" * 60, " c" * 100
    job = await rig.ran("true", name=name, comment=comment)
    row = (await rig.detail(job)).row
    assert (row.name, row.comment) == (name, comment)


@pytest.mark.slurm
async def test_a_job_gets_the_soft_limits_of_its_request(rig: Rig) -> None:
    job = await rig.ran("ulimit -Sn; ulimit -Sc", limits={"NOFILE": 321, "CORE": 0})
    assert out(rig, job) == "321\n0\n"


@pytest.mark.slurm
async def test_an_environment_that_no_process_can_receive_is_refused(rig: Rig) -> None:
    with pytest.raises(UserError, match="Argument list too long"):
        await rig.submit("true", env={"LARGE": "x" * 200_000})
    assert list((rig.folder.parent / "shared" / "jobs").iterdir()) == []


@pytest.mark.slurm
async def test_a_submission_goes_on_if_its_client_leaves(rig: Rig) -> None:
    message = ask.Submit(request=rig.request("true", hold=True), nonce=os.urandom(8).hex())
    for turns in range(40):
        leaving = asyncio.create_task(rig.engine.submissions.submit(rig.user, message))
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
    made = await rig.engine.submissions.submit(rig.user, message)
    assert await rig.engine.submissions.submit(rig.user, message) == made
    rows = await rig.engine.jobs.rows(rig.user, ask.Jobs(names=("job",)))
    assert [row.label for row in rows[0 : len(rows)] if not isinstance(row, dict)].count(made.label) == 1
    folder = rig.folder.parent / "shared" / "jobs"
    # The submissions of the clients that have left may still be preparing folders.
    await eventually_async(lambda: len(list(folder.iterdir())) == 1, what="one folder is left")


@pytest.mark.slurm
async def test_a_job_of_plain_sbatch_is_not_submitted_again(slurm: RealSlurm, rig: Rig) -> None:
    job = slurm.ok("sbatch", "--hold", "--parsable", "--wrap=true").strip()
    await rig.until(job, lambda row: row.name == "wrap")
    with pytest.raises(UserError, match="was not submitted with warpdeck"):
        await rig.engine.submissions.rerun(rig.user, ask.Rerun(job=job))
    await rig.cancel(job)
