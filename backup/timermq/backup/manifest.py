"""The manifest of a backup: which objects are the store, with a digest of each.

It is one object, ``manifest``, which is replaced as a whole. A backup consists of what its manifest
names; all other objects are garbage, such as a killed shipper leaves. The first line of the object
is the SHA-256 of the rest, which is JSON.

==========================  ==========================================================
object                      holds
==========================  ==========================================================
``log/START-END-RUN.N``     the commit log's bytes of [START, END), inside one segment
``list/START-RUN.N``        the pieces of a whole segment, as JSON
``table/NAME-RUN.N``        a file of ``config/``
==========================  ==========================================================

``RUN`` names the shipper's process and ``N`` counts its objects, so no name is given twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

import attrs
import cattrs

from .target import BackupError

MANIFEST = "manifest"
"""Name of the manifest's object."""
VERSION = 1


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@attrs.frozen(kw_only=True)
class Stored:
    """An object of a backup, by its name and the digest of its bytes."""

    name: str
    sha256: str


@attrs.frozen(kw_only=True)
class Piece(Stored):
    """Bytes of the commit log that stand in one object, positions in the log."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """Length of the piece in bytes."""
        return self.end - self.start


@attrs.frozen(kw_only=True)
class WholeSegment(Stored):
    """A segment that is shipped to its end; the object is the list of its pieces."""

    start: int
    end: int
    last_store_ms: int
    """Store time of its newest record, epoch ms."""


@attrs.frozen(kw_only=True)
class Manifest:
    """A backup at one moment; positions in bytes of the commit log."""

    version: int = VERSION
    run: str = ""
    """The process that wrote it."""
    shipped_ms: int = 0
    """Time of the last look at the log, epoch ms: all that was in the log then is in the backup."""
    segment_size: int = 0
    """Bytes of one segment; 0 while the store has none."""
    whole: tuple[WholeSegment, ...] = ()
    """Ascending, without gaps."""
    pieces: tuple[Piece, ...] = ()
    """Of the newest segment, ascending, without gaps."""
    last_store_ms: int = 0
    """Store time of the newest record, epoch ms."""
    damaged: int = 0
    """Bytes of the log that were damaged in the store when they were shipped."""
    is_complete: bool = False
    """The log was shipped to its end at least once; the tables are of that time or newer."""
    tables: Mapping[str, Stored] = attrs.field(factory=dict[str, Stored])
    """Path below ``config/`` to its object."""

    @property
    def start(self) -> int:
        """Where the log of the backup begins; 0 without any."""
        parts: tuple[WholeSegment | Piece, ...] = (*self.whole[:1], *self.pieces[:1])
        return parts[0].start if parts else 0

    @property
    def end(self) -> int:
        """Where the log of the backup ends."""
        parts: tuple[WholeSegment | Piece, ...] = (*self.whole[-1:], *self.pieces[-1:])
        return parts[-1].end if parts else 0

    def objects(self) -> Iterator[str]:
        """The names of all objects that it names itself; lists of pieces name more."""
        yield MANIFEST
        for one in (*self.whole, *self.pieces, *self.tables.values()):
            yield one.name

    def encode(self) -> bytes:
        """The bytes of the manifest's object."""
        text = json.dumps(cattrs.unstructure(self), separators=(",", ":")).encode()
        return digest(text).encode() + b"\n" + text

    @classmethod
    def decode(cls, data: bytes, place: str) -> Manifest:
        """Read what ``encode`` wrote.

        Args:
            data: The object.
            place: Of the backup, for messages.

        Raises:
            BackupError: It is damaged, or of a newer version.
        """
        stated, _, text = data.partition(b"\n")
        if stated.decode("ascii", "replace") != digest(text):
            raise BackupError(f"{place}: {MANIFEST}: expected the digest it states, found another")
        raw = json.loads(text)
        if raw.get("version") != VERSION:
            raise BackupError(
                f"{place}: {MANIFEST}: expected version {VERSION}, found {raw.get('version')}: "
                "a newer timermq wrote it"
            )
        return cattrs.structure(raw, cls)


def encode_list(pieces: tuple[Piece, ...]) -> bytes:
    """The list of a whole segment's pieces."""
    return json.dumps(cattrs.unstructure(pieces), separators=(",", ":")).encode()


def decode_list(data: bytes) -> tuple[Piece, ...]:
    """Read what ``encode_list`` wrote; its digest was compared before."""
    return cattrs.structure(json.loads(data), tuple[Piece, ...])
