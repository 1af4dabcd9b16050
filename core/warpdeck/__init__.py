"""warpdeck: the scheduler core, its store, its SSH fleet, the command line, and the library for programs and notebooks:

    import warpdeck
    with warpdeck.Client() as deck:
        job = deck.submit("train.sh", gpus=2)

Importing this imports nothing else; what the library has is loaded when it is first named.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .errors import UserError as UserError
    from .errors import WarpdeckError as WarpdeckError
    from .library.asyncclient import AsyncClient as AsyncClient
    from .library.asyncjob import AsyncJob as AsyncJob
    from .library.callfutures import CallFuture as CallFuture
    from .library.client import Client as Client
    from .library.client import Job as Job
    from .library.executor import Executor as Executor
    from .library.outcome import JobFailed as JobFailed
    from .library.outcome import Outcome as Outcome

__version__ = "0.1.0"

_HOMES = {
    "AsyncClient": "library.asyncclient",
    "AsyncJob": "library.asyncjob",
    "CallFuture": "library.callfutures",
    "Client": "library.client",
    "Executor": "library.executor",
    "Job": "library.client",
    "JobFailed": "library.outcome",
    "Outcome": "library.outcome",
    "UserError": "errors",
    "WarpdeckError": "errors",
}
"""Public name -> the module that it is in."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
