"""What processes of a test are started with, and two that work together."""

import atexit
import os
import socket
import subprocess
import sys
from pathlib import Path

import gumdrop

from builders.waiting import HANG


def environment() -> dict[str, str]:
    """Let other processes import the library and the builders."""
    tests, source = Path(__file__).parents[1], Path(gumdrop.__file__).parents[1]
    path = os.pathsep.join([str(tests), str(source), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def run_two(*words: object) -> str:
    """Run a script that calls `fork`, and give what its two processes say."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    call, env = [sys.executable, *map(str, words)], environment() | given
    done = subprocess.run(call, env=env, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def fork() -> None:
    """Go on as two processes, as torchrun starts them, but that each would take seconds to load torch."""
    child = os.fork()
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0" if child else "1"
    if child:  # after the processes have said farewell to one another
        atexit.register(lambda: os.waitpid(child, 0)[1] and os._exit(1))
