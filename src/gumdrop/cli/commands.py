"""The command line: ``gumdrop VERB [THING] [flags]``."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from cyclopts import App, CycloptsError

from gumdrop.cli.compare import compare
from gumdrop.cli.demo import demo
from gumdrop.cli.drift import drift
from gumdrop.cli.evaluate import evaluate
from gumdrop.cli.explain import explain
from gumdrop.cli.explore import explore
from gumdrop.cli.export import export
from gumdrop.cli.fit import fit
from gumdrop.cli.fit_rates import fit_rates
from gumdrop.cli.flags import config_from_flag
from gumdrop.cli.info import info
from gumdrop.cli.pictures import explain_image
from gumdrop.cli.predict import predict
from gumdrop.machine.version import VERSION
from gumdrop.views.terminal import err_console, out_console, print_json

app = App(
    suppress_keyboard_interrupt=False,  # it has words of its own, see main
    name="gumdrop",
    version=VERSION,
    help="Networks that learn their own dropout rates, and say how sure they are.",
)
app.command(fit, config=(config_from_flag,))
for _command in (predict, evaluate, explain, info, compare, drift, demo, export, fit_rates, explain_image, explore):
    app.command(_command)
_reproduces = "Run a published experiment again, and see its figures beside the published."
app.command("gumdrop.cli.reproduce:reproduce", name="reproduce", help=_reproduces)  # imports all experiments' settings


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; what a user can mend is one line on standard error, not a traceback.

    Args:
        arguments: Words of the command; those of the process if None.

    Returns:
        Exit status: 0; 1 where something failed on the way, such as a full disk; 2 for a command or an input that
        cannot be used; 130 for an interruption.
    """
    # Read when torch is loaded. Where other programs run, threads that spin take the processor from the one they await.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    given = sys.argv[1:] if arguments is None else arguments
    words = ["./-" if word == "-" else word for word in given]  # the same path, which is not taken for an option
    try:
        with _terminated_as_interrupted():
            status = app(
                words,
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
                console=out_console,
            )
    except CycloptsError as error:
        return _fail(f"{error}\nSee `gumdrop --help`.", 2, words)
    except (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        return _fail(str(error), 2, words)
    except BrokenPipeError:  # who read our output has left; nothing more is to be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # the number of an error of our own says nothing
        return _fail(str(error) if error.filename else error.strerror or str(error), 1, words)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "stopped", 130, words)
    return status if isinstance(status, int) else 0


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """End on SIGTERM as on Ctrl-C, so that a fit keeps its model and half-written files go; others' handlers stay."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _fail(message: str, status: int, words: list[str]) -> int:
    """Say what went wrong, also to a machine if one listens; names of files need not be texts."""
    message = message.encode("utf-8", "backslashreplace").decode()
    err_console.print("error: ", style="bold red", end="")
    err_console.print(message, markup=False, soft_wrap=not err_console.is_terminal)
    if "--json" in words:
        print_json({"error": message, "status": status})
    return status


if __name__ == "__main__":
    sys.exit(main())
