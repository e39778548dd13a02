"""Which segments a backup keeps, decided by manifests and times alone."""

from __future__ import annotations

from itertools import dropwhile

import attrs

from .manifest import Manifest


def without_cleaned(manifest: Manifest, oldest: int, before_ms: int) -> Manifest:
    """A manifest without old segments that the store has cleaned.

    Args:
        manifest: Of the backup.
        oldest: Start of the store's oldest segment.
        before_ms: Store time, epoch ms; a segment with a record stored later stays.
    """
    whole = dropwhile(
        lambda one: one.end <= oldest and one.last_store_ms < before_ms, manifest.whole
    )
    return attrs.evolve(manifest, whole=tuple(whole))


def begun_at(manifest: Manifest, start: int, segment_size: int) -> Manifest:
    """A manifest that goes on at the store's oldest segment.

    It loses its log if there is a gap before that segment: the records between were cleaned.

    Args:
        manifest: Of the backup; its log stays if it ends at the segment's start, or behind it.
        start: Start of the store's oldest segment.
        segment_size: Bytes of one segment.
    """
    manifest = attrs.evolve(manifest, segment_size=segment_size)
    if manifest.end >= start and (manifest.pieces or manifest.whole):
        return manifest
    return attrs.evolve(manifest, whole=(), pieces=())
