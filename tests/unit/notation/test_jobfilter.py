"""A filter that is not understood says what is wrong with it; one that is half typed or only finds nothing does not."""

import pytest

from warpdeck.notation.jobfilter import misread


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state:z", "there is no state z (R, PD, CD, F, or the beginning of one, as in canc)"),
        ("llama !st:xx", "there is no state xx"),
        ("usr:ann", "there is no field usr (id name user"),
        ("gpu>x", "gpu>x compares with no whole number (gpu>4)"),
        ("gpus>=1.5", "gpus>=1.5 compares with no whole number"),
        ("mem>4", "mem is not compared (gpu cpu nodes are)"),
        ("gpu:4", "gpu is a number (gpu>4, gpu=0)"),
    ],
)
def test_what_is_not_understood_is_named(text: str, said: str) -> None:
    assert misread(text).startswith(said)


@pytest.mark.parametrize(
    "text",
    ["", "llama", "gpu>", "gpu>4", "state:", "state:f", "state:canc", "user:me", "name~a>b", "!vit", "!"],
)
def test_what_is_understood_or_half_typed_is_not(text: str) -> None:
    assert misread(text) == ""
