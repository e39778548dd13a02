"""Seals of sectors, the pages that hold them, and the bit that a seal can name."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from timermq.timerstore.seal_page import (
    COPIED_SIZE_MAX,
    FACTORS,
    PAGE_SIZE,
    SEALS_IN_PAGE,
    SECTOR_SIZE,
    STRETCH_SIZE,
    SealPage,
    encode_pages,
    repaired,
    seals_behind,
    seals_of,
)


def page_of(data: bytes, start: int = 0) -> SealPage:
    """The page of a stretch that begins with ``data``."""
    return SealPage(start=start, covered=len(data), seals=seals_of(data))


def test_the_format() -> None:
    """Factors and seals are part of it: other ones would find damage everywhere."""
    assert FACTORS[:2].tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F5]
    assert (FACTORS & np.uint64(1)).all()
    assert seals_of(b"\1" + bytes(11) + b"\2").tolist() == [
        (0xE220A8397B1DCDAF + (2 << 32 | 2) * 0x6E789E6AA1B965F5) % (1 << 64)
    ]
    assert seals_of(bytes(1024)).tolist() == [0, 0]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 1_500, COPIED_SIZE_MAX, COPIED_SIZE_MAX + 700])
def test_seals_behind_a_tail_are_those_of_one_piece(size: int) -> None:
    """Whatever part of a sector stands before and behind."""
    draw = Random(size)
    for tail_size in (0, 1, 300, 511):
        tail, data = draw.randbytes(tail_size), draw.randbytes(size)
        whole = tail + data
        seals, rest = seals_behind(tail, memoryview(data))
        assert seals.tolist() == seals_of(whole).tolist()
        assert rest == whole[len(whole) - len(whole) % SECTOR_SIZE :]


def test_a_page_comes_back() -> None:
    """All fields, the last sector not whole."""
    data = Random(1).randbytes(5 * SECTOR_SIZE + 7)
    page = page_of(data, 3 * STRETCH_SIZE)
    written = page.encode()
    back = SealPage.decode(written, 3 * STRETCH_SIZE)

    assert len(written) == PAGE_SIZE
    assert back is not None
    assert (back.start, back.covered) == (page.start, page.covered)
    assert (back.seals == page.seals).all()
    assert back.damaged(data) == []
    assert back.damaged(data + b"more, not sealed") == []


def test_pages_of_several_stretches() -> None:
    """Each is that of its stretch alone."""
    data = Random(7).randbytes(2 * STRETCH_SIZE + 600)
    pages = encode_pages(STRETCH_SIZE, len(data), seals_of(data))

    for number in range(3):
        part = data[number * STRETCH_SIZE : (number + 1) * STRETCH_SIZE]
        alone = page_of(part, (number + 1) * STRETCH_SIZE).encode()
        assert pages[number * PAGE_SIZE : (number + 1) * PAGE_SIZE] == alone
    assert len(pages) == 3 * PAGE_SIZE


def test_a_page_that_seals_nothing() -> None:
    """It is one, so that nothing is believed of what stood there."""
    written = SealPage.empty(0).encode()
    page = SealPage.decode(written, 0)

    assert len(written) == PAGE_SIZE
    assert page is not None
    assert page.covered == 0


def test_every_bit_of_a_page_counts() -> None:
    """A page that is damaged says nothing."""
    written = page_of(Random(2).randbytes(STRETCH_SIZE)).encode()
    for bit in range(8 * PAGE_SIZE):
        changed = bytearray(written)
        changed[bit // 8] ^= 1 << bit % 8
        assert SealPage.decode(bytes(changed), 0) is None


@pytest.mark.parametrize("page", [b"", bytes(PAGE_SIZE), bytes(100)])
def test_no_page(page: bytes) -> None:
    """Zeros are none: a sector of zeros has a seal of zero."""
    assert SealPage.decode(page, 0) is None


def test_a_page_of_another_place() -> None:
    """A page that was written to the wrong place says nothing there."""
    assert SealPage.decode(page_of(b"data", STRETCH_SIZE).encode(), 0) is None


@pytest.mark.parametrize("size", [SECTOR_SIZE, 7, 4])
def test_every_flipped_bit_is_put_right(size: int) -> None:
    """Set or cleared, in any place of a sector, also of one that is not whole."""
    data = Random(3).randbytes(size)
    sealed = int(seals_of(data)[0])
    for bit in range(8 * size):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert repaired(bytes(changed), sealed) == data


def test_any_damage_within_a_word_is_put_right() -> None:
    """Words begin at multiples of four."""
    random = Random(5)
    for _ in range(500):
        data = random.randbytes(SECTOR_SIZE)
        at = 4 * random.randrange(128)
        changed = data[:at] + random.randbytes(4) + data[at + 4 :]
        if changed != data:
            assert repaired(changed, int(seals_of(data)[0])) == data


def test_sound_bytes_are_not_repaired() -> None:
    """There is nothing to put right."""
    data = Random(6).randbytes(SECTOR_SIZE)

    assert repaired(data, int(seals_of(data)[0])) is None


@pytest.mark.parametrize("count", [5, 8, 100, SECTOR_SIZE])
def test_larger_damage_stays(count: int) -> None:
    """It is found, and nothing is made up in its place."""
    random = Random(count)
    for _ in range(200):
        data = random.randbytes(SECTOR_SIZE)
        at = random.randrange(SECTOR_SIZE - count + 1)
        noise = bytes(one ^ random.randrange(1, 256) for one in data[at : at + count])
        changed = data[:at] + noise + data[at + count :]
        sealed = int(seals_of(data)[0])
        assert int(seals_of(changed)[0]) != sealed
        assert repaired(changed, sealed) is None


def test_two_top_bits() -> None:
    """Words that differ in their top bits alone are told apart: so two counters may differ."""
    data = bytes(SECTOR_SIZE)
    seals = {int(seals_of(data)[0])}
    for first in range(7, SECTOR_SIZE, 8):
        for second in range(first + 8, SECTOR_SIZE, 8):
            changed = bytearray(data)
            changed[first] = changed[second] = 0x80
            seals.add(int(seals_of(bytes(changed))[0]))

    assert len(seals) == 1 + 64 * 63 // 2


def test_sectors_that_changed_places() -> None:
    """Each is damaged where it stands now."""
    data = Random(4).randbytes(SEALS_IN_PAGE * SECTOR_SIZE)
    first, second = data[:SECTOR_SIZE], data[SECTOR_SIZE : 2 * SECTOR_SIZE]

    assert page_of(data).damaged(second + first + data[2 * SECTOR_SIZE :]) == [0, 1]
