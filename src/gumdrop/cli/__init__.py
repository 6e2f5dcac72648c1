"""Commands: flags in, one call, words out. Whatever is slow to import is imported by the command that needs it."""

from gumdrop.cli.commands import app, main

__all__ = ["app", "main"]
