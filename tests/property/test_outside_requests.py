"""Whatever a client may send of requests and changes: it is done or refused, and what is kept can be read again.

The values are made from the types, which carry the limits, and mostly lie at them: nobody sends such by mistake.
"""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.inspect as types
from hypothesis import given
from hypothesis import strategies as st
from tests.core import ANN, Core, ask

from warpdeck.controller.events import Updated
from warpdeck.errors import UserError
from warpdeck.model import Request, Resources
from warpdeck.model.change import JobChange

WIDE = 2**62
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


def values(of: types.Type) -> st.SearchStrategy[Any]:
    """What JSON may hold for this type."""
    match of:
        case types.IntType() | types.FloatType():
            low, high = (-WIDE if of.ge is None else of.ge), (WIDE if of.le is None else of.le)
            near = [each for each in (0, 1, 2, 64) if low <= each <= high]
            return st.sampled_from([low, high, *near])
        case types.StrType():
            if of.pattern is not None:
                return st.sampled_from(KINDS)
            return st.sampled_from([text for text in TEXTS if len(text) <= (of.max_length or WIDE)])
        case types.BoolType():
            return st.booleans()
        case types.NoneType():
            return st.none()
        case types.UnionType():
            return st.one_of(*map(values, of.types))
        case types.VarTupleType():
            return st.lists(values(of.item_type), min_size=of.min_length or 0, max_size=3)
        case types.TupleType():
            return st.tuples(*map(values, of.item_types))
        case types.DictType():
            return st.just({"A": "1"})
        case types.StructType():
            return structs(of.cls)
        case _:
            return st.nothing()


def structs(cls: type, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Some of its fields, and those that it must have."""
    info = types.type_info(cls)
    assert isinstance(info, types.StructType)
    known = {each.encode_name: fixed.get(each.name, values(each.type)) for each in info.fields}
    must = {each.encode_name for each in info.fields if each.required}
    optional = {name: each for name, each in known.items() if name not in must and not each.is_empty}
    return st.sets(st.sampled_from(sorted(optional)), max_size=4).flatmap(
        lambda some: st.fixed_dictionaries(
            {name: each for name, each in known.items() if name in must or name in some}
        )
    )


def decoded(cls: type, sent: Any) -> Any:
    """As the controller has it; None where it is refused at once."""
    try:
        return msgspec.convert(sent, cls)
    except msgspec.ValidationError:
        return None


REQUESTS = st.tuples(structs(Request), structs(Resources))
CHANGES = st.lists(structs(JobChange), max_size=3)


@given(REQUESTS, CHANGES, st.booleans())
def test_what_may_be_sent_is_done_or_refused_and_what_is_kept_can_be_read(
    sent: tuple[dict[str, Any], dict[str, Any]], changes: list[dict[str, Any]], plans: bool
) -> None:
    core, base = Core("n0", "n1"), msgspec.to_builtins(ask())
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
        if change is not None and change.asked():
            try:
                core.apply(Updated(who=ANN, jobs=(str(job_id),), change=change))
            except UserError:
                continue
    core.plan()
    for job in core.state.jobs.values():
        for value in (job.request, job):
            again = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))
            assert again == value


def test_the_values_reach_every_kind_of_field() -> None:
    for cls in (Request, Resources, JobChange):
        info = types.type_info(cls)
        assert isinstance(info, types.StructType)
        bare = [each.name for each in info.fields if values(each.type).is_empty]
        assert bare == [], f"{cls.__name__}: no values are made for these"
