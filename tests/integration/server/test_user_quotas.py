"""The site's quotas of jobs, requests and code snapshots, and the removal of snapshots that nobody needs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.server.test_server import ANN, BOB
from tests.support.core import make_request
from tests.support.served import Raw, Served, served

from warpdeck.base.errors import UserError
from warpdeck.config.tables import Quotas
from warpdeck.controller.launch.code_trees import StoredTree, TreeFiles
from warpdeck.controller.launch.tree_collection import GRACE_S, TreeCollector, superfluous
from warpdeck.model import Snapshot

pytestmark = pytest.mark.root
NOW = 1_000_000.0
CODE = b"packed code"


async def submit(raw: Raw, number: int, **fields: Any) -> dict[str, Any]:
    request = msgspec.to_builtins(make_request(**fields))
    return await raw.request("submit", request=request, nonce=f"{number:032x}")


async def quota_of(raw: Raw) -> dict[str, Any]:
    found: dict[str, Any] = (await raw.request("status"))["result"]["quota"]
    return found


async def test_a_user_at_the_limit_of_jobs_is_refused_and_others_are_not(short_tmp: Path) -> None:
    async with served(short_tmp / "h", quotas=Quotas(max_jobs=3)) as site:
        ann, bob = [await Raw.connect(site.paths, uid=uid) for uid in (ANN, BOB)]
        array = {"ranges": [[0, 999, 1]]}
        for number in range(2):
            assert (await submit(ann, number, hold=True))["t"] == "ok"
        request = msgspec.to_builtins(make_request(hold=True)) | {"array": array}
        last = await ann.request("submit", request=request, nonce="9" * 32)
        assert last["t"] == "ok", "a pending array counts as one job"
        refused = await submit(ann, 3)
        assert refused["code"] == "QuotaMaxJobs" and "3 unfinished jobs; the limit is 3" in refused["message"]
        assert "cancel some" in refused["hint"]
        assert (await submit(bob, 4))["t"] == "ok"
        root = await Raw.connect(site.paths)
        for number in range(5, 10):
            assert (await submit(root, number))["t"] == "ok", "admins have no quota"
        found = await quota_of(ann)
        assert (found["jobs"], found["max_jobs"]) == (3, 3)
        await ann.request("cancel", jobs=[str(last["result"]["job_id"])])
        assert (await quota_of(ann))["jobs"] == 2
        assert (await submit(ann, 11))["t"] == "ok"
        for raw in (ann, bob, root):
            await raw.close()


async def test_the_size_of_waiting_requests_is_limited(short_tmp: Path) -> None:
    async with served(short_tmp / "h", quotas=Quotas(max_request_size=2**20)) as site:
        ann = await Raw.connect(site.paths, uid=ANN)
        for number in range(2):
            assert (await submit(ann, number, hold=True, env={"A": "x" * 400_000}))["t"] == "ok"
        refused = await submit(ann, 3, env={"A": "x" * 400_000})
        assert refused["code"] == "QuotaRequestSize" and "the limit is 1 MiB" in refused["message"]
        assert (await submit(ann, 4, hold=True))["t"] == "ok"
        found = await quota_of(ann)
        assert 800_000 < found["request_bytes"] < 810_000 and found["max_request_bytes"] == 2**20
        await ann.close()


def put(trees: TreeFiles, uid: int, number: int, *, used_unix: float, content: bytes = CODE) -> str:
    """Store a tree as an upload does, and return its id."""
    tree = f"{number:040x}"
    upload = trees.receive(uid, tree, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    upload.write(content)
    upload.finish()
    os.utime(trees.path(uid, tree), (used_unix, used_unix))
    return tree


def test_the_trees_to_remove_are_old_or_over_the_quota_and_not_needed() -> None:
    quotas = Quotas(max_trees=3, max_trees_size=300, keep_trees_s=10 * GRACE_S)

    def of(*ages: float) -> list[StoredTree]:
        return [StoredTree(str(number), 100, NOW - age * GRACE_S) for number, age in enumerate(ages)]

    def gone(stored: list[StoredTree], needed: set[str], new_bytes: Sequence[int] = ()) -> list[str]:
        found = superfluous(stored, quotas, needed=needed, now=NOW, new_bytes=new_bytes)
        return [each.tree for each in found]

    assert gone(of(1.5, 2, 3), set()) == []
    assert gone(of(1.5, 2, 3), set(), new_bytes=[50]) == ["2"]
    assert gone(of(1.5, 2, 3), {"2"}, new_bytes=[50]) == ["1"]
    assert gone(of(0.5, 0.5, 0.5), set(), new_bytes=[50]) == [], "a client may be about to submit them"
    assert gone(of(11, 2, 12), set()) == ["2", "0"]
    assert gone(of(11, 2, 12), {"0"}) == ["2"]
    assert gone(of(1.5), set(), new_bytes=[10_000]) == ["0"]


async def filled(site: Served) -> tuple[TreeCollector, TreeFiles]:
    trees = TreeFiles(site.paths.trees)
    return TreeCollector(state=site.controller.state, trees=trees, clock=lambda: NOW), trees


async def test_trees_of_unfinished_jobs_stay_until_the_jobs_end(short_tmp: Path) -> None:
    async with served(short_tmp / "h", quotas=Quotas(keep_trees_s=GRACE_S)) as site:
        collector, trees = await filled(site)
        ann = await Raw.connect(site.paths, uid=ANN)
        old = NOW - 3 * GRACE_S
        kept, gone = [put(trees, ANN, number, used_unix=old) for number in (1, 2)]
        same = put(trees, BOB, 1, used_unix=old)
        snapshot = Snapshot(commit="0" * 40, tree=kept, root="/x")
        made = await submit(ann, 1, hold=True, snapshot=snapshot)
        assert os.stat(trees.path(ANN, kept)).st_mtime > NOW, "a submission is a use"
        os.utime(trees.path(ANN, kept), (old, old))
        await collector.collect()
        assert trees.find(ANN, kept) is not None
        assert trees.find(ANN, gone) is None and not os.path.exists(trees.path(ANN, gone))
        assert trees.find(BOB, same) is None, "another user's job does not keep it"
        await ann.request("cancel", jobs=[str(made["result"]["job_id"])])
        await collector.collect()
        assert os.listdir(os.path.dirname(trees.path(ANN, kept))) == []
        again = await ann.request("rerun", job=str(made["result"]["job_id"]), nonce="8" * 32)
        assert again["code"] == "need_tree"
        await ann.close()


async def test_an_upload_over_the_quota_is_refused_unless_an_old_tree_can_go(short_tmp: Path) -> None:
    async with served(short_tmp / "h", quotas=Quotas(max_trees=2), clock=lambda: NOW) as site:
        collector, trees = await filled(site)
        old = put(trees, ANN, 1, used_unix=NOW - 2 * GRACE_S)
        new = put(trees, ANN, 2, used_unix=NOW)
        collector.make_room(ANN, 10)
        assert trees.find(ANN, old) is None and trees.find(ANN, new) is not None
        put(trees, ANN, 3, used_unix=NOW)
        with pytest.raises(UserError, match=r"you would have 3 code snapshots.*the limit is 2"):
            collector.make_room(ANN, 10)
        ann = await Raw.connect(site.paths, uid=ANN)
        refused = await ann.request("put_tree", tree="4" * 40, sha256="0" * 64, size_bytes=10)
        assert refused["code"] == "QuotaTrees" and ".gitignore" in refused["hint"]
        os.utime(trees.path(ANN, new), (1.0, 1.0))
        ann.send("put_tree", id=7, tree="5" * 40, sha256="0" * 64, size_bytes=10)
        assert (await ann.next())["t"] == "ack"
        put(trees, ANN, 4, used_unix=NOW)
        refused = await ann.request("put_tree", tree="6" * 40, sha256="0" * 64, size_bytes=10, number=8)
        assert refused["code"] == "QuotaTrees", "an upload in progress counts"
        os.unlink(trees.path(ANN, f"{4:040x}"))
        found = await quota_of(ann)
        assert (found["trees"], found["tree_bytes"]) == (1, len(CODE))
        await ann.close()


def test_a_killed_upload_or_removal_leaves_nothing_that_counts(tmp_path: Path) -> None:
    """The files are those that a kill after each step of an upload and of a removal leaves behind."""
    trees = TreeFiles(str(tmp_path))
    part = trees.receive(7, "a" * 40, sha256="0" * 64, size_bytes=99)
    part.write(b"some")
    without_digest = put(trees, 7, 1, used_unix=NOW)
    os.unlink(trees.path(7, without_digest) + ".sha256")
    assert trees.find(7, without_digest) is None
    trees.remove_partial()
    assert sorted(os.listdir(tmp_path / "7")) == [f"{without_digest}.tar.gz"]
    assert [each.tree for each in trees.stored(7)] == [without_digest], "the next collection removes it"
    assert put(trees, 7, 1, used_unix=NOW) == without_digest
    assert trees.find(7, without_digest) is not None
    os.close(part._descriptor)
