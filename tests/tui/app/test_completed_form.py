"""The form completes paths, and offers partitions, accounts and QoS with what is free in each."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from tests.tui.app.test_submit import SCRIPT, fill, open_form

from warpdeck.base.errors import UserError
from warpdeck.protocol.site_rows import PartitionRow, QosRow, ShareRow, UseRow
from warpdeck_tui.data.user_folders import MAX_ENTRIES, MAX_THREADS, in_own_thread, list_folder, only_script
from warpdeck_tui.viewmodels.job_form.form import FIELDS
from warpdeck_tui.viewmodels.job_form.path_completion import completed, folder_of, matching
from warpdeck_tui.viewmodels.site.choices import SiteFacts, choices, that_begin

FACTS = SiteFacts(
    partitions=[
        PartitionRow(name="main", default=True, gpus=64, gpus_used=52, max_time_s=7200),
        PartitionRow(name="cpu", cpus=8, cpus_used=8),
        PartitionRow(name="old", state="DOWN"),
        PartitionRow(name="theirs", allow_users=["bob"]),
    ],
    qos=[
        QosRow(name="normal", limits={"max_tres_per_user": {"gpu": 8}, "max_wall_s": 3600}),
        QosRow(name="high"),
    ],
    shares=[
        ShareRow(account="lab", limits={"grp_tres": {"gpu": 6}}),
        ShareRow(account="vision", parent="lab"),
        ShareRow(account="vision", user="ann", default=True, qos=["normal"], holds={"grp_tres": {"gpu": 4}}),
        ShareRow(account="text", user="ann", qos=["normal"]),
    ],
    uses=[
        UseRow(account="lab", tres={"gpu": 6}),
        UseRow(account="vision", user="ann", tres={"gpu": 1}),
        UseRow(qos="normal", user="ann", tres={"gpu": 2}),
    ],
)


def words(field: str) -> dict[str, str]:
    return {each.value: each.words for each in choices(field, FACTS, user="ann")}


def test_partitions_say_what_is_free() -> None:
    assert words("partition") == {
        "main": "12 of 64 GPUs free, default, up to 2 h",
        "cpu": "0 of 8 CPUs free",
        "old": "down",
    }


def test_accounts_and_qos_say_what_remains_of_their_limit() -> None:
    assert words("account") == {"vision": "0 of 6 GPUs left, default", "text": "no limit of GPUs"}
    assert words("qos") == {"normal": "6 of 8 GPUs left, up to 1 h"}


def test_the_list_follows_the_typed_text() -> None:
    found = choices("partition", FACTS, user="ann")
    assert [each.value for each in that_begin(found, "m")] == ["main"]
    assert len(that_begin(found, "main")) == len(that_begin(found, "nothing")) == 3


def test_paths_are_completed_as_in_a_shell() -> None:
    entries = [(".git", True), ("run", True), ("run.sh", False), ("runs.txt", False)]
    assert matching("", entries, only_folders=False) == ["run/", "run.sh", "runs.txt"]
    assert matching("a/r", entries, only_folders=True) == ["a/run/"]
    assert matching(".", entries, only_folders=False) == [".git/"]
    assert completed("r", ["run.sh", "runs.txt"]) == "run"
    assert completed("x", []) == "x"
    assert folder_of("a/r", "/work") == "/work/a/"
    assert folder_of("~/r", "/work") == os.path.expanduser("~/")


def test_no_hint_looks_like_a_value() -> None:
    assert all(not field.hint or field.hint.startswith("e.g. ") for field in FIELDS)


def test_the_reading_of_a_folder_is_limited(folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(MAX_ENTRIES + 5):
        (many / f"{number:05}.sh").touch()
    listing = list_folder(str(many))
    assert len(listing.entries) == MAX_ENTRIES
    assert listing.is_cut
    assert only_script(str(many)) == ""
    assert list_folder(str(folder / "none")).entries == ()


def test_a_script_is_the_only_one_if_the_other_files_are_no_scripts(folder: Path) -> None:
    (folder / "work/train.slurm").write_text("# a comment\n#SBATCH --gpus=1\n")
    (folder / "work/data.sh").write_text("1,2,3")
    (folder / "work/old.sh").mkdir()
    os.mkfifo(folder / "work/pipe.sh")
    assert only_script(str(folder / "work")) == "train.slurm"
    (folder / "work/eval.sh").write_text(SCRIPT)
    assert only_script(str(folder / "work")) == ""


async def test_a_file_system_that_does_not_answer_costs_few_threads() -> None:
    answers = threading.Event()
    waiting = [asyncio.create_task(in_own_thread(answers.wait)) for _ in range(MAX_THREADS)]
    await asyncio.sleep(0)
    with pytest.raises(UserError, match="does not respond"):
        await in_own_thread(answers.wait)
    answers.set()
    await asyncio.gather(*waiting)
    assert await in_own_thread(lambda: 3) == 3


async def test_tab_completes_the_script_and_then_lists_the_candidates(folder: Path) -> None:
    for name in ("train.sh", "train-big.sh", "eval.sh"):
        (folder / "work" / name).write_text(SCRIPT)
    (folder / "work/data").mkdir()
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.type("t")
        await ui.press("tab")
        await ui.until(lambda: ui.field("script").value == "train", "the common part is completed")
        await ui.press("tab")
        await ui.shows("2 PATHS", "train-big.sh", "Enter takes it")
        await ui.press("down", "enter")
        await ui.until(lambda: ui.field("script").value == "train.sh", "the second one is taken")
        await ui.shows("#SBATCH -J from-script")
        assert not ui.cluster.controller.state.jobs
        await ui.press("tab")
        await ui.until(lambda: ui.app.screen.focused is ui.field("wrap"), "the name is complete")
        await fill(ui, "script", "da")
        ui.field("script").focus()
        await ui.press("end", "tab")
        await ui.until(lambda: ui.field("script").value == "data/", "the folder is completed")


async def test_escape_closes_the_list_and_not_the_form(folder: Path) -> None:
    for name in ("a1.sh", "a2.sh"):
        (folder / "work" / name).write_text(SCRIPT)
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.type("a")
        await ui.press("tab")
        await ui.shows("2 PATHS", "a1.sh")
        await ui.press("escape")
        await ui.hides("2 PATHS")
        await ui.shows("New job", "#!/bin/sh")


async def go_to(ui: AppPilot, field: str) -> None:
    ui.field(field).focus()
    await ui.settle()


async def test_a_partition_is_chosen_from_a_list_with_its_free_gpus(folder: Path) -> None:
    (folder / "home").mkdir()
    (folder / "home/config.toml").write_text(
        '[partitions.main]\nnodes = "gpu01"\n[partitions.test]\nnodes = "gpu02"\n'
    )
    async with run_app(folder) as ui:
        await open_form(ui)
        await fill(ui, "wrap", "true")
        await go_to(ui, "partition")
        await ui.shows("PARTITION", "main", "4 of 4 GPUs free", "Space opens the list")
        await ui.press("space", "down", "enter")
        assert ui.field("partition").value == "test"
        await ui.shows("$ warpdeck submit --partition=test --wrap true", "starts now on gpu02")
        await fill(ui, "partition", "")
        await ui.type("m")
        await ui.press("tab")
        await ui.until(lambda: ui.field("partition").value == "main", "the name is completed")
        await go_to(ui, "name")
        await ui.hides("PARTITION")
        await ui.type("a b")
        assert ui.field("name").value == "a b"
