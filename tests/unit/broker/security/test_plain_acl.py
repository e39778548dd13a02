"""Tests of reading plain_acl.yml: accounts, their rights, and what is refused."""

from collections.abc import Iterator

import pytest

from timermq.broker.security.plain_acl import ANY, DENY, PUB, SUB, Account, PlainAcl, PlainAclError
from timermq.remoting.signature import SigningKey
from timermq.timerstore.flipped_bit import repaired

ACCOUNT = "accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n"

SHIPPED = b"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""As RocketMQ ships it."""


def parse(text: str) -> PlainAcl:
    """The rules of one file."""
    return PlainAcl.parse({"plain_acl.yml": text.encode()})


def account(**more: str) -> Account:
    """The one account of a file with more lines."""
    lines = "".join(f"  {name}: {value}\n" for name, value in more.items())
    return parse(ACCOUNT + lines).accounts["RocketMQ"]


def test_the_file_that_rocketmq_ships() -> None:
    """A secret of digits is a text; every right is what the file says."""
    acl = PlainAcl.parse({"plain_acl.yml": SHIPPED})
    one, two = acl.accounts["RocketMQ"], acl.accounts["rocketmq2"]

    assert one.signing.sign(b"x") == SigningKey("12345678").sign(b"x")
    assert [one.is_admin, two.is_admin] == [False, True]
    assert [one.white.matches("192.168.1.7"), two.white.matches("192.168.1.7")] == [False, True]
    assert [white.matches("10.10.103.9") for white in acl.white] == [True, False]
    rights = {
        name: [one.allows(name, right) for right in (PUB, SUB, ANY)]
        for name in ("topicA", "topicB", "topicC", "other")
    }
    assert rights == {
        "topicA": [False, False, False],
        "topicB": [True, True, True],
        "topicC": [False, True, True],
        "other": [False, False, False],
    }
    groups = {
        name: one.allows(f"%RETRY%{name}", SUB) for name in ("groupA", "groupB", "groupC", "other")
    }
    assert groups == {"groupA": False, "groupB": True, "groupC": True, "other": True}


@pytest.mark.parametrize("text", ["", "accounts:\n", "# nothing\n", "dataVersion:\n- counter: 1\n"])
def test_files_without_accounts(text: str) -> None:
    """No account may do anything then."""
    assert parse(text) == PlainAcl(accounts={}, white=[])


def test_secrets_are_texts_as_they_stand() -> None:
    """No number, date or truth is made of them, and blanks in quotes count."""
    for written, secret in (
        ("0123456", "0123456"),
        ("2026-01-01", "2026-01-01"),
        ("1234567e5", "1234567e5"),
        ("' blanks '", " blanks "),
    ):
        text = f"accounts:\n- accessKey: RocketMQ\n  secretKey: {written}\n"
        signing = parse(text).accounts["RocketMQ"].signing

        assert signing.sign(b"x") == SigningKey(secret).sign(b"x")


def test_the_brokers_own_topics_need_their_name() -> None:
    """A right to topics in general is none to what the broker keeps for itself."""
    one = account(defaultTopicPerm="PUB|SUB", topicPerms="[rmq_sys_wheel_timer=SUB]")

    assert one.allows("T", SUB)
    assert not one.allows("SCHEDULE_TOPIC_XXXX", SUB)
    assert not one.allows("RMQ_SYS_TRACE_TOPIC", SUB)
    assert one.allows("rmq_sys_wheel_timer", SUB)


def test_missing_defaults_deny() -> None:
    """As in RocketMQ, an account without defaults is denied by default."""
    one = account()

    assert (one.default_topic_perm, one.default_group_perm) == (DENY, DENY)
    assert (one.is_admin, one.white.ranges) == (False, ())


@pytest.mark.parametrize("word", ["true", "True", "yes", "on"])
def test_truths_of_yaml(word: str) -> None:
    """An administrator by any of YAML's words."""
    assert account(admin=word).is_admin


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("accounts: 7", "accounts: expected a list, found something else"),
        ("- a", "expected a mapping of names to values, found something else"),
        ("account: []", "found the key 'account'"),
        ("accounts: [7]", "account 1: expected a mapping"),
        ("accounts: [{accessKey: RocketMQ}]", "secretKey: expected at least 7 characters, found 0"),
        (
            "accounts: [{accessKey: sixsix, secretKey: 12345678}]",
            "accessKey: expected at least 7 characters, found 6",
        ),
        (
            "accounts: [{accessKey: RocketMQ, secretKey: sixsix}]",
            "secretKey: expected at least 7 characters, found 6",
        ),
        ("accounts: [{accessKey: [a], secretKey: 12345678}]", "accessKey: expected a text"),
        (ACCOUNT + "  topicPerm: []", "found the key 'topicPerm'"),
        (ACCOUNT + "  admin: perhaps", "admin: expected true or false, found 'perhaps'"),
        (ACCOUNT + "  defaultTopicPerm: ANY", "defaultTopicPerm: expected DENY, PUB, SUB"),
        (ACCOUNT + "  defaultGroupPerm: sub", "expected DENY, PUB, SUB, PUB|SUB, SUB|PUB, found"),
        (ACCOUNT + "  topicPerms: [T]", "topicPerms: expected NAME=RIGHT, found 'T'"),
        (ACCOUNT + "  topicPerms: [T=]", "topicPerms: expected NAME=RIGHT, found 'T='"),
        (ACCOUNT + "  topicPerms: [T=READ]", "topicPerms 1: expected DENY"),
        (ACCOUNT + "  groupPerms: [G=SUB, G=DENY]", "expected 'G' once, found twice"),
        (ACCOUNT + "  groupPerms: [[G]]", "groupPerms: expected a list of texts"),
        (ACCOUNT + "  whiteRemoteAddress: name", "whiteRemoteAddress: expected an address"),
        ("globalWhiteRemoteAddresses: [name]", "globalWhiteRemoteAddresses: expected an address"),
        (
            'accounts: [{accessKey: RocketMQ, secretKey: "\\U00110000abcdefgh"}]',
            "expected YAML, found something else",
        ),
        ("a: [", "line 1: expected YAML, found something else"),
        ("a: !!python/object:os.system {}", "found the key 'a'"),
        (ACCOUNT + "- accessKey: RocketMQ\n  secretKey: 87654321", "expected each key once"),
        (" " * (1 << 20) + " ", "expected at most 1048576 bytes, found 1048577"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    """The file, the place, what was expected and found."""
    with pytest.raises(PlainAclError) as caught:
        parse(text)

    assert str(caught.value).startswith("plain_acl.yml:")
    assert reason in str(caught.value)


def test_a_file_that_is_no_utf8() -> None:
    """It is refused like other files that are no YAML."""
    with pytest.raises(PlainAclError, match="expected YAML"):
        PlainAcl.parse({"a.yml": b"a: \xff\xfe"})


def test_errors_do_not_show_secrets() -> None:
    """Neither in what is refused nor in what does not parse; nor does ``repr``."""
    for text in (
        "accounts:\n- accessKey: RocketMQ\n  secretKey: hidden-secret\n  admin: perhaps\n",
        "accounts:\n- accessKey: RocketMQ\n  secretKey: 'hidden-secret\n",
        "accounts: [{accessKey: RocketMQ, hidden-secret}]",
        "accounts: [{accessKey: RocketMQ, secretKey: 12345678, topicPerms: [A=hidden-secret]}]",
        "accounts: [{accessKey: RocketMQ, secretKey: 12345678, topicPerms: [hidden-secret]}]",
        "accounts: [{accessKey: RocketMQ, secretKey:hidden-secret}]",
        "accounts:\n- accessKey: RocketMQ\n  secretKey: {hidden-secret: 1}\n",
    ):
        with pytest.raises(PlainAclError) as caught:
            parse(text)
        assert "hidden" not in str(caught.value)
        assert caught.value.__cause__ is None
    acl = parse("accounts:\n- accessKey: RocketMQ\n  secretKey: hidden-secret\n")
    assert "hidden" not in repr(acl)


def test_accounts_of_several_files_count_together() -> None:
    """A key that stands in two of them is refused: one of its secrets would be passed over."""
    other = ACCOUNT.replace("RocketMQ", "RocketMQ2")
    both = PlainAcl.parse({"a.yml": ACCOUNT.encode(), "b.yml": other.encode()})

    assert list(both.accounts) == ["RocketMQ", "RocketMQ2"]
    with pytest.raises(
        PlainAclError, match=r"b\.yml: account 1: .* found 'RocketMQ' in a\.yml too"
    ):
        PlainAcl.parse({"a.yml": ACCOUNT.encode(), "b.yml": ACCOUNT.encode()})


@pytest.mark.parametrize(
    "text",
    [
        ACCOUNT + "  admin: false\n  # another one- accessKey: Other12\n  secretKey: 87654321\n",
        ACCOUNT + "  admin: false\n  admin: true\n",
        ACCOUNT + "accounts: []\n",
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    """Else the rights of an account whose first line is gone are those of the one before it."""
    with pytest.raises(
        PlainAclError, match=r"^f: line [0-9]+: expected each key once, found one tw"
    ):
        PlainAcl.parse({"f": text.encode()})


@pytest.mark.slow
def test_no_flipped_bit_and_no_cut_opens_an_account() -> None:
    """A damaged file is refused, or the first account has no more rights than before."""
    for damaged in (*_flips(SHIPPED), *(SHIPPED[:size] for size in range(0, len(SHIPPED), 7))):
        try:
            acl = PlainAcl.parse({"f": damaged})
        except PlainAclError:
            continue
        first = acl.accounts.get("RocketMQ")
        assert first is None or not first.is_admin
        assert first is None or first.default_topic_perm == DENY
        assert first is None or first.perms.get("topicA", DENY) == DENY


def _flips(data: bytes) -> Iterator[bytes]:
    for at in range(0, 8 * len(data), 7):
        yield repaired(data, at // 8, at % 8)
