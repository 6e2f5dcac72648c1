"""The flags of `regularisation`."""

from dataclasses import dataclass

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `regularisation`."""

    epochs: int | None = None
    """Passes over the training images for the perceptrons; 200 by default, 2 with --quick."""
    lenet_epochs: int | None = None
    """The same for LeNet, which takes four times as long; 60 by default, 2 with --quick."""
    lenet_lr: float = 0.1
    """Learning rate of LeNet. The tutorial has .01 and 1,500 epochs."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "epochs", "lenet_epochs")
        if not self.lenet_lr > 0:
            raise ValueError(f"`lenet_lr` must be positive, got {self.lenet_lr}")
