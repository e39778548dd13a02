"""The digest of bytes of the commit log, by which two replicas compare what they have."""

from __future__ import annotations

import hashlib

from timermq.timerstore.commit_log import CommitLog

DIGEST_SIZE_MAX = 16 << 20
"""Bytes of which a digest is made: more than a record has."""


def log_digest(log: CommitLog, offset: int, size: int) -> str | None:
    """SHA-256 of bytes of a log, as hexadecimal digits.

    Args:
        log: The log.
        offset: Position of the first byte.
        size: Bytes, up to `DIGEST_SIZE_MAX`; they may lie in several segments.

    Returns:
        None when the log has not all of them.
    """
    if not (0 < size <= DIGEST_SIZE_MAX and log.min_offset <= offset <= log.max_offset - size):
        return None
    digest, end = hashlib.sha256(), offset + size
    while offset < end:
        data = log.read(offset, end - offset)
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()
