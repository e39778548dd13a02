"""Headers of requests as classes: a parameter's name, type and default are declared once.

    @request_header
    class QueueHeader(RequestHeader):
        topic: str = text("topic")
        queue_id: int = integer("queueId")

``QueueHeader.of(command)`` reads each parameter once, ``QueueHeader(topic=…, queue_id=…).to_ext()``
writes them. A parameter that is missing or malformed is refused where the processor takes it from
the header, not before: so it has its place among the processor's other checks, and one that is
not taken is no fault.

Source: Java ``CommandCustomHeader``, ``RemotingCommand.decodeCommandCustomHeader``, which refuses
before all other checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, dataclass_transform, overload

import attrs

from . import field
from .command import Command

_Header = TypeVar("_Header", bound="RequestHeader")
_Read = Callable[[Command, str], object]
_KEY = "timermq.parameter"
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


@attrs.frozen
class Parameter:
    """How one parameter is named, read and written."""

    name: str
    """The name of the parameter on the wire."""
    read: _Read
    """Takes the request and the name; raises ``FieldError``."""
    write: Callable[[Any], str]
    default: object
    """``attrs.NOTHING``: it must be there."""
    words: Mapping[str, object] | None
    """The most frequent value, as text and as value; None: the text is the value."""

    def field(self) -> object:
        """The field of a header that holds it."""
        return attrs.field(default=self.default, metadata={_KEY: self})


@overload
def text(name: str) -> str: ...
@overload
def text(name: str, *, default: str) -> str: ...
@overload
def text(name: str, *, default: None) -> str | None: ...
def text(name: str, *, default: str | attrs.NothingType | None = attrs.NOTHING) -> Any:
    """A parameter that is a text, which may be empty; without a default it must be there."""
    return Parameter(name, field.text, str, default, None).field()


@overload
def integer(name: str) -> int: ...
@overload
def integer(name: str, *, default: int) -> int: ...
@overload
def integer(name: str, *, default: None) -> int | None: ...
def integer(name: str, *, default: int | attrs.NothingType | None = attrs.NOTHING) -> Any:
    """A parameter that is a 64-bit number; empty counts as missing."""
    return Parameter(name, field.integer, str, default, field.SMALL).field()


@overload
def boolean(name: str, *, default: bool) -> bool: ...
@overload
def boolean(name: str, *, default: None) -> bool | None: ...
def boolean(name: str, *, default: bool | None) -> Any:
    """A parameter that is true or false; empty counts as missing."""
    one = Parameter(name, field.boolean, lambda value: str(value).lower(), default, _BOOLEANS)
    return one.field()


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(text, integer, boolean)
)
def request_header(cls: type[_Header]) -> type[_Header]:
    """Make a class of declared parameters a frozen header."""
    made = attrs.frozen(kw_only=True)(cls)
    fields: Iterable[attrs.Attribute[object]] = attrs.fields(
        cast("type[attrs.AttrsInstance]", made)
    )
    made.parameters = {one.name: one.metadata[_KEY] for one in fields}
    made.reading = tuple(
        (one.name, one.words, one.default, _keeper(made, name))
        for name, one in made.parameters.items()
    )
    return made


_Keep = Callable[[object, object], None]


def _keeper(cls: type, name: str) -> _Keep:
    """The setter of a field of a frozen class, for the maker of the value."""
    return cast("_Keep", getattr(cls, name).__set__)


class RequestHeader:
    """The parameters of one kind of request."""

    __slots__ = ("_command",)
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """By the names of the fields, in the order in which they are written."""
    reading: ClassVar[Sequence[tuple[str, Mapping[str, object] | None, object, _Keep]]] = ()
    """The same as ``of`` takes it, for speed: name, words, default, and what sets the field."""

    @classmethod
    def of(cls: type[_Header], command: Command) -> _Header:
        """Read the parameters of a request; a faulty one is refused when it is taken.

        A pull brings eleven and is answered in 20 µs, so large numbers wait until they are taken.
        """
        header = cls.__new__(cls)
        _keep_command(header, command)
        get = command.ext.get
        for name, words, default, keep in cls.reading:
            value = get(name)
            if value is None or (not value and words is not None):
                if default is not attrs.NOTHING:
                    keep(header, default)
            elif words is None:
                keep(header, value)
            elif value in words:
                keep(header, words[value])
            # Any other is read when it is taken.
        return header

    def to_ext(self) -> dict[str, str]:
        """The parameters as a request has them, without those that are None."""
        values = ((one, getattr(self, name)) for name, one in self.parameters.items())
        return {one.name: one.write(value) for one, value in values if value is not None}

    # Hidden from type checkers: with it they would take every name for one of a parameter.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Called for a parameter that has no value yet: read it, or refuse it."""
            if name not in self.parameters:
                raise AttributeError(name=name, obj=self)
            one = self.parameters[name]
            value = one.read(self._command, one.name)
            object.__setattr__(self, name, value)
            return value


_keep_command = _keeper(RequestHeader, "_command")
