"""A digit that turns: what a tutorial's networks say of a 1 at twelve angles, and where their uncertainty comes from.

The picture is number 9978 of the test images, turned by 50 to 127 degrees. The networks are two of `regularisation`
with fixed rates, and their twins with learned ones. A thousand functions are drawn from each; their inputs and outputs
of the softmax show how a class that is thought certain by each function is not agreed upon by all. Uncertainty is then
asked to tell digits from pictures that are none.

References:
    Xu, Zhao & Zhao 2018 (https://github.com/xuwd11/Dropout_Tutorial_in_PyTorch), section 5.1, after
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), section 5.2.
"""

from pathlib import Path

from gumdrop_experiments import regularisation
from gumdrop_experiments.harness import About, Plain, flag

ABOUT = About(
    shows="a digit that turns: softmax inputs and outputs of drawn functions, and where uncertainty comes from",
    minutes=(150, 1),
    estimated=True,
    source="Xu, Zhao & Zhao's tutorial, after Gal & Ghahramani 2016 (arXiv:1506.02142): figures, predicted digits",
    data=("mnist",),
)


class Settings(regularisation.Settings):
    others: tuple[Path, ...] = ()
    """Folders of idx files that hold no digits, such as letters or clothes, of 28 x 28 pixels."""
    adam: bool = False
    """Train by Adam at .001, which is there in a tenth of the epochs, and not by plain gradient descent."""
    num_samples: int = flag(1000, least=1, quick=100)
    """Draws for each angle."""

    def recorded(self) -> Plain:
        """Return what identifies a run; paths as texts."""
        return super().recorded() | {"others": [str(path) for path in self.others]}
