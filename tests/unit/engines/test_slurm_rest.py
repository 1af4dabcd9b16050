"""slurmrestd as a source of the queue: the mapping of recorded answers, and the addresses that may have the token.

`tests/data/slurm/VERSION/rest_PARSER.json` is an answer of a real slurmrestd without most of its jobs, and `rest_squeue.txt` is
the output of squeue for the same jobs at the same moment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.reading.job_table import COLUMNS, SeenJob, read_jobs
from warpdeck.engines.slurm.reading.marked_table import read_table
from warpdeck.engines.slurm.rest.job_fields import FIELDS, UNTOLD
from warpdeck.engines.slurm.rest.server import Address, RestLost, check_token, read_address
from warpdeck.engines.slurm.rest.source import RestSource
from warpdeck.engines.slurm.rest.tables import write_table

DATA = Path(__file__).parents[2] / "data" / "slurm"
RECORDED = (("24.11", "v0.0.42"), ("26.05", "v0.0.45"))
MARK = "Mark0a1b2c3d"
TOKEN = "aaaa.bbbb-cc_.dd"


def body(version: str = "26.05", parser: str = "v0.0.45") -> bytes:
    return (DATA / version / f"rest_{parser}.json").read_bytes()


def read(text: str, untold: tuple[str, ...] = ()) -> dict[int, SeenJob]:
    """Return the jobs of a table, without these columns."""
    records = [record | dict.fromkeys(untold, "") for record in read_table(text, COLUMNS, MARK)]
    return {seen.job.id: seen for seen in read_jobs(records)}


@pytest.mark.parametrize(("version", "parser"), RECORDED)
def test_the_jobs_of_slurmrestd_are_those_of_squeue(version: str, parser: str) -> None:
    of_squeue = (DATA / version / "rest_squeue.txt").read_bytes().decode(errors="replace")
    expected = read(of_squeue, UNTOLD.get(parser, ()))
    assert (
        read("".join(write_table(Question.QUEUE, body(version, parser), version=parser, mark=MARK)))
        == expected
    )
    assert len(expected) == 20


def test_each_column_of_squeue_has_a_function() -> None:
    assert list(FIELDS) == [column.name for column in COLUMNS]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"user_name"', b'"user"', "unknown form: Object missing required field `user_name`"),
        (b'"job_state":["', b'"job_state":"', "unknown form"),
        (
            b'"array_task_string":"3-20%2"',
            b'"array_task_string":"3,5,..."',
            "shortens the list of tasks of array 3",
        ),
        (
            b'"errors":[]',
            b'"errors":[{"description":"Unable to query jobs"}]',
            "it reports: Unable to query jobs",
        ),
        (b'"errors":[]', b'"errors":[{"description":"\xff"}]', "unknown form"),
        (b'"number":1795', b'"number":1e300,"x":1795', "unknown form"),
        (b'"jobs":[', b'"x":' + b"[" * 100_000 + b',"jobs":[', "unknown form"),
    ],
    ids=["no field", "other type", "cut list", "error", "no UTF-8", "impossible time", "deep"],
)
def test_an_incomplete_answer_is_refused(old: bytes, new: bytes, why: str) -> None:
    assert old in body()
    with pytest.raises(RestLost, match=why):
        write_table(Question.QUEUE, body().replace(old, new), version="v0.0.45", mark=MARK)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("unix:/run/slurmrestd/socket", Address(unix="/run/slurmrestd/socket")),
        ("https://slurm.example.org:6820", Address(host="slurm.example.org", port=6820, is_tls=True)),
        (
            "https://slurm.example.org/rest/",
            Address(host="slurm.example.org", port=443, is_tls=True, prefix="/rest"),
        ),
        ("http://localhost:6820", Address(host="localhost", port=6820)),
        ("http://127.0.0.1:6820", Address(host="127.0.0.1", port=6820)),
        ("http://[::1]:6820", Address(host="::1", port=6820)),
    ],
)
def test_the_address_of_slurmrestd_is_read(url: str, address: Address) -> None:
    assert read_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "http://slurm.example.org:6820",
        "http://10.0.0.1:6820",
        "http://localhost.example.org",
        "http://0.0.0.0:6820",
        "http://127.0.0.1@example.org",
        "https://ann:secret@example.org",
        "https://example.org/?a=b",
        "https://example.org:port",
        "https://example.org/a b",
        "https://exa\rmple.org/a\r\nX: y",
        "ftp://localhost",
        "unix:socket",
        "localhost:6820",
        "https://",
    ],
)
def test_the_token_is_not_sent_to_this_address(url: str) -> None:
    with pytest.raises(RestLost) as error:
        read_address(url)
    source = RestSource(url, TOKEN)
    row = source.row()
    assert row is not None and row.problem == str(error.value) and not source.serves(Question.QUEUE)
    assert "secret" not in str(row)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Other: b", "é", "a" * 20_000])
def test_a_text_that_is_no_token_is_not_sent_and_not_shown(token: str) -> None:
    with pytest.raises(RestLost) as error:
        check_token(token)
    assert "SLURM_JWT" in str(error.value) and (not token or token not in str(error.value))


def test_without_the_setting_nothing_is_asked_and_nothing_is_told() -> None:
    source = RestSource("", TOKEN)
    assert not source.serves(Question.QUEUE) and source.row() is None
