"""Signed requests and files of rules, for tests of access control."""

from __future__ import annotations

from pathlib import Path

import attrs

from timermq.remoting import Command
from timermq.remoting.signature import ACCESS_KEY, SIGNATURE, SigningKey, signed_content

SECRET = "hidden-secret"
RULES = """\
accounts:
- {accessKey: the-admin, secretKey: hidden-secret, admin: true}
- accessKey: producer
  secretKey: hidden-secret
  topicPerms: [T=PUB]
- accessKey: consumer
  secretKey: hidden-secret
  topicPerms: [T=SUB]
  groupPerms: [G=SUB]
- accessKey: from-home
  secretKey: hidden-secret
  whiteRemoteAddress: 10.0.0.7
- {accessKey: powerless, secretKey: hidden-secret}
"""


def write_rules(directory: Path, text: str = RULES) -> str:
    """The path of a new ``plain_acl.yml``."""
    path = directory / "plain_acl.yml"
    path.write_text(text)
    return str(path)


def sign(command: Command, access_key: str, secret: str = SECRET) -> Command:
    """The request as the client of an account sends it."""
    ext = command.ext | {ACCESS_KEY: access_key}
    content = signed_content(ext, command.body, command.version)
    return attrs.evolve(command, ext=ext | {SIGNATURE: SigningKey(secret).sign(content)})
