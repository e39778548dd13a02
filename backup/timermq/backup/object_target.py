"""A target in an object store, by a URL such as ``s3://bucket/prefix``.

Credentials, region and endpoint come from the environment, under the names of the object store's
own tools (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``AWS_ENDPOINT``). Encryption is the store's.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from .target import TargetError

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

T = TypeVar("T")

RETRIES: RetryConfig = {"max_retries": 2, "retry_timeout": datetime.timedelta(seconds=10)}
"""Few and soon: the shipper logs that the target refuses, and retries by itself."""


class ObjectTarget:
    """Objects below the prefix of a URL.

    Args:
        url: Of the object store, with bucket and prefix.

    Raises:
        TargetError: The URL is not valid, or a setting of the environment is wrong.
        ModuleNotFoundError: The extra ``backup`` is not installed.
    """

    def __init__(self, url: str) -> None:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        self.place = url
        try:
            self._store: ObjectStore = from_url(url, retry_config=RETRIES)
        except (BaseError, ValueError) as error:
            raise self._error(error) from error

    async def names(self) -> list[str]:
        """The names of all objects below the prefix."""
        import obstore

        def listed() -> list[str]:
            # Its overloads name a type of the library arro3, which is not installed.
            found = obstore.list(self._store)  # pyright: ignore[reportUnknownMemberType]
            return [one["path"] for many in found for one in many]

        return await self._call(listed)

    async def get(self, name: str) -> bytes | None:
        """The bytes of an object; None when it is missing."""
        import obstore

        def got() -> bytes | None:
            try:
                return obstore.get(self._store, name).bytes().to_bytes()
            except FileNotFoundError:
                return None

        return await self._call(got)

    async def put(self, name: str, data: bytes) -> None:
        """Store an object in one request."""
        import obstore

        await self._call(lambda: obstore.put(self._store, name, data, use_multipart=False))

    async def delete(self, name: str) -> None:
        """Remove an object; missing is fine."""
        import obstore

        def removed() -> None:
            with contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, name)

        await self._call(removed)

    async def _call(self, call: Callable[[], T]) -> T:
        """Run a call in a thread, which is left to end by itself if the caller is cancelled."""
        from obstore.exceptions import BaseError

        try:
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        except (BaseError, OSError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> TargetError:
        found = " ".join(str(error).partition("Debug source")[0].split())
        return TargetError(
            f"{self.place}: expected an object store that takes a backup, found: {found}"
        )
