"""The targets: one a family of readers, each with a function that takes any bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from fuzz import (
    access_files,
    batches,
    blocks,
    cbor_bodies,
    frames,
    headers,
    histories,
    intruder,
    json_bodies,
    json_files,
    packed_bodies,
    properties,
    records,
    requests,
    texts,
    timers,
    units,
)

CORPUS = Path(__file__).parent / "corpus"


@attrs.frozen
class Target:
    """A function that takes any bytes, and good inputs for it."""

    fuzz_one: Callable[[bytes], None]
    """Reads the bytes; any exception is a finding."""
    seeds: Callable[[], list[bytes]]
    """Good inputs, which others are made of."""


TARGETS = {
    module.__name__.rpartition(".")[2]: Target(module.fuzz_one, module.seeds)
    for module in (
        frames,
        headers,
        properties,
        batches,
        records,
        timers,
        units,
        json_files,
        json_bodies,
        cbor_bodies,
        packed_bodies,
        texts,
        blocks,
        access_files,
        histories,
        requests,
        intruder,
    )
}


def kept(name: str) -> list[Path]:
    """The files of the target's corpus: findings, and what led somewhere new."""
    return sorted((CORPUS / name).glob("*"))
