"""The fuzz targets (`tests/fuzz`): what is kept of them, and a few inputs drawn anew."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from fuzz.drawn import check_kept, inputs
from fuzz.targets import CORPUS, TARGETS, kept

EXAMPLES = 60


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept(name: str) -> None:
    """Good inputs, findings, and what once led to new code: all are read or refused."""
    assert check_kept(name, TARGETS[name]) >= 3


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    """Good inputs with a few bytes changed, and random ones."""
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow], database=None)
    @given(inputs(target))
    def read(data: bytes) -> None:
        target.fuzz_one(data)

    read()


def test_the_corpus_belongs_to_targets() -> None:
    """Nothing is kept that is not run; files are small."""
    assert {directory.name for directory in CORPUS.iterdir()} <= set(TARGETS)
    assert all(file.stat().st_size <= 8192 for name in TARGETS for file in kept(name))
