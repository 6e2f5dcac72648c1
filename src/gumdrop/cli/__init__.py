"""Commands: flags in, one call, words out; one file for each.

`commands.py` puts them together and turns what a user can mend into one line and an exit status, `flags.py` holds the
types of flags, and `paths.py` the files that are read and written. Whatever is slow to import is imported by the
command that needs it. Imports everything.
"""

from gumdrop.cli.commands import main

__all__ = ["main"]
