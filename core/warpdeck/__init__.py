"""warpdeck: scheduler core, store, SSH fleet, command line, and the library for programs and notebooks:

    import warpdeck

    with warpdeck.Client() as deck:
        job = deck.submit("train.sh", gpus=2, time="4:00:00")
        job.wait().check()

    with warpdeck.Executor(gpus=1) as pool:
        losses = list(pool.map(train, [0.1, 0.01]))

    Client       jobs and nodes, blocking: submit, wait, cancel, jobs, metrics, diff, nodes, status
    Job          a job of a Client: wait, cancel, logs, output, state, why, metrics, snapshot
    AsyncClient  the same for asyncio, with AsyncJob
    Executor     runs functions as jobs, with the interface of concurrent.futures; its futures are CallFutures
    Checkpoint   saves the state of a program in time, also when its job is paused or reaches its limit
    checkpointed announces a checkpoint that the program has written itself
    log          prints metrics that the app draws and `warpdeck runs` lists
    Outcome      how a job ended: ok, exit_code, rows (one for each task), check()
    JobFailed    raised by check(), and by a call whose job failed
    UserError    any other refusal, in one sentence, with the next step in `hint`; both are WarpdeckErrors

Durations are in seconds, times in unix seconds, sizes in bytes. Importing this package imports nothing else;
each class is loaded when it is first used.
"""

from ._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from warpdeck.base.errors import UserError as UserError
    from warpdeck.base.errors import WarpdeckError as WarpdeckError
    from warpdeck.library.asyncclient import AsyncClient as AsyncClient
    from warpdeck.library.asyncjob import AsyncJob as AsyncJob
    from warpdeck.library.callfutures import CallFuture as CallFuture
    from warpdeck.library.checkpoint import Checkpoint as Checkpoint
    from warpdeck.library.checkpoint import checkpointed as checkpointed
    from warpdeck.library.client import Client as Client
    from warpdeck.library.client import Job as Job
    from warpdeck.library.executor import Executor as Executor
    from warpdeck.library.metric_log import log as log
    from warpdeck.library.outcome import JobFailed as JobFailed
    from warpdeck.library.outcome import Outcome as Outcome

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "CallFuture",
    "Checkpoint",
    "Client",
    "Executor",
    "Job",
    "JobFailed",
    "Outcome",
    "UserError",
    "WarpdeckError",
    "checkpointed",
    "log",
]

_HOMES = {
    "AsyncClient": "library.asyncclient",
    "AsyncJob": "library.asyncjob",
    "CallFuture": "library.callfutures",
    "Checkpoint": "library.checkpoint",
    "Client": "library.client",
    "Executor": "library.executor",
    "Job": "library.client",
    "JobFailed": "library.outcome",
    "Outcome": "library.outcome",
    "UserError": "base.errors",
    "WarpdeckError": "base.errors",
    "checkpointed": "library.checkpoint",
    "log": "library.metric_log",
}
"""Maps public names to their modules."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
