"""Keep the standby up to date: connect, send the missing batches, and decide whether commits wait for it.

`may_wait` is the one decision of the mode sync: commits wait while the oldest batch that the standby lacks is younger than
SYNC_WAIT_S. When it gets older, commits go on without the standby, and they wait again as soon as it has caught up. In the
mode async they never wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from warpdeck.base import standby_files
from warpdeck.base.errors import RemoteError, UserError, WarpdeckError
from warpdeck.base.paths import Paths
from warpdeck.fleet.backoff import backoff_s
from warpdeck.fleet.transport import Progress
from warpdeck.protocol.requests import StandbySet
from warpdeck.protocol.site_rows import StandbyMode, StandbyRow, StandbyState
from warpdeck.store.batch_log import BatchLog
from warpdeck.store.log_control import LogControl

from .messages import MessageError, Superseded
from .relayed_clients import ServeClient

if TYPE_CHECKING:
    from .connection import StandbyConnection

log = logging.getLogger("warpdeck.standby")

SYNC_WAIT_S = 3.0
"""Seconds that a commit waits for the standby before commits go on without it."""
CAUGHT_UP_S = 0.5
"""Commits wait for the standby again when it lacks only batches younger than this."""
LOOK_S = 0.2
"""Seconds between two looks at the age of the oldest batch that the standby lacks."""
RETRY_LAST_S = 10.0
"""Maximum seconds between two attempts to connect. There is only one standby, and it should not be behind for long."""
FAREWELL_S = 5.0
"""Seconds in which the last batches reach the standby when the controller stops."""
ASK_S = 10.0
"""Seconds that a starting controller waits for the answer whether its standby has taken over."""
_EXPECTED = (WarpdeckError, OSError, MessageError, TimeoutError)


class StandbySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The standby as an administrator set it up."""

    target: str
    home: str
    mode: StandbyMode = StandbyMode.SYNC
    keys: bool = False


def may_wait(settings: StandbySettings, *, waits: bool, is_connected: bool, behind_s: float) -> bool:
    """Return whether commits wait for the standby from now on."""
    if settings.mode != StandbyMode.SYNC:
        return False
    if waits:
        return behind_s <= SYNC_WAIT_S
    return is_connected and behind_s <= CAUGHT_UP_S


class StandbyLink:
    """The standby of this controller. `controller_id` is the identity of the site."""

    def __init__(
        self,
        paths: Paths,
        control: LogControl,
        *,
        controller_id: str,
        on_superseded: Callable[[], None],
    ) -> None:
        """Create a link without a connection. `on_superseded` is called when the standby says that it has taken over."""
        self._paths = paths
        self._control = control
        self._controller_id = controller_id
        self._on_superseded = on_superseded
        self._settings: StandbySettings | None = None
        self._connection: StandbyConnection | None = None
        self._problem = ""
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False
        self.serve_client: ServeClient = _no_clients
        """Serves a client on the standby's machine."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the state of the standby has changed in a way that a person should see at once."""

    def row(self) -> StandbyRow | None:
        """Return the standby as clients see it, or None if there is none."""
        settings, batches, connection = self._settings, self._control.batches, self._connection
        if settings is None or batches is None:
            return None
        missing, behind_s = batches.behind(time.monotonic())
        if connection is None:
            state = StandbyState.LOST if self._problem else StandbyState.CONNECTING
        else:
            state = StandbyState.COPYING if connection.is_copying else StandbyState.FOLLOWING
        return StandbyRow(
            target=settings.target,
            host=connection.host if connection else "",
            home=settings.home,
            mode=settings.mode,
            keys=settings.keys,
            state=state,
            waits=batches.waits_for_standby,
            behind_batches=missing,
            behind_s=behind_s,
            problem=self._problem,
            command=connection.command if connection else "",
        )

    async def check_successor(self) -> bool:
        """Ask the standby whether it has taken over, before this controller serves the site.

        Returns False if it does not answer. Then it may have taken over, and only the nodes know. Raises UserError if it has.
        """
        settings = read_settings(self._paths)
        if settings is None:
            return True
        try:
            async with asyncio.timeout(ASK_S):
                connection = await self._open(settings, only_asks=True)
                connection.close()
        except Superseded as error:
            self._note_successor(error)
            raise
        except _EXPECTED as error:
            log.warning("the standby %s was not asked whether it has taken over: %s", settings.target, error)
            return False
        return True

    async def start(self) -> None:
        """Follow the settings of the home from now on. Raises StoreError or UserError."""
        self._settings = read_settings(self._paths)
        if self._settings is not None:
            await self._control.start()
            self._begin(None)

    async def set_up(self, message: StandbySet, progress: Progress) -> StandbyRow:
        """Connect to a standby and keep it up to date from now on, in place of an earlier one.

        Raises UserError or RemoteError, and then the earlier one stays.
        """
        settings = StandbySettings(
            target=message.target,
            home=message.home or self._paths.home,
            mode=message.mode,
            keys=message.keys,
        )
        if not os.path.isabs(settings.home):
            raise UserError(f"{settings.home!r} is not an absolute path", "use --home /FOLDER")
        connection = await self._open(settings, accept_host_key=message.accept_host_key, progress=progress)
        await self._end()
        try:
            await self._control.start()
            content = msgspec.to_builtins(settings)
            await asyncio.to_thread(standby_files.write, self._paths.standby_settings, content)
        except BaseException:
            connection.close()
            raise
        self._settings = settings
        log.info("%s is the standby now, in the mode %s", settings.target, settings.mode)
        self._begin(connection)
        row = self.row()
        assert row is not None
        return row

    async def remove(self) -> None:
        """Stop copying to the standby. Raises UserError if there is none."""
        if self._settings is None:
            raise no_standby()
        await self._end()
        self._settings = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._paths.standby_settings)
        await self._control.stop()

    async def close(self) -> None:
        """Send the last batches and end the connection, because the controller stops."""
        connection, batches = self._connection, self._control.batches
        if connection is not None and batches is not None:
            with contextlib.suppress(TimeoutError, *_EXPECTED):
                async with asyncio.timeout(FAREWELL_S):
                    while batches.behind(time.monotonic())[0] and self._connection is connection:
                        await batches.wait_changed()
                    await connection.say_farewell()
        await self._end()

    def _begin(self, connection: StandbyConnection | None) -> None:
        self._is_ending = False
        self._task = asyncio.get_running_loop().create_task(self._run(connection))

    async def _end(self) -> None:
        if self._task is not None:
            self._is_ending = True
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if self._control.batches is not None:
            self._control.batches.stop_waiting()

    async def _run(self, connection: StandbyConnection | None) -> None:
        settings, batches = self._settings, self._control.batches
        assert settings is not None and batches is not None
        batches.waits_for_standby = settings.mode == StandbyMode.SYNC
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep(settings, batches, connection))
            group.create_task(self._watch(settings, batches))

    async def _keep(
        self, settings: StandbySettings, batches: BatchLog, connection: StandbyConnection | None
    ) -> None:
        """Keep the connection, and connect again without end with capped pauses."""
        attempt, rng = 0, random.Random()
        while True:
            try:
                if connection is None:
                    connection = await self._open(settings)
                self._note_connection(settings, connection)
                attempt = 0
                await connection.follow(
                    batches, self._control, self._paths, with_keys=settings.keys, serve=self.serve_client
                )
            except Superseded as error:
                self._note_successor(error)
                batches.stop_waiting()
                return
            except _EXPECTED as error:
                self._note_problem(settings, error)
            finally:
                if connection is not None:
                    connection.close()
                connection = self._connection = None
            if self._is_ending:  # The connection ended at the moment of the cancellation, and replaced it.
                return
            await asyncio.sleep(min(backoff_s(attempt, rng), RETRY_LAST_S))
            attempt += 1

    async def _watch(self, settings: StandbySettings, batches: BatchLog) -> None:
        """Decide from time to time whether commits wait for the standby."""
        while True:
            connection = self._connection
            is_connected = connection is not None and not connection.is_copying
            waits, behind_s = batches.waits_for_standby, batches.behind(time.monotonic())[1]
            wanted = may_wait(settings, waits=waits, is_connected=is_connected, behind_s=behind_s)
            if wanted and not waits:
                batches.waits_for_standby, self._problem = True, ""
                self.on_change()
                log.info("requests are answered after the standby %s has them", settings.target)
            elif waits and not wanted:
                batches.stop_waiting()
                self._problem = self._problem or f"no answer for {SYNC_WAIT_S:.0f} s"
                self.on_change()
                log.warning(
                    "the standby %s is late (%s): requests are answered without it",
                    settings.target,
                    self._problem,
                )
            await asyncio.sleep(LOOK_S)

    async def _open(
        self,
        settings: StandbySettings,
        *,
        accept_host_key: str = "",
        progress: Progress | None = None,
        only_asks: bool = False,
    ) -> StandbyConnection:
        from .connection import open_connection  # It loads asyncssh, which is large.

        return await open_connection(
            settings.target,
            settings.home,
            self._paths,
            controller_id=self._controller_id,
            mode=settings.mode,
            accept_host_key=accept_host_key,
            progress=progress,
            only_asks=only_asks,
        )

    def _note_connection(self, settings: StandbySettings, connection: StandbyConnection) -> None:
        self._connection, self._problem = connection, ""
        self.on_change()
        log.info("connected to the standby %s (%s)", settings.target, connection.host)

    def _note_problem(self, settings: StandbySettings, error: Exception) -> None:
        problem = error.cause if isinstance(error, RemoteError) else str(error)
        if problem != self._problem:
            log.warning("standby %s: %s", settings.target, problem)
        self._problem = problem or type(error).__name__
        self.on_change()

    def _note_successor(self, error: Superseded) -> None:
        """Record that the standby serves the site now. No controller starts in this home any more."""
        log.error("%s", error)
        content = {"host": error.host, "since_unix": time.time()}
        standby_files.write(self._paths.successor, content, mode=standby_files.FOR_ALL)
        self._on_superseded()


async def _no_clients(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int) -> None:
    """Disconnect a client, because the controller does not serve clients yet."""
    writer.close()


def read_settings(paths: Paths) -> StandbySettings | None:
    """Return the settings of the home's standby, or None. Raises UserError."""
    content = standby_files.read(paths.standby_settings)
    if content is None:
        return None
    try:
        return msgspec.convert(content, StandbySettings)
    except msgspec.ValidationError as error:
        raise UserError(
            f"cannot read {paths.standby_settings}: {error}", "set the standby up again"
        ) from error


def no_standby() -> UserError:
    """Return the error for a controller without a standby."""
    return UserError("this controller has no standby", "set one up: warpdeck standby USER@HOST")
