"""Files by their paths, on this machine or in an object store: opened, listed, read by ranges.

A path in an object store is a text such as ``s3://bucket;region=eu-west-1/prefix/file``: what is
needed to reach the store stands behind the bucket. So it is put together as any path is, and goes
to executors as it is. Users write it as pyarrow does, with the options at the end.

Credentials never stand in a path: driver and executors have them in their environment, under the
names of the object store's own tools, or from the machine that they run on.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import BinaryIO, Protocol, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pyarrow.fs as arrow_fs

from .errors import SparkJobError

SCHEMES = ("s3", "gs", "abfs", "abfss")
"""Of object stores that pyarrow reads."""
SCHEME_MARK = "://"
OPTIONS_MARK = ";"
"""Between a bucket and what is needed to reach it; no character of a pattern of files."""


class RangeReader(Protocol):
    """A file, open for reading."""

    def size(self) -> int:
        """Length of the file in bytes."""
        ...

    def read_at(self, size: int, offset: int) -> bytes:
        """Bytes from ``offset`` on; fewer at the end of the file."""
        ...

    def close(self) -> None:
        """Close the file; once is enough."""
        ...


def object_place(directory: str, place: str | None = None) -> str | None:
    """The path of a store in an object store, for all processes; None of one elsewhere.

    Args:
        directory: As it was given: a URL, or a path that this function has made.
        place: Where, for errors; None: they begin with the directory.

    Raises:
        SparkJobError: There are credentials in it.
    """
    scheme, mark, _ = directory.partition(SCHEME_MARK)
    if not mark or scheme not in SCHEMES:
        return None
    if OPTIONS_MARK in directory.removeprefix(scheme + mark).partition("/")[0]:
        return directory.rstrip("/")  # as this function has made it
    url = urlsplit(directory)
    begin = "" if place is None else f"{place}: "
    if "@" in url.netloc and scheme == "s3":
        raise SparkJobError(
            f"{begin}{scheme}{mark}…@{url.netloc.rpartition('@')[2]}{url.path}: expected no "
            "credentials in it, found some: name them in the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY)"
        )
    options = {**(_of_environment() if scheme == "s3" else {}), **dict(parse_qsl(url.query))}
    query = urlencode(sorted(options.items()), safe=":", quote_via=quote)
    key = posixpath.normpath(f"/{url.path}").lstrip("/")
    return f"{scheme}{mark}{url.netloc}{OPTIONS_MARK}{query}/{key}".rstrip("/")


def _of_environment() -> dict[str, str]:
    """What of the names that ``timermq backup`` reads executors may not have."""
    found: dict[str, str] = {}
    endpoint = os.environ.get("AWS_ENDPOINT") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        url = urlsplit(endpoint if SCHEME_MARK in endpoint else f"https{SCHEME_MARK}{endpoint}")
        found |= {"endpoint_override": url.netloc, "scheme": url.scheme}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return found | ({"region": region} if region else {})


def is_object(path: str) -> bool:
    """Whether a path is one in an object store."""
    return SCHEME_MARK in path


def bucket_and_key(path: str) -> tuple[str, str]:
    """The parts of a path in an object store: up to the bucket and its options, and behind it."""
    scheme, mark, rest = path.partition(SCHEME_MARK)
    bucket, _, key = rest.partition("/")
    return f"{scheme}{mark}{bucket}", key


def shown_place(path: str) -> str:
    """A path as a name of what is there: without what is needed to reach it."""
    if not is_object(path):
        return path
    bucket, key = bucket_and_key(path)
    return f"{bucket.partition(OPTIONS_MARK)[0]}/{key}".rstrip("/")


def open_ranges(path: str) -> RangeReader:
    """A file, open for reading.

    Raises:
        FileNotFoundError: It is not there.
        SparkJobError: The object store cannot be read.
    """
    if not is_object(path):
        return _LocalFile(path)
    return ObjectFile(path)


def read_whole(path: str) -> bytes | None:
    """The bytes of a file; None when it is missing.

    Raises:
        SparkJobError: The object store cannot be read.
    """
    try:
        reader = open_ranges(path)
    except FileNotFoundError:
        return None
    try:
        return reader.read_at(reader.size(), 0)
    finally:
        reader.close()


@contextmanager
def open_output(path: str) -> Generator[BinaryIO]:
    """A new object to be written in a block; it is there when the block ends.

    Raises:
        OSError: The object store refused.
    """
    system, key = system_of(path)
    with system.open_output_stream(key) as file:
        yield cast("BinaryIO", file)


class _LocalFile:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)


class ObjectFile:
    """An object; each read is a request for a range of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        system, key = system_of(path)
        try:
            self._file = system.open_input_file(key)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable(path, error) from error
        self._size: int = self._file.size()

    def size(self) -> int:
        """Length of the object in bytes."""
        return self._size

    def read_at(self, size: int, offset: int) -> bytes:
        """Bytes from ``offset`` on; fewer at the end of the object.

        Raises:
            SparkJobError: The object store cannot be read.
        """
        try:
            # Behind the end of an object no range can be asked for.
            size = min(size, self._size - offset)
            if size <= 0:
                return b""
            self._file.seek(offset)
            return self._file.read(size)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def close(self) -> None:
        """Let go of the object."""
        self._file.close()


def system_of(path: str) -> tuple[arrow_fs.FileSystem, str]:
    """The object store of a path, and the name there, bucket first.

    Raises:
        SparkJobError: It cannot be reached.
    """
    scheme, _, rest = path.partition(SCHEME_MARK)
    authority, _, key = rest.partition("/")
    system, bucket = _system(scheme, authority)
    return system, f"{bucket}/{key}".rstrip("/")


@cache
def _system(scheme: str, authority: str) -> tuple[arrow_fs.FileSystem, str]:
    """An object store, one in a process, and what names in it begin with."""
    bucket, _, query = authority.partition(OPTIONS_MARK)
    try:
        return arrow_fs.FileSystem.from_uri(f"{scheme}{SCHEME_MARK}{bucket}?{query}")
    except (OSError, ValueError) as error:
        raise unreadable(f"{scheme}{SCHEME_MARK}{bucket}", error) from error


def unreadable(path: str, error: Exception) -> SparkJobError:
    """The error for what an object store refused to be asked."""
    return SparkJobError(
        f"{path}: expected an object store that can be read, found: {' '.join(str(error).split())}"
    )
