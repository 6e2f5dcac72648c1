"""Train the models of ``docs/trained``: diabetes a year later, and the small digits of scikit-learn.

Run with ``make docs-trained``.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits

from gumdrop.cli.demo import patients
from gumdrop.networks import mlp
from gumdrop.tables import fit_table
from gumdrop.tables.model_file import save_model
from gumdrop.training import fit

TRAINED = Path(__file__).parents[1] / "trained"
TEST_DIGITS = 297
"""The last of the digits, which the network has not seen."""


def diabetes() -> None:
    """Fit the table of the demo, with nothing set."""
    folder = TRAINED / "diabetes"
    folder.mkdir(parents=True, exist_ok=True)
    save_model(fit_table(patients(), "progression"), folder)


def digits() -> None:
    """Train the network of docs/mnist.md."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    torch.manual_seed(0)
    model = mlp(64, 10, hidden=(128, 128), p=0.5)
    train = (x[:-TEST_DIGITS], y[:-TEST_DIGITS])
    fit(model, train, likelihood="categorical", epochs=20, batch_size=64, lengthscale=1.0)
    save_file(model.state_dict(), TRAINED / "digits.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    diabetes()
    digits()
