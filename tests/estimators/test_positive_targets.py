"""Regressors of targets that end at 0: nothing is said below, and held-out rows decide for a logarithm."""

import numpy as np
import pytest
import torch

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.likelihoods import TargetScale

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
PRICE = 3000 * np.exp(X[:, 0] + 0.5 * RNG.normal(size=300))
COUNT = RNG.poisson(np.exp(0.7 * X[:, 0]))


def fitted(y: np.ndarray, **options: object) -> ConcreteDropoutRegressor:
    return ConcreteDropoutRegressor(
        n_members=2, max_iter=20, batch_size=32, random_state=0, n_mc_samples=20, **options
    ).fit(X, y)


@pytest.mark.parametrize(
    ("y", "options", "scale"),
    [
        (PRICE, {}, TargetScale(least=0.0, kind="log")),
        (PRICE, {"hidden_layer_sizes": (16,)}, TargetScale(least=0.0)),
        (COUNT, {"hidden_layer_sizes": (16,)}, TargetScale(least=0.0, step=1.0)),
        (PRICE - 3000, {"hidden_layer_sizes": (16,)}, TargetScale()),
        (np.stack([PRICE, PRICE], axis=1), {"hidden_layer_sizes": (16,)}, TargetScale()),
    ],
)
def test_nothing_is_said_below_where_the_target_ends(y, options, scale) -> None:
    model = fitted(y, **options)
    assert model.predict_distribution(X).scale == scale
    assert np.isfinite(model.log_prob(X, y)).all()
    if scale != TargetScale():
        mean, std = model.predict(X, return_std=True)
        values = (mean, std, *model.predict_interval(X, 0.999), model.predict_quantiles(X, [1e-6]))
        for each in (*values, model.sample_y(X, 50)):
            assert (each >= 0).all()
            assert np.isfinite(each).all()


def test_draws_are_those_of_the_distribution() -> None:
    model = fitted(PRICE, hidden_layer_sizes=(16,))
    draws, prediction = torch.from_numpy(model.sample_y(X[:6], 4000)), model.predict_distribution(X[:6])
    places = torch.cat([prediction.cdf(each[:, None]) for each in draws.T], dim=1)
    for probability in (0.1, 0.5, 0.9):
        share = (places < probability).double().mean(1)
        torch.testing.assert_close(share, torch.full_like(share, probability), atol=0.06, rtol=0)
