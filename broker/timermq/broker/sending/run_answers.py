"""The answers to sends of one form: the frames that a template writes for each, made as rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from timermq.pipeline.admission.recall_handle import encode_handles
from timermq.pipeline.admission.timer_put_result import TimerPutColumns
from timermq.remoting.plain_send import FRONT, HANDLE_PART
from timermq.timerstore.array_types import Rows
from timermq.timerstore.byte_rows import digit_counts, digits_of, distinct, joined_rows

from .send_request import AddressedRun, AnswerFacts


def run_answers(facts: AnswerFacts, sent: AddressedRun, put: TimerPutColumns) -> bytes:
    """What ``AnswerFacts.plain`` says to each of these sends, joined.

    Answers are made together where their numbers have as many digits; nearly always that is all.
    """
    offsets, places = put.stored.queue_offsets, put.stored.phy_offsets
    shapes = digit_counts(offsets)
    if put.out_ms is not None:
        shapes += digit_counts(put.out_ms + 1) << 8
    frames: list[bytes] = []
    found, shape_of = distinct(shapes)
    for number, shape in enumerate(found):
        # Nearly always all rows, which need not be copied.
        rows = slice(None) if len(found) == 1 else np.flatnonzero(shape_of == number)
        keys = sent.unique_keys[rows]
        handles: Rows | None = None
        if put.out_ms is not None and facts.has_handles(sent.topic):
            timestamps = digits_of(put.out_ms[rows] + 1, shape >> 8)
            handles = encode_handles(sent.topic, facts.options.broker_name, timestamps, keys)
        frames.append(
            _frames(
                facts,
                message_ids=_hex(places[rows]),
                queue_ids=sent.run.texts(sent.run.form.queue_id)[rows],
                queue_offsets=digits_of(offsets[rows], shape & 0xFF),
                unique_keys=keys,
                handles=handles,
                opaques=sent.run.texts(sent.run.form.opaque)[rows],
            )
        )
    return b"".join(frames)


def _frames(
    facts: AnswerFacts,
    *,
    message_ids: Rows,
    queue_ids: Rows,
    queue_offsets: Rows,
    unique_keys: Rows,
    handles: Rows | None,
    opaques: Rows,
) -> bytes:
    parts = [part.encode() for part in facts.template.parts]
    handle_start, handle_end = HANDLE_PART.encode().split(b"%s")
    pieces = (
        parts[0] + facts.id_prefix.encode(),
        message_ids,
        parts[1],
        queue_ids,
        parts[2],
        queue_offsets,
        parts[3] + b'"',
        unique_keys,
        b'"' + parts[4],
        *(() if handles is None else (handle_start, handles, handle_end)),
        parts[5],
        opaques,
        parts[6],
    )
    size = sum(len(piece) if isinstance(piece, bytes) else piece.shape[1] for piece in pieces)
    return joined_rows(len(opaques), (FRONT.pack(size + 4, size), *pieces)).tobytes()


def _hex(positions: NDArray[np.int64]) -> Rows:
    """Positions as the 16 digits that end a message id."""
    digits = positions.astype(">i8").tobytes().hex().upper()
    return np.frombuffer(digits.encode(), np.uint8).reshape(len(positions), -1)
