"""Access to a forward's page: only its own user receives the token on request, and no list contains it."""

from __future__ import annotations

import msgspec
import pytest

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Principal
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import ForwardRow
from warpdeck.server.forwards import ForwardTable, masked

ANN, BOB, ADMIN = (
    Principal(user="ann", uid=1001),
    Principal(user="bob", uid=1002),
    Principal(user="root", uid=0, admin=True),
)


def forward(page: str) -> ForwardRow:
    return ForwardRow(number=0, job="7", user="ann", node="n1", port=8888, local_port=9000, page=page)


def test_only_its_user_opens_a_page_and_lists_hide_its_token() -> None:
    table = ForwardTable()
    number = table.add(forward("/lab?token=s3cret&x=1"), uid=ANN.uid, end=lambda words: None)
    assert table.page(ANN, number) == "/lab?token=s3cret&x=1"
    for caller in (ANN, ADMIN):
        assert [row.page for row in table.rows(caller)] == ["/lab?token=…&x=…"]
    for caller in (BOB, ADMIN):
        with pytest.raises(UserError, match="you have no forward 1"):
            table.page(caller, number)
    table.drop(number)
    with pytest.raises(UserError, match="no forward"):
        table.page(ANN, number)


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("/", "/"),
        ("/?tkn=a=b", "/?tkn=…"),
        ("/a=b", "/a=b"),
        ("/?", "/?"),
        ("/?lab", "/?lab"),
        ("/#password=a", "/#password=…"),
        ("/?a=b#c=d", "/?a=…#c=…"),
    ],
)
def test_values_in_query_and_fragment_are_masked(page: str, shown: str) -> None:
    assert masked(page) == shown


@pytest.mark.parametrize("page", ["http://elsewhere/", "/a b", "/\n", "/" + 2048 * "x", "/\x1b]0;t"])
def test_invalid_pages_are_refused(page: str) -> None:
    data = msgspec.json.encode({"t": "forward", "job": "7", "port": 1, "local_port": 1, "page": page})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=ask.Forward)
