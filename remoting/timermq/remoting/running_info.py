"""The subscriptions in a consumer's running info, its answer to GET_CONSUMER_RUNNING_INFO (307).

The rest of the answer is not read: its tables have objects as keys, which is not JSON, and a row
for each queue of the consumer. The list is found by its name in quotes. That cannot stand inside a
text, where quotes have a backslash before them.

Source: Java ``ConsumerRunningInfo``, Go ``ConsumerRunningInfo``.
"""

from __future__ import annotations

import json
import re

from .bodies import BodyFormatError, SubscriptionData, json_items, load_json

SUBSCRIPTIONS_SIZE_MAX = 1 << 18
"""Bytes of the list at most; a thousand subscriptions have room."""

_NAME = re.compile(rb'"subscriptionSet"\s*:\s*(?=\[)')
_DECODER = json.JSONDecoder()


def running_info_subscriptions(body: bytes) -> list[SubscriptionData]:
    """The subscriptions of the consumer that answered; none where it tells none.

    Raises:
        BodyFormatError: They are no JSON, or larger than ``SUBSCRIPTIONS_SIZE_MAX``.
    """
    name = _NAME.search(body)
    if name is None:
        return []
    part = body[name.end() : name.end() + SUBSCRIPTIONS_SIZE_MAX]
    text = part.decode(errors="replace")
    try:
        end = _DECODER.raw_decode(text)[1]
    except (ValueError, RecursionError) as error:
        raise BodyFormatError(
            "running info", f"subscriptions of at most {SUBSCRIPTIONS_SIZE_MAX} bytes", str(error)
        ) from None
    items = load_json(text[:end].encode(errors="surrogatepass"), "running info")
    return [SubscriptionData.from_json(item) for item in json_items(items, "subscriptionSet")]
