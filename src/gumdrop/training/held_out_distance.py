"""Distance from held-out rows: what tells rows that are unlike all that a network knows, whatever its rates."""

import torch
from torch import nn

from gumdrop.prediction.distance import FeatureDistance, features_of
from gumdrop.prediction.inputs import Arguments, Inputs, arguments
from gumdrop.prediction.twins import DISTANCE, uncompiled

MOST_ROWS = 1000
"""Held-out rows that are looked at: they tell p-values of .001."""
MOST_LAYERS = 16
"""Layers whose features are kept, from the first to the last one."""


def fit_distance(model: nn.Module, held_out: Inputs, *, batch_size: int = 256, seed: int = 0) -> FeatureDistance:
    """Let a model tell rows that are unlike held-out ones, by what its layers read; its predictions stay as they are.

    `gumdrop.predict` then gives `outlier_p_value`: of rows like the held-out ones, about a share a has a p-value of
    at most a. `fit_rates` does this for a network that it gives rates; use it alone for a model that has learned them,
    and again after more training.

    Args:
        model: A trained model. It keeps the distance in its attribute ``feature_distance``, which is pickled and copied
            with it and no part of its state dict.
        held_out: Inputs that the model was not trained on, as for `gumdrop.sample`; a random 1,000 of them if there are
            more.
        batch_size: Rows that run at once.
        seed: Same seed, same rows.

    Returns:
        The distance.

    Raises:
        ValueError: If there are fewer than 8 rows, or no layer reads each of them once, as finite numbers.

    Example:
        >>> import gumdrop as gd
        >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> model = gd.learn_dropout(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)))  # and its training
        >>> distance = fit_distance(model, x)
        >>> gd.predict(model, 10 * x[:1], "gaussian", seed=0).outlier_p_value
        tensor([0.0099])
    """
    rows = arguments(held_out, name="held_out")
    if len(rows) < 8 or batch_size < 1:
        raise ValueError(
            "`held_out` must have at least 8 rows, and `batch_size` must be at least 1, got "
            f"{len(rows)} and {batch_size}"
        )
    distance = place_distance(model, rows, batch_size, seed)
    if distance is None:
        raise ValueError(
            "`model` has no dense, convolutional or recurrent layer that reads every row of `held_out` once, as finite "
            "numbers with the rows in dimension 0, so it has no features to compare"
        )
    return distance


def place_distance(model: nn.Module, rows: Arguments, batch_size: int, seed: int) -> FeatureDistance | None:
    """Fit the distance of a model and leave it there; None if it has no features."""
    if len(rows) > MOST_ROWS:
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]]
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    found = features_of(model, rows.to(device), batch_size)
    names = [name for name, each in found.items() if bool(each.isfinite().all())]
    if not names:
        return None
    chosen = torch.linspace(0, len(names) - 1, min(len(names), MOST_LAYERS)).round().long().tolist()
    distance = FeatureDistance.of({names[i]: found[names[i]] for i in chosen})
    setattr(uncompiled(model), DISTANCE, distance)
    return distance
