"""An archive in an object store: uploads, and puts on the condition that there is no such object.

pyarrow uploads, lists and reads. It knows no conditions, so an entry goes through obstore, which
``timermq backup`` uses too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import parse_qsl

import pyarrow.fs as arrow_fs

from timermq.timerstore.disk import Lock

from ..errors import SparkJobError
from ..places import OPTIONS_MARK, SCHEME_MARK, open_output, read_whole, system_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, S3Config


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
        with self._errors(), suppress(FileNotFoundError):
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
