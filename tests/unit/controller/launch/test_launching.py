"""The output paths in a launch."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.core import Core, make_request

from warpdeck.config import Config
from warpdeck.controller.launch.launching import build_launch
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.request.job_request import parse_request


@pytest.mark.parametrize(
    ("words", "appends"),
    [((), (False, True)), (("truncate",), (False, False)), (("append",), (True, True))],
)
def test_output_before_a_requeue_is_kept_unless_open_mode_is_truncate(
    words: tuple[str, ...], appends: tuple[bool, bool]
) -> None:
    fields, _ = parse_request([GivenOption("open-mode", word, "sbatch") for word in words], {}, now=0.0)
    core = Core("a")
    job_id = core.run(
        make_request(**{name: value for name, value in fields.items() if name.startswith("open_")})
    )
    job = core.job(job_id)
    runs = (job, msgspec.structs.replace(job, restarts=1))
    launches = [build_launch(run, 0, submit_host="h", config=Config()) for run in runs]
    assert tuple(launch.append for launch in launches) == appends
