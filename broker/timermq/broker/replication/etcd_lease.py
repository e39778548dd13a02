"""The lease in etcd: one key, by the JSON gateway that every etcd 3.4 and later has.

``/v3/kv/range`` reads the key with its ``mod_revision``; ``/v3/kv/txn`` puts it if that is still
the newest, and else reads it in the same step. Both go through etcd's consensus: an endpoint that
has lost the others does not answer. No lease of etcd's own is used, for the brokers judge the time.

With a user and a password, ``/v3/auth/authenticate`` gives a token, which etcd forgets after some
minutes; it is asked for again then. The gateway does not take the name in a client's certificate
for a user.

Source: etcd ``api/etcdserverpb/rpc.proto``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import attrs
import trio

from .json_posts import JsonPosts, Posted, PostError
from .lease import LeaseError, LeaseRecord, Stored

ABSENT = "0"
"""The revision by which etcd compares a key that does not exist."""
_OK, _UNAUTHORIZED = 200, 401


@attrs.frozen
class EtcdUser:
    """A user of etcd, who may read and write the key."""

    name: str
    password: Callable[[], str]
    """Reads the password; raises OSError."""


class EtcdLease:
    """A key in etcd that holds the record.

    Args:
        endpoints: The members of the cluster; the first that answers is asked, until it does not.
        key: The key.
        user: None: etcd asks for none.
        request_ms: How long an answer is waited for, of all endpoints together.
    """

    def __init__(
        self,
        endpoints: Sequence[JsonPosts],
        key: str,
        *,
        user: EtcdUser | None = None,
        request_ms: float,
    ) -> None:
        self._endpoints = list(endpoints)
        self._key = _encoded(key.encode())
        self._user = user
        self._timeout = request_ms / 1000 / len(self._endpoints)
        self._token: str | None = None

    async def read(self) -> Stored:
        """The newest record, as all members have it."""
        answer = await self._ask("/v3/kv/range", {"key": self._key})
        return _stored(answer.get("kvs", []))

    async def replace(self, record: LeaseRecord, version: str) -> tuple[bool, Stored]:
        """Put the record, if the key has still this revision."""
        compare = {
            "key": self._key,
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": version,
        }
        put = {"key": self._key, "value": _encoded(record.encode())}
        answer = await self._ask(
            "/v3/kv/txn",
            {
                "compare": [compare],
                "success": [{"request_put": put}],
                "failure": [{"request_range": {"key": self._key}}],
            },
        )
        if answer.get("succeeded") is True:
            return True, Stored(record, str(_within(answer, "header").get("revision")))
        responses = answer.get("responses")
        if not isinstance(responses, list) or not responses:
            raise LeaseError(f"etcd: expected the key behind a refused put, found {answer!r:.200}")
        kept = _within(cast("dict[str, object]", responses[0]), "response_range")
        return False, _stored(kept.get("kvs", []))

    async def aclose(self) -> None:
        """Close the connections to all endpoints."""
        for endpoint in self._endpoints:
            await endpoint.aclose()

    async def _ask(self, path: str, fields: object) -> dict[str, object]:
        """The answer of the first endpoint that gives one.

        What another endpoint may have done already is compared and refused, so asking is repeated.
        """
        errors: list[str] = []
        for endpoint in list(self._endpoints):
            try:
                with trio.fail_after(self._timeout):
                    return await self._ask_one(endpoint, path, fields)
            except trio.TooSlowError:
                errors.append(f"{endpoint.place}: no answer within {self._timeout * 1000:.0f} ms")
            except (PostError, LeaseError) as error:
                errors.append(str(error))
            self._endpoints.append(self._endpoints.pop(0))
        raise LeaseError("; ".join(errors))

    async def _ask_one(self, endpoint: JsonPosts, path: str, fields: object) -> dict[str, object]:
        token = await self._log_in(endpoint) if self._token is None else self._token
        answer = await endpoint.post(path, fields, token)
        if answer.status == _UNAUTHORIZED and self._user is not None:
            answer = await endpoint.post(path, fields, await self._log_in(endpoint))
        return _checked(endpoint, answer)

    async def _log_in(self, endpoint: JsonPosts) -> str | None:
        if self._user is None:
            return None
        try:
            password = self._user.password()
        except (OSError, ValueError) as error:
            raise LeaseError(f"password of {self._user.name}: {error}") from None
        fields = {"name": self._user.name, "password": password}
        answer = _checked(endpoint, await endpoint.post("/v3/auth/authenticate", fields))
        self._token = str(answer.get("token"))
        return self._token


def _checked(endpoint: JsonPosts, answer: Posted) -> dict[str, object]:
    if answer.status != _OK:
        reason = answer.fields.get("message") or answer.fields.get("error")
        raise LeaseError(f"{endpoint.place}: etcd refused with {answer.status}: {reason}")
    return answer.fields


def _stored(rows: object) -> Stored:
    """The record of the rows that etcd has for the key: one, or none."""
    found = cast("list[object]", rows) if isinstance(rows, list) else [None]
    if not found:
        return Stored(None, ABSENT)
    if not isinstance(found[0], dict):
        raise LeaseError(f"etcd: expected a key with its value, found {found!r:.200}")
    row = cast("Mapping[str, object]", found[0])
    revision = row.get("mod_revision")
    if not isinstance(revision, str) or not revision.isdecimal():
        raise LeaseError(f"etcd: expected digits in mod_revision, found {revision!r}")
    try:
        value = base64.b64decode(str(row.get("value", "")), validate=True)
    except binascii.Error:
        raise LeaseError(f"etcd: expected a value in base64, found {row!r:.200}") from None
    return Stored(LeaseRecord.decode(value), revision)


def _within(fields: Mapping[str, object], name: str) -> dict[str, object]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise LeaseError(f"etcd: expected {name}, found {fields!r:.200}")
    return cast("dict[str, object]", value)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
