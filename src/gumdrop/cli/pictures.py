"""``gumdrop explain-image``: which part of a picture suffices for a classifier's answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gumdrop.cli.flags import Count, Several
from gumdrop.views.terminal import say

if TYPE_CHECKING:
    from gumdrop.attribution import Explanation


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
        model: A file that torch.export.save wrote (.pt2), or module:thing that can be imported. Either is a program,
            which runs when it is loaded: use those of authors whom you trust.
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
    from gumdrop.attribution import FIDOSettings
    from gumdrop.attribution.pictures import Normalisation, explain_picture, load_classifier
    from gumdrop.views.picture import draw_explanation

    normalisation = Normalisation(mean, std)
    explanation = explain_picture(
        load_classifier(model, device=device),
        image,
        size=size,
        grey=grey,
        normalisation=normalisation,
        settings=FIDOSettings(iterations=iterations),
        device=device,
        target=target,
        infill=infill,
        mask_size=mask_size,
        seed=seed,
        show_progress=not quiet,
    )
    path = out or image.with_suffix(".explained.png")
    draw_explanation(explanation, path, normalisation=normalisation)
    _say(explanation)
    say(f"Look at  {path}")


def _say(explanation: Explanation) -> None:
    """Say how much the regions are worth, and where the one that suffices lies."""
    what = "its output" if explanation.target is None else f"class {int(explanation.target[0])}"
    say(
        f"Log-odds of {what}: {explanation.score[0]:.2f}; with the sufficient region alone "
        f"{explanation.curve_ssr[-1, 0]:.2f}, without the destroying one {explanation.curve_sdr[-1, 0]:.2f}, with the "
        f"infill alone {explanation.score_infill[0]:.2f}"
    )
    top, left, bottom, right = explanation.boxes()[0].tolist()
    say(f"Box: rows {top} to {bottom}, columns {left} to {right}" if bottom else "Box: none, nothing exceeds one half")
