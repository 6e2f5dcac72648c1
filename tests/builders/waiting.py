"""How tests wait for processes, threads and pages: for an event, however slow the machine."""

import time

HANG = 900.0
"""Seconds after which something counts as hung: many times what a machine takes that is busy with other work."""


def until(done, what, pause=lambda: time.sleep(0.05)):
    """Wait until a function gives something true, and give that; ``what`` says what hangs."""
    deadline = time.monotonic() + HANG
    while not (found := done()):
        assert time.monotonic() < deadline, what
        pause()
    return found
