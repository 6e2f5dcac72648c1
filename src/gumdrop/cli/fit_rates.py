"""``gumdrop fit-rates``: dropout rates and a temperature for a network that is trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gumdrop.cli.flags import Count, Flag, Json
from gumdrop.cli.paths import check_free
from gumdrop.views.terminal import Voice

if TYPE_CHECKING:
    from torch import Tensor

    from gumdrop.training import FittedRates

ENDINGS = (".onnx", ".pt2")  # each is the name of a format
TARGET = "y"
TOLD = ("temperature", "rates", "kept", "scores", "errors")
"""Fields of `FittedRates` that are plain data."""


def fit_rates(
    model: str,
    held_out: Path,
    /,
    *,
    likelihood: Literal["gaussian", "categorical", "bernoulli"],
    out: Path | None = None,
    overwrite: Flag = False,
    num_samples: Count = 100,
    seed: int = 0,
    machine: Json = False,
) -> None:
    """Give a trained network the dropout rates and the temperature that held-out rows favour; its weights stay.

    Args:
        model: A file that torch.export.save wrote (.pt2), or module:thing that can be imported. Either is a program,
            which runs when it is loaded: use those of authors whom you trust.
        held_out: File of numpy.savez with the targets as `y` and the input of the network under any other name; several
            inputs go by the names of its arguments. Rows that the network was not trained on.
        likelihood: What the network returns: the mean of a number, alone or before its log variance; logits of classes;
            or one logit.
        out: File to write that predicts with these rates, .onnx or .pt2: mean, epistemic and aleatoric variance, or
            probabilities and their entropies.
        overwrite: Replace the file if it exists.
        num_samples: Draws of a prediction of that file.
        seed: Seed of the masks.
        machine: Write one JSON object to standard output, and words to standard error.

    Raises:
        ValueError: If a file cannot be used.
    """
    if out is not None and out.suffix not in ENDINGS:
        raise ValueError(f"--out {out} must end in .onnx or .pt2")
    check_free(out, held_out, overwrite)
    inputs, targets = read_arrays(held_out)
    if likelihood != "categorical":  # numbers, which networks return in a column
        targets = targets.float().reshape(len(targets), -1)
    elif targets.is_floating_point():
        raise ValueError(f"'{TARGET}' of {held_out} must hold classes as integers from 0; these are numbers")

    from gumdrop.export import export_model
    from gumdrop.networks.stored import load_network
    from gumdrop.training import fit_rates as fitted_to

    voice = Voice(machine)
    network = load_network(model)
    try:
        fitted = fitted_to(network, (inputs, targets), likelihood=likelihood, seed=seed)
    except (RuntimeError, TypeError) as error:  # of layers that get other shapes, and calls with other arguments
        raise ValueError(f"{model} does not take the arrays of {held_out}: {error}") from error
    told = {name: getattr(fitted, name) for name in TOLD}
    if out is not None:
        to: Any = out.suffix[1:]
        export_model(network, inputs, out, to=to, num_samples=num_samples, likelihood=fitted.likelihood)
        told["out"] = str(out)
    voice.answer({"command": "fit-rates", "model": model, **told}, partial(show_fitted, fitted=fitted))
    if out is not None:
        voice.say(f"{model} -> {out}  (run twice and compared with the network)")


def read_arrays(path: Path) -> tuple[Tensor | dict[str, Tensor], Tensor]:
    """Read the inputs, one or several by their names, and the targets; floats in float32, other numbers in int64."""
    import numpy as np
    import torch

    if not path.is_file():
        raise ValueError(f"{path} is not there; write it with numpy.savez({path.name!r}, x=inputs, y=targets)")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            read = {name: arrays[name] for name in arrays.files}
        tensors = {
            name: torch.as_tensor(array.astype(np.float32 if array.dtype.kind == "f" else np.int64))
            for name, array in read.items()
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:  # one array alone, other things, or no such file
        raise ValueError(f"{path} is no file of numpy.savez with arrays of numbers ({error})") from error
    targets = tensors.pop(TARGET, None)
    if targets is None or not tensors:
        raise ValueError(f"{path} must hold the targets as '{TARGET}' and an input, got {', '.join(read) or 'nothing'}")
    return (tensors if len(tensors) > 1 else next(iter(tensors.values()))), targets


def show_fitted(voice: Voice, fitted: FittedRates) -> None:
    """Show what is kept and what it is worth."""
    scores = []
    for name, score in fitted.scores.items():
        gain = f"{score - fitted.scores['temperature']:+.4f} ± {fitted.errors[name]:.4f}"
        scores.append((name, f"{score:.4f}", "" if name == "temperature" else gain))
    voice.show("Log likelihood of held-out rows, in nats", ("", "mean", "gain on the temperature alone"), scores)
    voice.show("Dropout rates", ("layer", "rate"), [(name, f"{rate:.3f}") for name, rate in fitted.rates.items()])
    voice.say(f"kept: {fitted.kept}; temperature {fitted.temperature:.3f}")
