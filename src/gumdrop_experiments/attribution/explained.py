"""What the figures and the results keep of an explanation."""

from typing import Any

from torch import Tensor

from gumdrop.attribution import Explanation
from gumdrop_experiments.harness.plain import Plain


def explained(found: Explanation) -> Plain:
    """What a figure of masks needs, to two decimals."""
    assert found.target is not None
    pictures = {
        "inputs": found.inputs,
        "ssr": found.relevance("ssr")[:, 0],
        "sdr": found.relevance("sdr")[:, 0],
        "joint": found.joint[:, 0],
        "enhanced": found.enhance(),
        "crops": found.crop(margin=0.1),
    }
    numbers = {
        "target": found.target.tolist(),
        "boxes": found.boxes().tolist(),
        "score": found.score.tolist(),
        "score_infill": found.score_infill.tolist(),
        "score_ssr": found.curve_ssr[-1].tolist(),
        "score_sdr": found.curve_sdr[-1].tolist(),
    }
    return {**numbers, "pictures": {name: rounded_pixels(value) for name, value in pictures.items()}}


def rounded_pixels(values: Tensor) -> Any:
    """Write pictures as rows of numbers with two decimals."""
    return [[round(v, 2) for v in row] for row in values.flatten(0, -2).tolist()]
