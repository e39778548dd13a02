"""The command line: one module a verb."""

from .main import main as main
