"""``gumdrop export``: a model as one file that predicts elsewhere."""

from pathlib import Path
from typing import Literal

from gumdrop.cli.flags import Count
from gumdrop.cli.paths import check_free
from gumdrop.tables.errors import STDIN
from gumdrop.tables.folders import model_folder
from gumdrop.views.terminal import Voice, say


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
    """
    whole = model_folder(folder, Voice().say)

    from gumdrop.export.formats import FORMATS  # torch and all: what can be refused was
    from gumdrop.export.model import export_table
    from gumdrop.tables.model_file import load_table_model

    path = out or Path(folder.resolve().name + FORMATS[to])
    check_free(path, Path(STDIN), overwrite)
    model = load_table_model(whole)
    export_table(model, path, to=to, variant=variant, num_samples=num_samples)
    say(f"{folder} -> {path}  ({path.stat().st_size / 1024:.0f} KB; run twice and compared with the model)")
