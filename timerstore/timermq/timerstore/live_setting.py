"""Which settings may change while a broker serves."""

from __future__ import annotations

import attrs

LIVE = attrs.setters.validate
"""``on_setattr`` of a setting that may: its reader looks each time, and a value that is out
of its range is refused. Everything else was read once, at the start."""


def live_settings(options: type[attrs.AttrsInstance]) -> list[str]:
    """The names of those of a class of options."""
    return [field.name for field in attrs.fields(options) if field.on_setattr is LIVE]
