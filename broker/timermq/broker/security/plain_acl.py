"""Access rules, as RocketMQ's ``plain_acl.yml`` has them: accounts, rights, white addresses.

The rights of a group stand under the name of its retry topic, as in RocketMQ. What a file says in a
way that RocketMQ would read as something else (an unknown word is DENY there, a second account of
the same key is passed over) is refused here: a rule that does not do what it says is worse than
none. Secrets are kept as signing keys, and stand in no error and no ``repr``.

Source: Java ``PlainPermissionManager``, ``PlainAccessConfig``, ``Permission``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import attrs
import yaml

from timermq.pipeline.records.system_topics import TRACE_TOPIC
from timermq.remoting.signature import SigningKey

from ..topic_validator import (
    RETRY_GROUP_TOPIC_PREFIX,
    is_not_allowed_send_topic,
    retry_topic,
)
from .white_address import WhiteAddress, WhiteAddressError

DENY, ANY, PUB, SUB = 1, 2, 4, 8
"""Bits of a right; ANY is asked for alone: PUB or SUB."""
SOME_TOPIC = "\0"
"""In place of a topic: any one will do. No topic has this name."""

KEY_LENGTH_MIN = 7
"""Characters of an access key and of a secret, as in RocketMQ."""
ACCOUNTS_MAX = 10_000
"""Accounts of all files."""
FILE_SIZE_MAX = 1 << 20
"""Bytes of one file."""

_RIGHTS = {"DENY": DENY, "PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB}
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_FILE_KEYS = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
_ACCOUNT_KEYS = frozenset(
    {
        "accessKey",
        "secretKey",
        "whiteRemoteAddress",
        "admin",
        "defaultTopicPerm",
        "defaultGroupPerm",
        "topicPerms",
        "groupPerms",
    }
)


class PlainAclError(ValueError):
    """A file holds no rules, or rules that cannot be meant; the operator corrects it."""


def is_own_topic(topic: str) -> bool:
    """Whether a topic is the broker's own: such a one is allowed only by its name."""
    return topic == TRACE_TOPIC or is_not_allowed_send_topic(topic)


@attrs.frozen(kw_only=True, eq=False)
class Account:
    """One access key and its rights."""

    access_key: str
    signing: SigningKey = attrs.field(repr=False)
    white: WhiteAddress
    """From here the key alone is enough, and everything is allowed, as in RocketMQ."""
    is_admin: bool
    default_topic_perm: int
    default_group_perm: int
    perms: Mapping[str, int]
    """Topic, or retry topic of a group, to its rights."""

    def allows(self, resource: str, right: int) -> bool:
        """Whether the account has a right to a topic, or to a group by its retry topic."""
        if resource == SOME_TOPIC:
            topics = (self.default_topic_perm, *self._topic_perms())
            return any(bool(owned & right) and not owned & DENY for owned in topics)
        owned = self.perms.get(resource)
        if owned is None:
            if resource.startswith(RETRY_GROUP_TOPIC_PREFIX):
                owned = self.default_group_perm
            else:
                owned = DENY if is_own_topic(resource) else self.default_topic_perm
        if owned & DENY:
            return False
        return bool(owned & (PUB | SUB if right & ANY else right))

    def _topic_perms(self) -> Iterator[int]:
        for name, owned in self.perms.items():
            if not name.startswith(RETRY_GROUP_TOPIC_PREFIX):
                yield owned

    def allows_all(self, needs: Iterable[tuple[str, int]]) -> bool:
        """Whether it has every one of some rights."""
        return all(self.allows(resource, right) for resource, right in needs)


@attrs.frozen(kw_only=True)
class PlainAcl:
    """The rules of all files together."""

    accounts: Mapping[str, Account]
    """By access key."""
    white: Sequence[WhiteAddress] = ()
    """Requests from this address need no account."""

    @classmethod
    def parse(cls, files: Mapping[str, bytes]) -> PlainAcl:
        """Read the rules.

        Args:
            files: Path to content of each file.

        Raises:
            PlainAclError: One of them does not say rules; nothing of the others counts then.
        """
        accounts: dict[str, Account] = {}
        where: dict[str, str] = {}
        white: list[WhiteAddress] = []
        for path, data in files.items():
            fields = _load(path, data)
            _check_keys(path, fields, _FILE_KEYS)
            white += [
                _white(f"{path}: globalWhiteRemoteAddresses", text)
                for text in _texts(path, fields, "globalWhiteRemoteAddresses")
            ]
            for place, item in enumerate(_list(path, fields, "accounts"), start=1):
                account = _account(f"{path}: account {place}", item)
                key = account.access_key
                if key in accounts:
                    raise PlainAclError(
                        f"{path}: account {place}: accessKey: expected each key once, found "
                        f"{_shown(key)} in {where[key]} too"
                    )
                accounts[key], where[key] = account, path
        if len(accounts) > ACCOUNTS_MAX:
            raise PlainAclError(
                f"accounts: expected at most {ACCOUNTS_MAX} in all files, found {len(accounts)}"
            )
        return cls(accounts=accounts, white=white)


class _TwiceError(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _TextLoader(yaml.BaseLoader):
    """Refuses a key that is there twice.

    YAML's readers take the last one: an account that lost its first line, ``- accessKey: …``, would
    hand its rights to the account before it.
    """

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        """A mapping; a key that is there twice is an error."""
        known: set[object] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else key
            if name in known:
                raise _TwiceError(key.start_mark.line + 1)
            known.add(name)
        return super().construct_mapping(node, deep)


def _load(path: str, data: bytes) -> Mapping[str, object]:
    if len(data) > FILE_SIZE_MAX:
        raise PlainAclError(f"{path}: expected at most {FILE_SIZE_MAX} bytes, found {len(data)}")
    try:
        # Every scalar stays the text that it is: a secret of digits is no number.
        value = cast("object", yaml.load(data, Loader=_TextLoader))  # noqa: S506 - texts alone
    except _TwiceError as error:
        raise PlainAclError(
            f"{path}: line {error.line}: expected each key once, found one twice"
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # ValueError: no UTF-8, and an escape of a character that there cannot be.
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" line {mark.line + 1}:"
        # Not the error's own text: it quotes the file, and may quote a secret.
        raise PlainAclError(f"{path}:{place} expected YAML, found something else") from None
    if value in ("", None):
        return {}
    return _fields(path, value)


def _account(where: str, value: object) -> Account:
    fields = _fields(where, value)
    _check_keys(where, fields, _ACCOUNT_KEYS)
    access_key, secret = _text(where, fields, "accessKey"), _text(where, fields, "secretKey")
    for name, text in (("accessKey", access_key), ("secretKey", secret)):
        if len(text) < KEY_LENGTH_MIN:
            raise PlainAclError(
                f"{where}: {name}: expected at least {KEY_LENGTH_MIN} characters, found {len(text)}"
            )
    perms = _perms(where, fields, "topicPerms")
    groups = _perms(where, fields, "groupPerms")
    admin = _text(where, fields, "admin").lower() or "false"
    if admin not in _TRUTHS:
        raise PlainAclError(f"{where}: admin: expected true or false, found {_shown(admin)}")
    return Account(
        access_key=access_key,
        signing=SigningKey(secret),
        white=_white(f"{where}: whiteRemoteAddress", _text(where, fields, "whiteRemoteAddress")),
        is_admin=_TRUTHS[admin],
        default_topic_perm=_right(
            where, "defaultTopicPerm", _text(where, fields, "defaultTopicPerm")
        ),
        default_group_perm=_right(
            where, "defaultGroupPerm", _text(where, fields, "defaultGroupPerm")
        ),
        perms=perms | {retry_topic(group): perm for group, perm in groups.items()},
    )


def _perms(where: str, fields: Mapping[str, object], name: str) -> dict[str, int]:
    """Rights by topic or group, from lines like ``TopicA=PUB|SUB``."""
    perms: dict[str, int] = {}
    for number, text in enumerate(_texts(where, fields, name), start=1):
        resource, equals, word = (part.strip() for part in text.partition("="))
        if not (resource and equals and word):
            raise PlainAclError(f"{where}: {name}: expected NAME=RIGHT, found {_shown(text)}")
        if resource in perms:
            raise PlainAclError(f"{where}: {name}: expected {_shown(resource)} once, found twice")
        perms[resource] = _right(where, f"{name} {number}", word)
    return perms


def _right(where: str, name: str, word: str) -> int:
    right = _RIGHTS.get(word.strip()) if word.strip() else DENY
    if right is None:
        raise PlainAclError(f"{where}: {name}: expected {', '.join(_RIGHTS)}, found {_shown(word)}")
    return right


def _white(where: str, text: str) -> WhiteAddress:
    try:
        return WhiteAddress.parse(text)
    except WhiteAddressError as error:
        raise PlainAclError(f"{where}: {error}") from None


def _check_keys(where: str, fields: Mapping[str, object], known: frozenset[str]) -> None:
    for key in fields:
        if key not in known:
            raise PlainAclError(
                f"{where}: expected {', '.join(sorted(known))}, found the key {_shown(key)}"
            )


def _fields(where: str, value: object) -> Mapping[str, object]:
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        if all(isinstance(key, str) for key in fields):
            return cast("dict[str, object]", fields)
    raise PlainAclError(f"{where}: expected a mapping of names to values, found something else")


def _text(where: str, fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise PlainAclError(f"{where}: {name}: expected a text, found something else")
    return value


def _list(where: str, fields: Mapping[str, object], name: str) -> list[object]:
    value = fields.get(name, "")
    if value == "":
        return []
    if not isinstance(value, list):
        raise PlainAclError(f"{where}: {name}: expected a list, found something else")
    return cast("list[object]", value)


def _texts(where: str, fields: Mapping[str, object], name: str) -> list[str]:
    items = _list(where, fields, name)
    if not all(isinstance(item, str) for item in items):
        raise PlainAclError(f"{where}: {name}: expected a list of texts, found something else")
    return cast("list[str]", items)


def _shown(text: str) -> str:
    """A text of the file for an error, unless it looks like a secret in a wrong place.

    One does when the blank behind ``secretKey:`` is missing, or the whole name.
    """
    is_plain = all(letter.isalpha() or letter in "|=" for letter in text)
    return ascii(text)[:100] if is_plain else "a text that is not shown, since it may be a secret"
