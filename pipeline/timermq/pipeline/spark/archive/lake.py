"""The place of an archive: a directory that driver and executors share, or a prefix of a bucket.

What an archive needs of it: a file under a name of its own is whole once it has the name, and of
two that are put under one new name at a time one is refused. On a disk that is a rename and a link,
in an object store an upload that is completed and a put on the condition that there is none.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol
from urllib.parse import parse_qsl

import pyarrow.fs as arrow_fs

from timermq.timerstore.disk import Lock
from timermq.timerstore.os_disk import OsDisk

from ..errors import SparkJobError
from ..options import absolute
from ..places import OPTIONS_MARK, SCHEME_MARK, object_place, open_output, read_whole, system_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, S3Config


class Lake(Protocol):
    """Files by their names below one place, with ``/`` between the parts."""

    place: str
    """As processes hand it on."""

    def path(self, name: str) -> str:
        """A file as readers of Parquet take it."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted, without the folder's."""
        ...

    def has_files(self, suffix: str) -> bool:
        """Whether any file has a name that ends so."""
        ...

    def of_run(self, run: str, folder: str = "") -> list[str]:
        """The whole names of files in a folder, or below it, that have the name of a run."""
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes of a file; None when it is missing."""
        ...

    def size(self, name: str) -> int | None:
        """The length of a file in bytes; None when it is missing."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a file in one step, durably."""
        ...

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file in one step, durably, unless there is one; whether it was written."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; missing is fine."""
        ...

    def lock(self, name: str) -> Lock | None:
        """Take the lock that a run has; None where there is none to be had.

        Raises:
            StoreLockedError: Another run has it.
        """
        ...

    def written(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """A new file to be written in a block, which has its name, durably, when the block ends.

        An error in the block leaves no file.
        """
        ...

    def make_durable(self, names: Iterable[str]) -> None:
        """Let files that were written by other processes keep their names."""
        ...


def lake_of(directory: str) -> Lake:
    """The lake at a path or URL.

    Raises:
        SparkJobError: It is the address of another place.
    """
    place = object_place(directory)
    return DirectoryLake(absolute(directory)) if place is None else ObjectLake(place)


class DirectoryLake:
    """A directory, which the first file creates.

    Args:
        directory: Its absolute path.
    """

    def __init__(self, directory: str) -> None:
        self.place = directory
        self._root = Path(directory)

    def path(self, name: str) -> str:
        """The whole path of a file."""
        return f"{self.place}/{name}"

    def names(self, folder: str) -> list[str]:
        """The names in a directory."""
        return sorted(path.name for path in (self._root / folder).glob("*"))

    def has_files(self, suffix: str) -> bool:
        """Whether one is somewhere below the directory."""
        return any(self._root.glob(f"**/*{suffix}"))

    def of_run(self, run: str, folder: str = "") -> list[str]:
        """Those that are unfinished too."""
        found = (
            (self._root / folder).glob(f"*-{run}-*") if folder else self._root.rglob(f"*-{run}-*")
        )
        return [path.relative_to(self._root).as_posix() for path in found]

    def get(self, name: str) -> bytes | None:
        """The bytes of a file."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        """The length of a file."""
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Write it beside its place, and rename it."""
        path = self._root / name
        self._make(path.parent)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(data)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write it beside its place, and link it."""
        path = self._root / name
        temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
        temporary.write_bytes(data)
        sync(temporary)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync(path.parent)
        return True

    def remove(self, name: str) -> None:
        """Remove a file, without a sync."""
        (self._root / name).unlink(missing_ok=True)

    def lock(self, name: str) -> Lock | None:
        """The lock of a file of that name."""
        self._make((self._root / name).parent)
        return OsDisk().lock(f"{self.place}/{name}")

    @contextmanager
    def written(self, name: str) -> Generator[BinaryIO]:
        """Under a name with a dot, which readers of Parquet pass over, until it is whole."""
        path = self._root / name
        unfinished = path.with_name(f".{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with unfinished.open("wb") as file:
                yield file
        except BaseException:
            unfinished.unlink()
            raise
        sync(unfinished)
        unfinished.rename(path)

    def make_durable(self, names: Iterable[str]) -> None:
        """Sync the directories that they are in, up to the archive's."""
        paths = [self._root / name for name in names]
        for folder in {one for path in paths for one in path.parents}:
            if folder.is_relative_to(self._root):
                sync(folder)

    @staticmethod
    def _make(path: Path) -> None:
        """Make a directory and what is missing above it, durably."""
        missing = [one for one in (path, *path.parents) if not one.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for one in missing:
            sync(one.parent)


class ObjectLake:
    """Objects below a prefix of a bucket.

    Args:
        place: As ``places.object_place`` makes it.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._system, self._root = system_of(place)

    def path(self, name: str) -> str:
        """Bucket, prefix and name, as pyarrow takes them."""
        return f"{self._root}/{name}"

    def names(self, folder: str) -> list[str]:
        """The names up to the next slash."""
        return sorted(one.base_name for one in self._listed(folder, recursive=False))

    def has_files(self, suffix: str) -> bool:
        """Whether one is somewhere below the prefix."""
        return any(one.path.endswith(suffix) for one in self._listed("", recursive=True))

    def of_run(self, run: str, folder: str = "") -> list[str]:
        """Those whose upload was completed: others are no objects."""
        found = self._listed(folder, recursive=not folder)
        wanted = (one.path for one in found if f"-{run}-" in one.base_name)
        return [path.removeprefix(f"{self._root}/") for path in wanted]

    def get(self, name: str) -> bytes | None:
        """The bytes of an object."""
        return read_whole(f"{self.place}/{name}")

    def size(self, name: str) -> int | None:
        """The length of an object."""
        with self._errors():
            found = self._system.get_file_info(f"{self._root}/{name}")
        return None if found.type == arrow_fs.FileType.NotFound else int(found.size or 0)

    def put(self, name: str, data: bytes) -> None:
        """Store an object in one request."""
        with self._errors(), self._system.open_output_stream(f"{self._root}/{name}") as file:
            file.write(data)

    def put_new(self, name: str, data: bytes) -> bool:
        """Store an object on the condition that there is none of its name."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            obstore.put(_conditional(self.place), name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except BaseError as error:
            raise self._refused(error) from error
        return True

    def remove(self, name: str) -> None:
        """Remove an object; missing is fine."""
        with self._errors(), contextlib.suppress(FileNotFoundError):
            self._system.delete_file(f"{self._root}/{name}")

    def lock(self, name: str) -> Lock | None:  # noqa: ARG002 - as in a directory
        """None: of two runs at a time one is refused when it puts its entry."""
        return None

    @contextmanager
    def written(self, name: str) -> Generator[BinaryIO]:
        """An upload, which is an object when it is completed."""
        try:
            with self._errors(), open_output(f"{self.place}/{name}") as file:
                yield file
        except BaseException:
            self.remove(name)  # pyarrow completes an upload in any case
            raise

    def make_durable(self, names: Iterable[str]) -> None:
        """Nothing: an object is durable when its upload is."""

    def _listed(self, folder: str, *, recursive: bool) -> list[arrow_fs.FileInfo]:
        base = f"{self._root}/{folder}".rstrip("/")
        selector = arrow_fs.FileSelector(base, allow_not_found=True, recursive=recursive)
        with self._errors():
            found = self._system.get_file_info(selector)
        return [one for one in found if one.type == arrow_fs.FileType.File]

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> SparkJobError:
        found = " ".join(str(error).partition("Debug source")[0].split())
        return SparkJobError(
            f"{self.place}: expected an object store that takes an archive, found: {found}"
        )


def _conditional(place: str) -> ObjectStore:
    """The same place for puts with a condition, which pyarrow has not.

    Raises:
        SparkJobError: The extra ``backup`` is not installed.
    """
    try:
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise SparkJobError(
            f"{place}: expected obstore, for an archive in an object store, found none: "
            "pip install 'timermq[backup]'"
        ) from None
    scheme, _, rest = place.partition(SCHEME_MARK)
    authority, _, key = rest.partition("/")
    bucket, _, query = authority.partition(OPTIONS_MARK)
    options = dict(parse_qsl(query))
    config: S3Config = {}
    client: ClientConfig = {}
    if "endpoint_override" in options:
        protocol = options.get("scheme", "https")
        config["endpoint"] = f"{protocol}{SCHEME_MARK}{options['endpoint_override']}"
        client["allow_http"] = protocol == "http"
    if "region" in options:
        config["region"] = options["region"]
    return from_url(f"{scheme}{SCHEME_MARK}{bucket}/{key}", config=config, client_options=client)


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
