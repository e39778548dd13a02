"""The check: every rule over several histories of one run, and the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from .broken import Broken, Rule
from .histories import Histories, Life
from .message_rules import MessageRules
from .queue_rules import broken_offsets, broken_order, in_order
from .reader import Numbered, read_all


@attrs.frozen(kw_only=True)
class Report:
    """The breaches, how often each rule applied, and the ledger."""

    broken: tuple[Broken, ...]
    judged: Mapping[Rule, int]
    """How many messages, arrivals (ORDER) or queues (OFFSETS) each rule could be held against."""
    ledger: Mapping[str, int]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken


def check(named: Mapping[str, Numbered], *, others_send: bool = False) -> Report:
    """Judge histories that were written by the parties of one run.

    Args:
        named: Name of each file to its events with their lines.
        others_send: Whether messages may arrive that none of the files sent.

    Raises:
        HistoryError: A file is no history, or an answer is without its question.
    """
    histories = read_all(named)
    rules = MessageRules(histories, others_send)
    broken = [one for life in histories.lives.values() for one in rules.broken(life)]
    broken += broken_order(histories)
    broken += broken_offsets(histories)
    return Report(
        broken=tuple(broken),
        judged=_judged(histories, rules),
        ledger=_ledger(histories, rules, broken),
    )


def _judged(histories: Histories, rules: MessageRules) -> dict[Rule, int]:
    """How often each rule could have been broken: a rule that never applies shows nothing."""
    judged: Counter[Rule] = Counter(dict.fromkeys(Rule, 0))
    for life in histories.lives.values():
        sent, arrived = bool(life.attempts), bool(life.arrivals)
        is_certain = not rules.is_uncertain(life)
        judged[Rule.UNSENT] += arrived or any(one.is_refused for one in life.attempts)
        judged[Rule.ONCE] += sent
        judged[Rule.PLACE] += sent and arrived
        judged[Rule.NOT_BEFORE] += arrived and any(one.earliest_ms for one in life.attempts)
        judged[Rule.NOT_LOST] += is_certain and rules.must_arrive(life)
        judged[Rule.CANCEL] += is_certain and bool(life.requests) and sent
        judged[Rule.RESCHEDULE] += is_certain and any(
            one.verdict == "moved" for one in life.requests
        )
    judged[Rule.ORDER] = sum(len(one) for one in in_order(histories).values() if len(one) > 1)
    judged[Rule.OFFSETS] = sum(histories.horizon_ms(one.topic) >= 0 for one in histories.queues)
    return dict(judged)


def _ledger(histories: Histories, rules: MessageRules, broken: list[Broken]) -> dict[str, int]:
    """Messages by what became of them, then what was done to the broker."""
    found = Counter(one.rule for one in broken)
    ledger: Counter[str] = Counter(
        dict.fromkeys(("sent", "acknowledged", "refused", "unanswered", "delivered"), 0)
    )
    for life in histories.lives.values():
        if life.attempts:
            ledger["sent"] += 1
            ledger[_outcome(life)] += 1
        ledger["delivered"] += bool(life.arrivals)
        for verdict in ("cancelled", "moved", "too_late", "not_found"):
            ledger[verdict] += any(one.verdict == verdict for one in life.requests)
        ledger["unseen"] += (
            _outcome(life) == "acknowledged"
            and not life.arrivals
            and not life.requests
            and not rules.must_arrive(life)
        )
    ledger["uncertain"] = histories.unjudged_requests + sum(
        rules.is_uncertain(life) for life in histories.lives.values()
    )
    ledger["lost"] = found[Rule.NOT_LOST]
    ledger["early"] = found[Rule.NOT_BEFORE] + found[Rule.RESCHEDULE]
    ledger["twice"] = found[Rule.ONCE]
    ledger["broken"] = len(broken)
    return {**ledger, **histories.counts}


def _outcome(life: Life) -> str:
    if any(one.ack is not None for one in life.attempts):
        return "acknowledged"
    is_refused = bool(life.attempts) and all(one.is_refused for one in life.attempts)
    return "refused" if is_refused else "unanswered"
