"""The configuration: TOML file < environment ``TIMERMQ_…`` < flags.

A TOML file has a table a section; a key is unique among all sections, so the environment names it
alone (``TIMERMQ_TIMER_PRECISION_MS``) and so does the flag ``--set timer_precision_ms=100``. A file
that does not end in ``.toml`` is a RocketMQ ``broker.conf``. Unknown keys are errors, except there.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs
import platformdirs

from timermq.broker.options import JAVA_NAMES, STOP_TIMEOUT_MS, BrokerOptions
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.store_options import StoreOptions

from .broker_conf import BrokerConf, parse_broker_conf
from .client_access import VARIABLES as CLIENT_VARIABLES
from .log_output import LogFormat
from .settings import (
    ConfigurationError,
    Layer,
    Raw,
    Sections,
    Setting,
    Source,
    assemble,
    keys_of,
    list_settings,
    shown,
    unknown,
)

ENVIRONMENT_PREFIX = "TIMERMQ_"

FILE_SIZE_MAX = 1 << 20
"""Bytes of a configuration file; a larger one is another kind of file."""


def default_store_directory() -> str:
    """``store`` in the platform's data directory of this user."""
    return str(Path(platformdirs.user_data_dir("timermq", appauthor=False)) / "store")


@attrs.frozen(kw_only=True)
class ServeOptions:
    """The settings of the process that serves."""

    store_path_root_dir: str = attrs.field(factory=default_store_directory)
    """The store's directory."""
    store_path_commit_log: str | None = None
    """RocketMQ's. The commit log stands in ``commitlog`` of the store's directory: a file that says
    so is right, one that names another place would have an empty store served."""
    log_format: LogFormat = LogFormat.AUTO
    stop_timeout_ms: int = attrs.field(default=STOP_TIMEOUT_MS, validator=attrs.validators.ge(1))
    """How long a graceful stop may take before what is left is cut off."""

    def __attrs_post_init__(self) -> None:
        """Refuse a commit log elsewhere; a link in its place may lead there."""
        named, place = self.store_path_commit_log, f"{self.store_path_root_dir}/commitlog"
        if named is not None and os.path.realpath(named) != os.path.realpath(place):
            raise ValueError(
                f"store_path_commit_log: expected {place}, found {shown(named)}: the commit log is "
                "part of the store; move it there, or put a link to it there"
            )


SECTIONS: Sections = {
    "serve": ServeOptions,
    "broker": BrokerOptions,
    "store": StoreOptions,
    "timer": TimerOptions,
}

ROCKETMQ_NAMES = {
    "authenticationEnabled": "acl_enable",
    **{name: key for key, name in JAVA_NAMES.items()},
}
"""Keys of ``broker.conf`` whose names do not translate by rule.

The accounts of RocketMQ 5.3 are not read, but a broker that asked who its clients are does not stop
asking here: it needs accounts of our kind.
"""


@attrs.frozen(kw_only=True)
class Configuration:
    """All options, and where each value comes from."""

    serve: ServeOptions
    broker: BrokerOptions
    store: StoreOptions
    timer: TimerOptions
    settings: tuple[Setting, ...]
    ignored: tuple[str, ...]
    """Keys of a ``broker.conf`` that have no meaning here."""

    def configured(self) -> list[str]:
        """The keys that somebody has named."""
        return [one.key for one in self.settings if one.source is not Source.DEFAULT]


def directory_flag(directory: str) -> Mapping[str, tuple[str, str | None]]:
    """The store's directory, as the argument of a verb that names it."""
    return {"store_path_root_dir": ("DIR", directory)}


def load_configuration(
    args: argparse.Namespace, flags: Mapping[str, tuple[str, str | None]]
) -> Configuration:
    """The configuration of a verb.

    Args:
        args: Of a parser with ``add_configuration_flags``.
        flags: Key to the verb's own flag and the text given there, None if it was not given.

    Raises:
        ConfigurationError: A key is unknown or a value is refused.
        OSError: The file cannot be read.
    """
    layers: list[Layer] = []
    ignored: tuple[str, ...] = ()
    if args.config is not None:
        layer, ignored = read_file(args.config)
        layers.append(layer)
    layers.append(environment_layer(os.environ))
    layers.append(flag_layer(flags, args.set))
    return configure(layers, ignored)


def configure(layers: Sequence[Layer], ignored: tuple[str, ...] = ()) -> Configuration:
    """The configuration of some layers.

    Raises:
        ConfigurationError: A value is refused.
    """
    options = assemble(SECTIONS, layers)
    return Configuration(
        serve=cast("ServeOptions", options["serve"]),
        broker=cast("BrokerOptions", options["broker"]),
        store=cast("StoreOptions", options["store"]),
        timer=cast("TimerOptions", options["timer"]),
        settings=tuple(list_settings(SECTIONS, layers, options)),
        ignored=ignored,
    )


def read_file(path: str) -> tuple[Layer, tuple[str, ...]]:
    """The layer of a file, and the keys of a ``broker.conf`` that are unknown here.

    Raises:
        ConfigurationError: It is not such a file, or names an unknown key.
        OSError: It cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(FILE_SIZE_MAX + 1)
    return file_layer(path, data)


def file_layer(path: str, data: bytes) -> tuple[Layer, tuple[str, ...]]:
    """``read_file`` of a file that holds ``data``.

    Raises:
        ConfigurationError: As ``read_file``.
    """
    if len(data) > FILE_SIZE_MAX:
        raise ConfigurationError(f"{path}: expected at most {FILE_SIZE_MAX} bytes, found more")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path}: expected UTF-8, found a bad byte at {error.start}"
        ) from None
    if path.endswith(".toml"):
        return Layer(source=Source.FILE, values=_toml_values(path, text)), ()
    return _broker_conf_layer(path, text)


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The layer of the variables that begin with ``TIMERMQ_``.

    Raises:
        ConfigurationError: Such a variable names no setting.
    """
    known = {f"{ENVIRONMENT_PREFIX}{key.upper()}": key for key in keys_of(SECTIONS)}
    values: dict[str, Raw] = {}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in CLIENT_VARIABLES:
            continue
        if variable not in known:
            raise unknown(f"environment: {variable}", variable, list(known))
        values[known[variable]] = Raw(value=environ[variable], where=variable, is_text=True)
    return Layer(source=Source.ENVIRONMENT, values=values)


def flag_layer(
    flags: Mapping[str, tuple[str, str | None]], assignments: Sequence[str] = ()
) -> Layer:
    """The layer of the flags; ``--set`` counts before a verb's own flag.

    Raises:
        ConfigurationError: ``--set`` has no ``=`` or names no setting.
    """
    known = keys_of(SECTIONS)
    values: dict[str, Raw] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigurationError(f"--set: expected KEY=VALUE, found {assignment!r}")
        if key not in known:
            raise unknown(f"--set: {key}", key, list(known))
        values[key] = Raw(value=text, where=f"--set {key}", is_text=True)
    for key, (flag, given) in flags.items():
        if given is not None:
            values[key] = Raw(value=given, where=flag, is_text=True)
    return Layer(source=Source.FLAG, values=values)


def _toml_values(path: str, text: str) -> dict[str, Raw]:
    try:
        tables = tomllib.loads(text)
    except ValueError as error:  # also a number of more digits than Python reads
        raise ConfigurationError(f"{path}: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: nested too deeply") from None
    known = keys_of(SECTIONS)
    values: dict[str, Raw] = {}
    for section, table in tables.items():
        if section in known:
            places = " or ".join(f"[{one}]" for one in known[section])
            raise ConfigurationError(
                f"{path}: {section}: expected in {places}, found in no section"
            )
        if section not in SECTIONS:
            what, names = (
                (f"[{section}]", SECTIONS) if isinstance(table, dict) else (section, known)
            )
            raise unknown(f"{path}: {what}", section, list(names))
        if not isinstance(table, dict):
            raise ConfigurationError(f"{path}: {section}: expected a table, found {shown(table)}")
        for key, value in cast("dict[str, object]", table).items():
            where = f"{path}: [{section}] {key}"
            if section not in known.get(key, ()):
                raise unknown(where, key, [one for one in known if section in known[one]])
            values[key] = Raw(value=value, where=where)
    return values


def _broker_conf_layer(path: str, text: str) -> tuple[Layer, tuple[str, ...]]:
    try:
        conf = parse_broker_conf(text, keys_of(SECTIONS), ROCKETMQ_NAMES)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    values = {
        key: Raw(value=value, where=f"{path}: {conf.names[key]}", is_text=True)
        for key, value in conf.values.items()
        if key != "store_path_commit_log" or not _is_in_its_place(conf)
    }
    return Layer(source=Source.FILE, values=values), conf.unknown


def _is_in_its_place(conf: BrokerConf) -> bool:
    """Whether the commit log is part of the store as the file itself says: of a copy it is then."""
    root, named = conf.values.get("store_path_root_dir"), conf.values["store_path_commit_log"]
    return root is not None and os.path.normpath(f"{root}/commitlog") == os.path.normpath(named)
