"""Files of access rules: accounts that may do what the text says, or an error without a secret."""

from __future__ import annotations

from timermq.broker.security.plain_acl import ANY, PUB, SUB, PlainAcl, PlainAclError

PATH = "plain_acl.yml"
SECRET = "12345678secret"


def seeds() -> list[bytes]:
    """RocketMQ's example, one account alone, and what YAML can do to it."""
    example = f"""
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.1-9
accounts:
- accessKey: RocketMQ
  secretKey: {SECRET}
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  groupPerms:
  - groupA=DENY
- accessKey: rocketmq2
  secretKey: {SECRET}
  admin: true
"""
    one = f"accounts: [{{accessKey: abcdefg, secretKey: {SECRET}, topicPerms: [A=PUB]}}]"
    twice = f"accounts:\n- &a {{accessKey: abcdefg, secretKey: {SECRET}}}\n- *a\n"
    return [one.encode() for one in (example, one, twice, "", "accounts: {}")]


def fuzz_one(data: bytes) -> None:
    """Rules are read twice as the same; no account is allowed more than an administrator."""
    try:
        found = PlainAcl.parse({PATH: data})
    except PlainAclError as error:
        assert str(error).startswith(f"{PATH}:")
        assert SECRET not in str(error)
        return
    assert SECRET not in repr(found)
    again = PlainAcl.parse({PATH: data})
    assert list(again.accounts) == list(found.accounts)
    for key, account in found.accounts.items():
        assert account.access_key == key
        assert account.perms == again.accounts[key].perms
        for resource in account.perms:
            both = account.allows(resource, PUB) or account.allows(resource, SUB)
            assert account.allows(resource, ANY) == both
    for white in found.white:
        white.matches("10.10.103.7")
