"""A server of the interactive page for a while."""

import contextlib
import threading

from gumdrop.views.explore import open_socket
from gumdrop.views.explore.server import make_server

from builders.waiting import HANG


@contextlib.contextmanager
def running(**options):
    """Serve in a thread; yield the port."""
    with open_socket("127.0.0.1", 0) as listener, make_server(listener, **options) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.shutdown()
            thread.join(HANG)
            assert not thread.is_alive()
