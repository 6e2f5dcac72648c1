"""A server of the interactive page for a while."""

import contextlib
import threading

from gumdrop.views.explore import open_socket, server

from builders.waiting import HANG


@contextlib.contextmanager
def running(**options):
    """Serve in a thread; yield the port."""
    listener = open_socket("127.0.0.1", 0)
    own = server._Server(server._configure(server.make_app(**options)))
    thread = threading.Thread(target=own.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        own.should_exit = True
        thread.join(HANG)
        assert not thread.is_alive()
        listener.close()
