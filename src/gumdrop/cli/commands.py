"""The command line: ``gumdrop VERB [THING] [flags]``."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import App, CycloptsError, Parameter, validators

from gumdrop.cli.tables import config_from_flag, demo, explain, fit, info, predict
from gumdrop.machine.version import VERSION
from gumdrop.views.terminal import err_console, out_console, print_json
from gumdrop_experiments.catalogue import EXPERIMENTS, package_of
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.reproduce import command

__all__ = ["app", "main"]

app = App(
    suppress_keyboard_interrupt=False,  # it has words of its own, see main
    name="gumdrop",
    version=VERSION,
    help="Networks that learn their own dropout rates, and say how sure they are.",
)
T = TypeVar("T")
Several = Annotated[tuple[T, ...], Parameter(consume_multiple=True, negative="")]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
Parameter(name="*", negative="")(RunOptions)  # its fields are flags of every experiment, --seed and not --options.seed


def _say(text: str) -> None:
    out_console.print(text, markup=False, soft_wrap=True)


app.command(fit, config=(config_from_flag,))
for _command in (predict, explain, info, demo):
    app.command(_command)


@app.command
def export(
    folder: Path,
    /,
    *,
    to: Literal["onnx", "pt2", "aoti"] = "onnx",
    variant: Literal["draw", "moments", "noise", "deterministic"] = "moments",
    num_samples: Count | None = None,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write a model as one file that predicts elsewhere, and compare it with the model first.

    Args:
        folder: What `gumdrop fit` left.
        to: ONNX, a program of torch.export, or a library compiled by AOTInductor for machines like this one.
        variant: One draw a call; the moments of many; the same with the noise as an input; or moments that are
            propagated through the layers without drawing.
        num_samples: Draws of a call; by default those of the model.
        out: File to write; by default the folder's name with the ending of the format.
        overwrite: Replace the file if it exists.

    Raises:
        ValueError: If the file exists.
    """
    from gumdrop.export.model import FORMATS, export_table
    from gumdrop.tables.fitting.folder import whole_folder
    from gumdrop.tables.model import load_table_model

    place = out or Path(folder.resolve().name + FORMATS[to])
    if place.exists() and not overwrite:
        raise ValueError(f"{place} exists already; name another file with --out, or add --overwrite")
    model = load_table_model(whole_folder(folder, _say))
    export_table(model, place, to=to, variant=variant, num_samples=num_samples)
    _say(f"{folder} -> {place}  ({place.stat().st_size / 1024:.0f} KB; run twice and compared with the model)")


@app.command
def explain_image(
    model: str,
    image: Path,
    /,
    *,
    out: Path | None = None,
    target: int | None = None,
    infill: Literal["blur", "mean", "zeros", "uniform", "normal", "local_shuffle"] = "blur",
    mask_size: Count | None = None,
    iterations: Count = 100,
    size: tuple[int, int] | None = None,
    grey: bool = False,
    mean: Several[float] = (0.0,),
    std: Several[float] = (1.0,),
    device: str = "cpu",
    seed: int = 0,
    quiet: bool = False,
) -> None:
    """Show which part of a picture suffices for a classifier's answer, and which destroys it.

    Args:
        model: A file that torch.export.save wrote (.pt2), or module:thing that can be imported.
        image: Picture to explain.
        out: PNG file to write; by default the picture's name with `.explained.png` for its ending.
        target: Class to explain; by default the one that the model predicts.
        infill: What stands where a mask drops.
        mask_size: Cells of the masks along each side; by default those of the picture, but at most 56.
        iterations: Steps of the search.
        size: Height and width that the model takes; by default what it was exported for, or those of the picture.
        grey: Give the model one channel of brightness.
        mean: What the model's input is centred by, for pixels from 0 to 1: one number or one for each channel.
        std: What it is divided by.
        device: Where to run, as torch spells it.
        seed: Seed of the masks.
        quiet: Show no progress.
    """
    from gumdrop.attribution import FIDO, FIDOSettings
    from gumdrop.attribution.pictures import Normalisation, explain_picture, load_classifier
    from gumdrop.views.picture import draw_explanation

    normalisation = Normalisation(mean, std)
    explanation = explain_picture(
        load_classifier(model, device=device),
        image,
        size=size,
        grey=grey,
        normalisation=normalisation,
        fido=lambda forward: FIDO(forward, FIDOSettings(iterations=iterations)),
        device=device,
        target=target,
        infill=infill,
        mask_size=mask_size,
        seed=seed,
        show_progress=not quiet,
    )
    place = out or image.with_suffix(".explained.png")
    draw_explanation(explanation, place, normalisation=normalisation)
    what = "its output" if explanation.target is None else f"class {int(explanation.target[0])}"
    _say(
        f"Log-odds of {what}: {explanation.score[0]:.2f}; with the sufficient region alone "
        f"{explanation.curve_ssr[-1, 0]:.2f}, without the destroying one {explanation.curve_sdr[-1, 0]:.2f}, with the "
        f"infill alone {explanation.score_infill[0]:.2f}"
    )
    top, left, bottom, right = explanation.boxes()[0].tolist()
    _say(f"Box: rows {top} to {bottom}, columns {left} to {right}" if bottom else "Box: none, nothing exceeds one half")
    _say(f"Look at  {place}")


reproduce = App(
    default_parameter=Parameter(consume_multiple=True),
    name="reproduce",
    help="Run a published experiment again, and see its figures beside the published.",
)
app.command(reproduce)
for _name in EXPERIMENTS:
    _package = package_of(_name)
    _has_the_shape = find_spec(f"{_package}.settings") is not None
    reproduce.command(command(_package) if _has_the_shape else f"{_package}.study:{_name}", name=_name)


@reproduce.default
def _experiments(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
) -> None:
    """Run a published experiment again, and see its figures beside the published.

    Args:
        words: A name that is no experiment, and what follows it.
        list_: Say what each experiment shows, how long it takes and where its published figures come from.

    Raises:
        ValueError: If there is no such experiment.
    """
    if words:
        names = ", ".join(EXPERIMENTS)
        raise ValueError(f"there is no experiment {words[0]!r}; there are: {names}. See `gumdrop reproduce --list`.")
    for name, about in EXPERIMENTS.items():
        times = f"{about.minutes:g} minutes, {about.quick_minutes:g} with --quick"
        out_console.print(f"[bold]{name}[/bold]  ({times})")
        _say(f"  {about.shows}\n  Published figures: {about.source}")
    _say("Run one with  gumdrop reproduce NAME, see its flags with  gumdrop reproduce NAME --help")


@app.command
def explore(
    *,
    out: Path | None = None,
    run: Annotated[tuple[Path, ...], Parameter(negative="", consume_multiple=True)] = (),
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 8765,
) -> None:
    """Open the interactive page: push the objective, watch a posterior being learned, look at runs.

    Args:
        out: Write the page as static files into this folder, with a recorded session, instead of serving it.
        run: Folders of `gumdrop fit` or `gumdrop reproduce` to show.
        host: Address to serve on; by default this machine alone can reach it.
        port: Port to serve on; another one if it is taken.

    Raises:
        ValueError: If the extra is not installed.
    """
    try:
        from gumdrop.views.explore import open_runs, open_socket, serve, write_site
    except ModuleNotFoundError as error:
        raise ValueError(f"this command needs {error.name}: pip install 'gumdrop[explore]'") from error

    runs = open_runs(run)
    if out is not None:
        _say(f"Look at  {write_site(out, runs=runs)}")
        return
    with open_socket(host, port) as listener:
        found = listener.getsockname()[1]
        if found != port and port:
            _say(f"Port {port} is taken, so another one is used.")
        name = f"[{host}]" if ":" in host else host
        _say(f"Look at  http://{name}:{found}/   (Ctrl-C stops it)")
        serve(listener, runs=runs, host=host)
    _say("Stopped.")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; what a user can mend is one line on standard error, not a traceback.

    Args:
        arguments: Words of the command; those of the process if None.

    Returns:
        Exit status: 0; 1 where something failed on the way, such as a full disk; 2 for a command or an input that
        cannot be used; 130 for an interruption.
    """
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
    """Say what went wrong, also to a machine if one listens."""
    err_console.print("error: ", style="bold red", end="")
    err_console.print(message, markup=False, soft_wrap=not err_console.is_terminal)
    if "--json" in words:
        print_json({"error": message, "status": status})
    return status


def _entry() -> Any:
    sys.exit(main())


if __name__ == "__main__":
    _entry()
