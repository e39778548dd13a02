"""Types of arguments: what they read, and what they say about the rest."""

from __future__ import annotations

import argparse

import pytest

from timermq.cli.arguments import (
    OneLineParser,
    UsageError,
    address,
    count,
    duration,
    first_sentence,
    moment,
    name_servers,
    positive,
)


def test_values() -> None:
    """Texts become numbers and addresses."""
    assert 7 == count("7")
    assert 0.5 == positive("0.5")
    assert 1500 == duration("1s500ms")
    assert 1_700_000_000_000 == moment("1700000000000")
    assert ("127.0.0.1", "10911") == address("127.0.0.1:10911")
    assert ("::1", "1") == address("[::1]:1")
    assert "a:1; b:2" == name_servers("a:1; b:2")


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "9" * 19])
def test_counts_that_are_refused(text: str) -> None:
    """A count is a whole number from 1 on, and no huge one."""
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        count(text)

    assert f"expected a whole number from 1 on, found {text!r}" == str(refused.value)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "nan", "inf"])
def test_numbers_that_are_refused(text: str) -> None:
    """A bench of no messages would wait for them for ever."""
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        positive(text)

    assert f"expected a number above 0, found {text!r}" == str(refused.value)


@pytest.mark.parametrize("text", ["", ";", "a:1;", "a:1;b"])
def test_name_servers_that_are_refused(text: str) -> None:
    """Each of them is an address."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^expected HOST:PORT, found '"):
        name_servers(text)


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        ":1",
        "localhost:",
        "localhost:http",
        "a:65536",
        "a:²",
        "a:00000099999",
        "[:3",
        "[]:3",
    ],
)
def test_addresses_that_are_refused(text: str) -> None:
    """An address has a host and a port."""
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        address(text)

    assert f"expected HOST:PORT, found {text!r}" == str(refused.value)


def test_parser_does_not_leave_the_program() -> None:
    """An error is an exception of ours, with the verb in front."""
    parser = OneLineParser(prog="timermq send")
    with pytest.raises(UsageError) as refused:
        parser.parse_args(["--what"])

    assert "send: unrecognized arguments: --what" == str(refused.value)


def test_flags_are_not_cut_short() -> None:
    """A beginning of a flag is no flag: `--namesrv` must not open a name server of its own."""
    parser = OneLineParser(prog="timermq serve")
    parser.add_argument("--namesrv-listen")
    with pytest.raises(UsageError, match=r"^serve: unrecognized arguments: --namesrv a:1$"):
        parser.parse_args(["--namesrv", "a:1"])


def test_first_sentence() -> None:
    """A list of verbs shows the first sentence of each, on one line."""
    assert "Say it in two lines" == first_sentence("Say it in\ntwo lines. And more.\n\nMore.")
