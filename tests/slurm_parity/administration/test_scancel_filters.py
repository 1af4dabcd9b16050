"""scancel beside a real Slurm: the same jobs, the same command lines, one after the other; both say the same, end alike and leave
the same jobs. What is done to several is told in any order.
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
"""All of them held, the last one cancelled."""
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
"""In this order: what changes nothing first, and the last one takes all that are left."""
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
"""What the real one's plug-ins tell of themselves."""
ANSWERS = "x\n\n" + "no\n" * len(JOBS)
"""To questions: the first two are none."""
LEFT = ("squeue", "-h", "-r", "-S", "i", "-o", "%i %T")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Both with the same jobs, which have the same numbers."""
    with side_by_side(Pair, warpdeck_site=WARPDECK_SITE) as pair:
        for options in JOBS.values():
            argv = ("-H", *options) if "-A" in options else ("-H", "-A", "bio", *options)
            pair.slurm.ok("sbatch", *argv, "--wrap", "sleep 1000")
            pair.warpdeck.submit(*argv)
        for cluster in (pair.slurm, pair.warpdeck):
            cluster.run(["scancel", str(len(JOBS))])
        yield pair


def test_filters_of_an_ordinary_user_choose_among_the_users_own_jobs(pair: Pair) -> None:
    theirs, ours = (
        cluster.run(["scancel", "-n", "plain"], user="nobody") for cluster in (pair.slurm, pair.warpdeck)
    )
    assert "Access/permission denied" in theirs.err
    assert (ours.rc, ours.out, ours.err) == (0, "", "")
    assert pair.warpdeck.run(LEFT).out == pair.slurm.run(LEFT).out


def test_the_same_is_said_and_the_same_jobs_are_left(pair: Pair) -> None:
    both = (pair.slurm, pair.warpdeck)
    numbers = {name: str(number) for number, name in enumerate(JOBS, 1)}
    for case in CASES:
        first, _, rest = case.partition(" ")
        name, is_set, value = first.partition("=")
        environ = {name: value} if is_set and name.isupper() else {}
        line = rest if environ else case
        argv = ["scancel", *line.format(**numbers).split(" ")]
        user = environ.pop("AS", "root")
        done = [cluster.run(argv, env=environ, user=user, data=ANSWERS) for cluster in both]
        left = [cluster.run(LEFT).out for cluster in both]
        assert [*_told(done[1]), left[1]] == [*_told(done[0]), left[0]], case
    assert left == ["", ""]


def test_any_line_is_answered_and_leaves_the_same() -> None:
    """Root's, and a user's with filters that say whose jobs they are about."""
    rng = random.Random("scancel")
    with side_by_side(Pair, warpdeck_site=WARPDECK_SITE) as pair:
        both = (pair.slurm, pair.warpdeck)
        numbers = {name: _held(pair, options) for name, options in RANDOM_JOBS.items()}
        pair.warpdeck.run(["scancel", numbers["done"]])
        pair.slurm.ok("scancel", numbers["done"])
        for _ in range(RANDOM_LINES):
            argv, environ = random_scancel_line(rng)
            user = rng.choice(("root", "root", "nobody"))
            argv = [word.format(**numbers) for word in argv] + (["--me"] if user == "nobody" else [])
            done = [cluster.run(argv, env=environ, user=user, data="y\n" + ANSWERS) for cluster in both]
            left = [cluster.run(LEFT).out for cluster in both]
            line = f"{user} {environ} {shlex.join(argv)}"
            assert [*_said(done[1]), left[1]] == [*_said(done[0]), left[0]], line
            for name in RANDOM_JOBS if not left[0] else ():
                numbers[name] = _held(pair, RANDOM_JOBS[name])


def _held(pair: Pair, options: Sequence[str]) -> str:
    argv = ["sbatch", "--parsable", "-H", "-o", "/dev/null", "-D", "/tmp", *options, "--wrap", "true"]
    user = "nobody" if "hers" in options else "root"
    done = [cluster.run(argv, user=user) for cluster in (pair.slurm, pair.warpdeck)]
    assert done[0].out == done[1].out, done
    return done[0].out.strip()


def _said(done: CommandResult) -> tuple[int, str, list[str]]:
    """Slurm says some lines twice, where other jobs wait."""
    code, out, errors = _told(done)
    return code, out, sorted(set(errors))


def _told(done: CommandResult) -> tuple[int, str, list[str]]:
    return done.rc, done.out, sorted(NOISE.sub("", done.err).splitlines())
