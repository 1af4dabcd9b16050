"""Filters, job lists and questions of scancel beside a real Slurm with the same jobs and command lines.

Each line prints the same, has the same exit code, and leaves the same jobs. Messages about several jobs may
come in any order.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterator, Sequence

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.random_command_lines import random_scancel_line
from tests.slurm_parity.peer.real_slurm import CommandResult
from tests.slurm_parity.peer.warpdeck_cluster import SITE

pytestmark = pytest.mark.slurm
WARPDECK_SITE = f"""{SITE}
[accounts.ml.users.root]
[accounts.ml.users.nobody]
[accounts.bio.users.root]
default = true
"""
JOBS = {
    "plain": ("-J", "plain"),
    "other": ("-J", "other"),
    "debug": ("-J", "dbg", "-p", "debug"),
    "both": ("-J", "both", "-p", "gpu,debug"),
    "ml": ("-J", "train", "-A", "ml"),
    "array": ("-J", "arr", "-a0-9"),
    "more": ("-J", "more", "-a0-3"),
    "listed": ("-J", "a,b"),
    "limited": ("-J", "lim", "-a0-3%2"),
    "done": ("-J", "done"),
}
"""The jobs are all held, and the last one is cancelled."""
CASES = (
    "-n plain,other", "-n PLAIN", "-n pla", "-A nope", "-q nosuch", "-R nosuch", "-p GPU", "-p debug,gpu", "-w n9",
    "-w n1 -t PD", "-t CG", "-t completing", "-t CF -v", "-t CD -v", "-t RQ", "-t run", "-t all -u root", "-t foo",
    "-u nobody", "-u nosuch", "--me -u nobody", "-u nobody {plain}", "-v -n nosuch", "--me -v -n nosuch",
    "AS=nobody -v --me -n nosuch", "-v -p debug {plain}",
    "{array}_[0-3:2]", "{array}_[0-1%1]", "{array}_[", "{array}_[]", "{array}_x", "{array}_[1-0]", "{array}_[1-2].0",
    "{array}_99", "{plain}x", "{plain} 0", "abc {plain}", "{done}.0", "-s 0 {plain}", "-s 10x {plain}", "-s= {plain}",
    "-s USR1 99999", "-Q -s USR1 99999", "{done}", "-s USR1 {done}", "-s KILL {done}", "-v {done}",
    "-Qv {done}", "-Q -s USR1 {done}", "99999", "-v 99999",
    "--sibling=foo {plain}", "--sibling foo", "-i -n plain", "--nosuch", "-Z", "--me word", "--help=x",
    "AS=nobody {plain}", "AS=nobody -v {plain}", "AS=nobody -s USR1 {plain}", "AS=nobody -u root",
    "-i {plain}", "-i {array}_3 {more}", "-i {done} {plain}", "-i 99999 99998.3 {array}_[77-78] {array}_99", "-Q -i 99999",
    "-i {plain}.3", "-i -s USR1 99999", "-n nosuch 99999 {plain}", "-v -n nosuch 99999.1", "-u nobody {array}_99",
    "-n= {plain}", "-v --name=", "-v --account=", "-v --partition=", "-v --qos=", "-v --reservation=", "-v --nodelist=",
    "-v --wckey=", "--user= {plain}", "--state= {plain}", "-v -w n[1- {plain}", "--name= -u root", "--user= -n plain",
    "SCANCEL_NAME= {plain}", "SCANCEL_STATE= {plain}", "SCANCEL_USER= {plain}", ", {plain}", "{plain},",
    "-vvv -f -H 99999", "-vvv --me -n nosuch -s 9 98_[1-2] 97.4", "-vvv -i -t PD -w n1 -p gpu -q x -R y -A z --wckey w 99999",
    "-vvv --ctld -u nobody -n nosuch", "-QvvQvv 99999",
    "{array}_", "-v {array}_", "{plain}.", "-v {done}.", "{plain}.x", "{plain}_-1", "-v -b {plain}_1",
    "-v {array}+1", "AS=nobody {array}_99", "AS=nobody -v {array}_99", "AS=nobody {done}.0", "-u nosuch {array}_[x]", "-t foo -s x",
    "-s x -t foo",    "-v -t SUSPENDED {done}", "-v -n nosuch {array}_[8-11]", "-v -n nosuch {array}_*.0",
    "-Q -b {array}_[8-11]99", "-v --me -n nosuch {array}_", "-v -A ML -n nosuch", "SCANCEL_VERBOSE=tr -u nobody",
    "SCANCEL_FULL= -u nobody",
    "-i {more}_1 {array}_[2-3] {plain}", "-i {limited}", "-v -n nosuch {limited}",
    "AS=nobody {array}_1", "AS=nobody --me", "SCANCEL_STATE=foo -u root", "SCANCEL_VERBOSE=xx -u nobody",
    "SCANCEL_USER=nobody {plain}", "SCANCEL_NAME=other {plain}", "SCANCEL_CTLD=xx -u nobody",
    "SCANCEL_VERBOSE=t -n a,b", "-A ML", "-p debug", "-p gpu,debug", "{array}_1", "-v {array}_[2-3,5,77]", "+0{array}_7",
    "{array}_0,{array}_4",    "-v {array}_6 -n dbg", "-t PD {plain} {other}", "-s KILL {more}", "{array}_*", "{debug}_",
    "-H --ctld -u root",
)  # fmt: skip
"""The cases run in this order. Lines that cancel nothing come first, and the last line cancels all remaining
jobs.
"""
RANDOM_JOBS = {
    "plain": ("-J", "plain", "-A", "ml"),
    "dbg": ("-J", "dbg", "-p", "debug", "-A", "bio"),
    "hers": ("-J", "hers", "-A", "ml"),
    "arr": ("-J", "arr", "-a1-6", "-A", "ml"),
    "lim": ("-J", "arr", "-a0-3%2", "-A", "bio"),
    "het": ("-J", "aa", "-A", "ml", ":", "-J", "bb", "-A", "ml"),
    "done": ("-J", "done", "-A", "ml"),
}
RANDOM_LINES = 120
NOISE = re.compile(r"scancel: (?:select/|debug).*\n")
"""Output of plug-ins of the real scancel."""
ANSWERS = "x\n\n" + "no\n" * len(JOBS)
"""Answers to confirmation questions. The first two are invalid."""
REMAINING_JOBS = ("squeue", "-h", "-r", "-S", "i", "-o", "%i %T")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Both schedulers with the same jobs, which have the same ids."""
    with side_by_side(Pair, warpdeck_site=WARPDECK_SITE) as pair:
        for options in JOBS.values():
            argv = ("-H", *options) if "-A" in options else ("-H", "-A", "bio", *options)
            pair.slurm.ok("sbatch", *argv, "--wrap", "sleep 1000")
            pair.warpdeck.submit(*argv)
        for cluster in (pair.slurm, pair.warpdeck):
            cluster.run(["scancel", str(len(JOBS))])
        yield pair


def test_filters_of_an_ordinary_user_select_only_the_users_own_jobs(pair: Pair) -> None:
    slurm, warpdeck = (
        cluster.run(["scancel", "-n", "plain"], user="nobody") for cluster in (pair.slurm, pair.warpdeck)
    )
    assert "Access/permission denied" in slurm.err
    assert (warpdeck.rc, warpdeck.out, warpdeck.err) == (0, "", "")
    assert pair.warpdeck.run(REMAINING_JOBS).out == pair.slurm.run(REMAINING_JOBS).out


def test_scancel_prints_the_output_of_slurm_and_leaves_the_same_jobs(pair: Pair) -> None:
    both = (pair.slurm, pair.warpdeck)
    ids = {name: str(number) for number, name in enumerate(JOBS, 1)}
    for case in CASES:
        first, _, rest_of_line = case.partition(" ")
        name, is_set, value = first.partition("=")
        environ = {name: value} if is_set and name.isupper() else {}
        line = rest_of_line if environ else case
        argv = ["scancel", *line.format(**ids).split(" ")]
        user = environ.pop("AS", "root")
        results = [cluster.run(argv, env=environ, user=user, data=ANSWERS) for cluster in both]
        remaining = [cluster.run(REMAINING_JOBS).out for cluster in both]
        assert [*_result(results[1]), remaining[1]] == [*_result(results[0]), remaining[0]], case
    assert remaining == ["", ""]


def test_random_scancel_lines_have_the_result_of_slurm() -> None:
    """The lines run as root, and as an ordinary user with filters that select the user's jobs."""
    rng = random.Random("scancel")
    with side_by_side(Pair, warpdeck_site=WARPDECK_SITE) as pair:
        both = (pair.slurm, pair.warpdeck)
        ids = {name: _submit_held(pair, options) for name, options in RANDOM_JOBS.items()}
        pair.warpdeck.run(["scancel", ids["done"]])
        pair.slurm.ok("scancel", ids["done"])
        for _ in range(RANDOM_LINES):
            argv, environ = random_scancel_line(rng)
            user = rng.choice(("root", "root", "nobody"))
            argv = [word.format(**ids) for word in argv] + (["--me"] if user == "nobody" else [])
            results = [cluster.run(argv, env=environ, user=user, data="y\n" + ANSWERS) for cluster in both]
            remaining = [cluster.run(REMAINING_JOBS).out for cluster in both]
            line = f"{user} {environ} {shlex.join(argv)}"
            assert [*_unique_result(results[1]), remaining[1]] == [
                *_unique_result(results[0]),
                remaining[0],
            ], line
            for name in RANDOM_JOBS if not remaining[0] else ():
                ids[name] = _submit_held(pair, RANDOM_JOBS[name])


def _submit_held(pair: Pair, options: Sequence[str]) -> str:
    argv = ["sbatch", "--parsable", "-H", "-o", "/dev/null", "-D", "/tmp", *options, "--wrap", "true"]
    user = "nobody" if "hers" in options else "root"
    results = [cluster.run(argv, user=user) for cluster in (pair.slurm, pair.warpdeck)]
    assert results[0].out == results[1].out, results
    return results[0].out.strip()


def _unique_result(result: CommandResult) -> tuple[int, str, list[str]]:
    """Slurm prints some lines twice if other jobs wait."""
    code, out, errors = _result(result)
    return code, out, sorted(set(errors))


def _result(result: CommandResult) -> tuple[int, str, list[str]]:
    return result.rc, result.out, sorted(NOISE.sub("", result.err).splitlines())
