"""Commands as they are typed, and what they answer."""

import json
from typing import Any

from gumdrop.cli import main


class Shell:
    """Runs commands in this process, whose words may be paths and numbers, too."""

    def __init__(self, capsys):
        self.capsys = capsys

    def run(self, words, status):
        self.capsys.readouterr()
        assert main([*map(str, words)]) == status
        return self.capsys.readouterr()

    def said(self, *words, status: int = 0) -> str:
        """What a command says to people, in one line."""
        captured = self.run(words, status)
        return " ".join((captured.out + captured.err).split())

    def refused(self, *words) -> str:
        """What a command says that cannot be run as it is."""
        return self.said(*words, status=2)

    def told(self, *words, status: int = 0) -> Any:
        """What a command tells a machine."""
        return json.loads(self.run((*words, "--json"), status).out)
