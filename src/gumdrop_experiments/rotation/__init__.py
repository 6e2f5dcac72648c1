"""A digit that turns: what two networks say of a 1 at twelve angles, and where their uncertainty comes from.

The picture is number 9978 of the test images, turned by 50 to 127 degrees. A thousand functions are drawn from each
network; their inputs and outputs of the softmax show how a class that is thought certain by each function is not agreed
upon by all. Uncertainty is then asked to tell digits from pictures that are none.

References:
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), section 5.2.
"""

from pathlib import Path

from gumdrop_experiments.harness import About, BaseSettings, Plain, flag

ABOUT = About(
    shows="a digit that turns: softmax inputs and outputs of drawn functions, and where uncertainty comes from",
    minutes=7,
    quick_minutes=1,
    source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.2: a figure, no numbers",
    data=("mnist",),
)


class Settings(BaseSettings):
    """The flags of `rotation`."""

    others: tuple[Path, ...] = ()
    """Folders of idx files that hold no digits, such as letters or clothes, of 28 x 28 pixels."""
    num_samples: int | None = flag(None, least=1)
    """Draws for each angle; 1,000 by default, 100 with --quick."""

    def recorded(self) -> Plain:
        """Return what identifies a run; paths as texts."""
        return super().recorded() | {"others": [str(path) for path in self.others]}
