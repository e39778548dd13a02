"""An object store that speaks S3, in a process of its own, for tests."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from interop.serving import free_port
from waiting import wait_until

BUCKET = "backups"


def asked(port: int, method: str, path: str) -> int:
    """The status of an answer of the object store; 0 while it does not listen."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        link.request(method, path)
        return link.getresponse().status
    except OSError:
        return 0
    finally:
        link.close()


@contextmanager
def object_store(log: Path) -> Generator[int]:
    """The port of an object store with one bucket, for the length of a block.

    Args:
        log: The file for what it says.
    """
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=dict(os.environ))
    try:
        wait_until(
            lambda: asked(port, "PUT", f"/{BUCKET}") == 200,
            120,
            told=log.read_text,
            is_over=lambda: process.poll() is not None,
            pause=0.2,
        )
        yield port
    finally:
        process.kill()
        process.wait()


def access(port: int) -> Mapping[str, str]:
    """The settings of the environment that lead to it."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
