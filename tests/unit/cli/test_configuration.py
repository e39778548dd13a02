"""The configuration: its three layers, and what is said about unknown keys."""

from __future__ import annotations

from pathlib import Path

import attrs
import platformdirs
import pytest

from timermq.broker.options import TlsMode
from timermq.cli.configuration import (
    FILE_SIZE_MAX,
    SECTIONS,
    configure,
    default_store_directory,
    environment_layer,
    file_layer,
    flag_layer,
    read_file,
)
from timermq.cli.settings import ConfigurationError, Layer, Raw, Source, keys_of
from timermq.timerstore.store_options import FlushDiskType


def test_defaults() -> None:
    """Without layers nothing but loopback is bound, and the store is in the user's directory."""
    configuration = configure([])

    assert "127.0.0.1" == configuration.broker.listen_host
    assert "127.0.0.1" == configuration.broker.namesrv_listen_host
    assert default_store_directory() == configuration.serve.store_path_root_dir
    assert {Source.DEFAULT} == {one.source for one in configuration.settings}


def test_default_store_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform says where data belongs."""

    def user_data_dir(name: str, *, appauthor: bool) -> str:
        return f"/data/{name}" if not appauthor else ""

    monkeypatch.setattr(platformdirs, "user_data_dir", user_data_dir)

    assert "/data/timermq/store" == default_store_directory()


@pytest.mark.parametrize(
    ("key", "sections"), [item for item in keys_of(SECTIONS).items() if len(item[1]) > 1]
)
def test_a_key_in_two_sections_is_one_setting(key: str, sections: tuple[str, ...]) -> None:
    """Type and default are the same, for it has one value."""
    fields = [attrs.fields_dict(SECTIONS[section])[key] for section in sections]

    assert 1 == len({(str(field.type), field.default) for field in fields})


def test_layers() -> None:
    """Environment over file, flags over both; a key in two sections reaches both."""
    configuration = configure(
        [
            environment_layer(
                {"TIMERMQ_FLUSH_DISK_TYPE": "SYNC_FLUSH", "TIMERMQ_LISTEN_PORT": "1", "HOME": "/"}
            ),
            flag_layer({"listen_port": ("--listen", "2")}, ["message_delay_level=1s 2s"]),
        ]
    )

    assert FlushDiskType.SYNC_FLUSH is configuration.store.flush_disk_type
    assert 2 == configuration.broker.listen_port
    assert "1s 2s" == configuration.store.message_delay_level
    assert "1s 2s" == configuration.timer.message_delay_level


def test_own_flags_win_over_set() -> None:
    """`--listen` is the nearer word for it than `--set listen_port`."""
    layer = flag_layer({"listen_port": ("--listen", "2")}, ["listen_port=3"])

    assert ("2", "--listen") == (
        layer.values["listen_port"].value,
        layer.values["listen_port"].where,
    )


def test_flags_that_are_not_given() -> None:
    """A flag without a value leaves the setting alone."""
    assert {} == flag_layer({"listen_port": ("--listen", None)}).values


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("listen_port", "--set: expected KEY=VALUE, found 'listen_port'"),
        ("lisen_port=1", "--set: lisen_port is not a known setting; the nearest is listen_port"),
    ],
)
def test_assignments_that_are_refused(assignment: str, message: str) -> None:
    """`--set` needs a known key and a value."""
    with pytest.raises(ConfigurationError) as refused:
        flag_layer({}, [assignment])

    assert message == str(refused.value)


def test_unknown_variable() -> None:
    """A variable with our prefix that names nothing is an error, not a silent default."""
    with pytest.raises(ConfigurationError) as refused:
        environment_layer({"TIMERMQ_LISTEN_PROT": "1"})

    assert str(refused.value) == (
        "environment: TIMERMQ_LISTEN_PROT is not a known setting; "
        "the nearest is TIMERMQ_LISTEN_PORT"
    )


def test_toml(tmp_path: Path) -> None:
    """A table a section, values with their own types."""
    file = tmp_path / "timermq.toml"
    file.write_text('[broker]\nbroker_name = "b"\n[timer]\ntimer_wheel_enable = false\n')
    layer, ignored = read_file(str(file))
    configuration = configure([layer])

    assert () == ignored
    assert ("b", False) == (
        configuration.broker.broker_name,
        configuration.timer.timer_wheel_enable,
    )
    assert ["broker_name", "timer_wheel_enable"] == configuration.configured()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[brokr]\n", "[brokr] is not a known setting; the nearest is broker"),
        (
            "[timer]\nlisten_port = 1\n",
            "[timer] listen_port is not a known setting",
        ),
        ("broker = 1\n", "broker: expected a table, found 1"),
        ("listen_port = 1\n", "listen_port: expected in [broker], found in no section"),
        ("lisen_port = 1\n", "lisen_port is not a known setting; the nearest is listen_port"),
        (
            "[timer]\ntimer_max_delay_sec = 0\n",
            "[timer] timer_max_delay_sec: expected at least 1, found 0",
        ),
        ("[timer]\ntimer_precision_ms = '100'\n", None),
        ("[timer\n", None),
    ],
)
def test_toml_that_is_refused(tmp_path: Path, text: str, message: str | None) -> None:
    """Each message begins with the file."""
    file = tmp_path / "t.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        configure([read_file(str(file))[0]])

    assert str(refused.value).startswith(f"{file}: ")
    if message is not None:
        assert f"{file}: {message}" == str(refused.value)


def test_files_of_another_kind(tmp_path: Path) -> None:
    """What is no text, or far too long, is no configuration."""
    binary, long = tmp_path / "binary.conf", tmp_path / "long.conf"
    binary.write_bytes(b"a=\xff\n")
    long.write_bytes(b"#" * (FILE_SIZE_MAX + 1))
    with pytest.raises(ConfigurationError, match=r"expected UTF-8, found a bad byte at 2$"):
        read_file(str(binary))
    with pytest.raises(ConfigurationError, match=r"expected at most 1048576 bytes, found more$"):
        read_file(str(long))


def test_broker_conf_that_is_refused(tmp_path: Path) -> None:
    """A known key with a bad value is named as RocketMQ names it."""
    file = tmp_path / "broker.conf"
    file.write_text("timerPrecisionMs=7\n")
    with pytest.raises(ConfigurationError) as refused:
        configure([read_file(str(file))[0]])

    assert str(refused.value) == (
        f"{file}: timerPrecisionMs: expected 100, 200, 500 or 1000, found 7"
    )


def test_a_broker_that_asked_who_its_clients_are_goes_on_asking(tmp_path: Path) -> None:
    """The accounts of RocketMQ 5.3 are not read: without a file of accounts nothing is served."""
    file = tmp_path / "broker.conf"
    file.write_text("authenticationEnabled=true\nbrokerName=b\n")
    layer, ignored = read_file(str(file))
    with pytest.raises(ConfigurationError, match=r"acl_file: expected the path of plain_acl\.yml"):
        configure([layer])
    accounts = flag_layer({}, ["acl_file=/etc/timermq/plain_acl.yml"])

    assert configure([layer, accounts]).broker.acl_enable
    assert () == ignored


def commit_log_of(file: Path, conf: str, store: str | None = None) -> str | None:
    """What a broker.conf says of the commit log when it is given with a store."""
    file.write_text(conf)
    layers = [read_file(str(file))[0], flag_layer({"store_path_root_dir": ("--store", store)})]
    return configure(layers).serve.store_path_commit_log


def test_a_commit_log_in_its_place(tmp_path: Path) -> None:
    """The store's own, also of a copy of the store, and one that a link leads to."""
    file, elsewhere = tmp_path / "broker.conf", tmp_path / "fast"
    (tmp_path / "linked").mkdir()
    elsewhere.mkdir()
    (tmp_path / "linked" / "commitlog").symlink_to(elsewhere)
    own = f"storePathRootDir={tmp_path}\nstorePathCommitLog={tmp_path}/commitlog/\n"

    assert commit_log_of(file, own) is None
    assert commit_log_of(file, own, "/copy") is None
    assert commit_log_of(file, "storePathCommitLog=/copy/commitlog", "/copy") == "/copy/commitlog"
    assert commit_log_of(file, f"storePathCommitLog={elsewhere}", f"{tmp_path}/linked") == str(
        elsewhere
    )


@pytest.mark.parametrize(
    "place", ["/fast/commitlog", "/data/commitlog,/fast/commitlog", "commitlog"]
)
def test_a_commit_log_elsewhere_is_refused(tmp_path: Path, place: str) -> None:
    """The store would be served as an empty one."""
    conf = f"storePathRootDir=/data\nstorePathCommitLog={place}\n"
    expected = f"store_path_commit_log: expected /data/commitlog, found '{place}': .* a link to it"
    with pytest.raises(ConfigurationError, match=expected):
        commit_log_of(tmp_path / "broker.conf", conf)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "Exceeds the limit"),
        (b"timer = '" + b"x" * 100_000 + b"'", "timer: expected a table, found 'xxx"),
        (b"x" * 100_000 + b" = 1", "xxx"),
    ],
)
def test_toml_that_is_beyond_reading(text: bytes, reason: str) -> None:
    """Depth, digits and long names end in a refusal of one short line."""
    with pytest.raises(ConfigurationError) as refused:
        file_layer("timermq.toml", text)

    assert str(refused.value).startswith(f"timermq.toml: {reason}")
    assert len(str(refused.value)) < 1000


def test_words_of_a_choice_may_be_written_small() -> None:
    """RocketMQ writes the modes of TLS so; another word is told the words there are."""
    layer = Layer(
        source=Source.FILE,
        values={"tls_server_mode": Raw(value="disabled", where="x", is_text=True)},
    )

    assert configure([layer]).broker.tls_server_mode is TlsMode.DISABLED
    wrong = Layer(source=Source.FILE, values={"tls_server_mode": Raw(value="strict", where="x")})
    with pytest.raises(ConfigurationError) as caught:
        configure([wrong])
    assert str(caught.value) == ("x: expected DISABLED or PERMISSIVE or ENFORCING, found 'strict'")
