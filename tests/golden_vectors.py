"""Small golden vectors of the store's formats: bytes as RocketMQ 5.3 writes them."""

from __future__ import annotations

RECORD_V1 = bytes.fromhex(
    "0000006b daa320a7 3610a686 00000003 00000000 00000000 00000007 00000000 00000000 00000000"
    "0000018b cfe56800 7f000001 00001f90 0000018b cfe5687b 7f000001 00002a9f 00000000 00000000"
    "00000000 00000005 68656c6c 6f 01 54 000a 54414753 01 54616741 02"
)
"""Topic ``T``, body ``hello``, queue 3, queue offset 7, born 1700000000000 at 127.0.0.1:8080,
stored 1700000000123 at 127.0.0.1:10911, TAGS=TagA."""

QUEUE_UNIT = bytes.fromhex("00000000 00000000 0000006b 00000000 0027a807")
"""The consume queue unit of ``RECORD_V1``."""

RECORD_PROPERTY_CRC = bytes.fromhex(
    "00000075 daa320a7 0cdc1683 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
    "00000000 00000001 7f000001 00000001 00000000 00000002 7f000001 00000002 00000000 00000000"
    "00000000 00000001 78 01 54 0018 41 01 42 02 5f5f435243333223 01 35303338383232333531 02"
)
"""Topic ``T``, body ``x``, A=B, and the property CRC that Java appends when it is switched on."""

LOG_BLANK = bytes.fromhex("00000064 cbd43194")
"""A commit-log segment ends with 100 bytes left."""

INDEX_ENTRY = bytes.fromhex("0026bbd5 00000000 00000000 00000000 00000000")
"""The first entry of an index file: key ``T#K1`` of the message at 0."""
INDEX_HEADER = bytes.fromhex(
    "0000018b cfe5687b 0000018b cfe5687b 00000000 00000000 00000000 00000000 00000001 00000002"
)
"""The header after that entry, stored 1700000000123."""

JAVA_HASHES = {
    "": 0,
    "T": 84,
    "TagA": 2598919,
    "TAG1": 2567159,
    "abc": 96354,
    "timer": 110364485,
    "recall": -934922479,
    "_RECALL_TAG_": -847619372,
    "FooBar#Hello": -101609924,
    "polygenelubricants": -2147483648,
}
