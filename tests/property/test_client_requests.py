"""Any request of a client is either executed or rejected, and everything stored can be read again.

The values are generated from the types, mostly at the limits that the types declare.
"""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.inspect as types
from hypothesis import given
from hypothesis import strategies as st
from tests.property import type_values
from tests.support.core import ANN, Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Updated
from warpdeck.model import Request, Resources
from warpdeck.model.change import JobChange

TEXTS = [
    "",
    "a",
    "n0",
    "n0,n1",
    "a&b|c",
    "[a|b]",
    "(" * 1000,
    "9" * 1000,
    "%j" * 100,
    "/a" * 200,
    "\0",
    "é\n",
]
KINDS = ["after", "afterany", "afterok", "afternotok", "aftercorr", "singleton"]


def values(kind: types.Type) -> st.SearchStrategy[Any]:
    return type_values.values(kind, texts=TEXTS, fields=structs, patterned=KINDS)


def structs(cls: type, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return the required fields and some others."""
    info = types.type_info(cls)
    assert isinstance(info, types.StructType)
    known = {each.encode_name: fixed.get(each.name, values(each.type)) for each in info.fields}
    must = {each.encode_name for each in info.fields if each.required}
    return type_values.some_of(known, must=must, most=4)


def decoded(cls: type, sent: Any) -> Any:
    """Return the value as the controller decodes it, or None if it is rejected."""
    try:
        return msgspec.convert(sent, cls)
    except msgspec.ValidationError:
        return None


REQUESTS = st.tuples(structs(Request), structs(Resources))
CHANGES = st.lists(structs(JobChange), max_size=3)


@given(REQUESTS, CHANGES, st.booleans())
def test_any_request_is_executed_or_rejected_and_stored_values_decode(
    sent: tuple[dict[str, Any], dict[str, Any]], changes: list[dict[str, Any]], plans: bool
) -> None:
    core, base = Core("n0", "n1"), msgspec.to_builtins(make_request())
    request = decoded(Request, {**base, **sent[0], "resources": sent[1]})
    if request is None:
        return
    try:
        job_id = core.submit(request)
    except UserError:
        return
    if plans:
        core.plan()
    for sent_change in changes:
        change = decoded(JobChange, sent_change)
        if change is not None and change.changed_fields():
            try:
                core.apply(Updated(principal=ANN, jobs=(str(job_id),), change=change))
            except UserError:
                continue
    core.plan()
    for job in core.state.jobs.values():
        for value in (job.request, job):
            again = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))
            assert again == value
