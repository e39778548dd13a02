"""Tell the life of one message, step by step, and how it stands.

When it was stored, rolled, moved, cancelled, quarantined, delivered and consumed: what the log
still holds of it, of a running broker or in the store of a stopped one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TypedDict, cast

import cbor2
import trio

from timermq.client.recall import message_id_of
from timermq.remoting import Command, RequestCode
from timermq.timerstore.errors import StoreError

from .answer_body import decode_answer
from .arguments import OneLineParser, UsageError, add_json
from .broker_link import BrokerLink, ask_each, call_brokers
from .client_access import ClientAccess, add_client_access
from .moment import format_moment
from .output import Row, print_json, print_table, visible
from .store_flags import add_stopped_store, refuse_without_store

COLUMNS = ("at_ms", "step", "topic", "deliver_ms", "lateness_ms", "consumed_by", "text")
"""The columns for people; `--json` has every field of ``LifeStep``."""


class MessageNotFoundError(StoreError):
    """No broker or store that was asked knows the message."""


class StepRow(TypedDict):
    """One step of a message's life, with the fields of ``LifeStep``."""

    step: str
    at_ms: int
    phy_offset: int
    topic: str
    queue_id: int | None
    queue_offset: int | None
    deliver_ms: int | None
    lateness_ms: int | None
    consumed_by: list[str]
    group_count: int
    text: str


class LifeAnswer(TypedDict):
    """The answer of a broker; see ``explain_processor``."""

    now: str
    deliver_ms: int | None
    steps: list[StepRow]
    is_whole: bool


def prepare_parser(parser: OneLineParser) -> None:
    """Which message, and of whom."""
    parser.add_argument("id", metavar="ID", help="the message id or the handle that send printed")
    parser.add_argument(
        "--topic", metavar="T", help="look there too, for what was sent without a delay"
    )
    add_stopped_store(parser)
    add_client_access(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a step."""
    refuse_without_store(args)
    topic: str | None = args.topic
    if not args.id or topic == "":
        raise UsageError("explain: expected an ID, and a topic if one is named, found an empty one")
    unique_key = message_id_of(args.id) or str(args.id)
    if not _is_text(unique_key) or not _is_text(topic or ""):
        raise UsageError("explain: expected an ID and a topic of text, found bytes that are none")
    if args.store is not None:
        answers = [(str(args.store), _offline(args, unique_key))]
    else:
        answers = trio.run(_live, ClientAccess.of(args), unique_key, topic)
    known = [(place, one) for place, one in answers if one["steps"]]
    if not known:
        hint = "" if topic else "; one sent without a delay is found with --topic"
        raise MessageNotFoundError(f"not_found: nothing is known of the message {unique_key}{hint}")
    for place, life in known:
        if args.json:
            print_json(_rows(place, unique_key, life))
        else:
            _print(place, unique_key, life)
    return 0


def _is_text(argument: str) -> bool:
    """Whether an argument has no bytes that the terminal's coding has not."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _rows(place: str, unique_key: str, life: LifeAnswer) -> Iterator[Row]:
    """One a step, each with how the message stands."""
    head = {
        "unique_id": unique_key,
        "broker": place,
        "now": life["now"],
        "waits_until_ms": life["deliver_ms"],
        "is_whole": life["is_whole"],
    }
    return ({**head, **step} for step in life["steps"])


def _print(place: str, unique_key: str, life: LifeAnswer) -> None:
    due_ms = life["deliver_ms"]
    until = "" if due_ms is None else f" until {format_moment(due_ms)}"
    print(visible(f"{unique_key} at {place}: {life['now']}{until}"))
    if not life["is_whole"]:
        print("(the oldest steps are left out)")
    print_table([_shown(step) for step in life["steps"]], COLUMNS)


def _shown(step: StepRow) -> Row:
    more = step["group_count"] - len(step["consumed_by"])
    groups = [*step["consumed_by"], *([f"{more} more"] if more > 0 else [])]
    return {**step, "consumed_by": ", ".join(groups)}


def _offline(args: argparse.Namespace, unique_key: str) -> LifeAnswer:
    """The steps that the store of a stopped broker holds.

    Raises:
        StoreError: Its tables cannot be read, or too many records have the key.
    """
    from .offline_store import open_offline
    from .stored_life import stored_life

    with open_offline(args, args.store) as offline:
        return cast("LifeAnswer", stored_life(offline, unique_key, args.topic))


async def _live(
    access: ClientAccess, unique_key: str, topic: str | None
) -> list[tuple[str, LifeAnswer]]:
    """The answer of each broker, by its address; those without one are named on standard error."""
    body = cbor2.dumps({"id": unique_key, "topic": topic})

    async def ask(broker: BrokerLink) -> LifeAnswer:
        answer = await broker.call(Command(RequestCode.EXPLAIN_MESSAGE, body=body))
        return decode_answer(answer.body, LifeAnswer, f"{broker.address}: explain", depth_max=4)

    async with call_brokers(access) as brokers:
        answers = await ask_each(brokers, ask)
    answers.tell_missing()
    return [(broker.address, life) for broker, life in answers.given]
