"""What holds of the predictions of all kinds of numbers: rows are joined and picked, and what cannot be is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gumdrop.likelihoods import LIKELIHOODS

S, N, D = 7, 5, 2
AT = torch.ones(N, D)

kinds = pytest.mark.parametrize("kind", ["gaussian", "student_t", "poisson", "negative_binomial"])


def predicted(kind: str, *, keep_draws: bool = True) -> Any:
    size = D if kind == "poisson" else 2 * D
    output = torch.randn(S, N, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return LIKELIHOODS[kind].predict([output], S, keep_draws=keep_draws)


@kinds
def test_rows_are_picked_and_joined(kind: str) -> None:
    whole = predicted(kind)
    again = type(whole).joined([whole.rows(torch.tensor([0, 1])), whole.rows(torch.arange(2, N))])
    for name, value in vars(whole).items():
        assert torch.equal(getattr(again, name), value) if isinstance(value, Tensor) else getattr(again, name) == value
    assert torch.equal(again.quantile(0.3), whole.quantile(0.3))
    places = torch.tensor([4, 1])
    assert torch.equal(again.with_rows(places, whole.rows(torch.tensor([0, 3]))).mean, whole.mean[[0, 3, 2, 3, 0]])
    mixed = type(whole).joined([whole, predicted(kind, keep_draws=False)])
    assert all(value is None for name, value in vars(mixed).items() if name.startswith("draw_"))


@kinds
def test_what_cannot_be_asked_is_refused(kind: str) -> None:
    prediction, lean = predicted(kind), predicted(kind, keep_draws=False)
    for shape in ((N,), (N, 1), (1, D)):
        with pytest.raises(ValueError, match=r"`target` must have shape \(5, 2\), got"):
            prediction.log_prob(torch.ones(shape))
    for wrong in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="`probability` must be strictly between 0 and 1"):
            prediction.quantile(wrong)
        with pytest.raises(ValueError, match="`coverage` must be strictly between 0 and 1"):
            prediction.interval(wrong)
    asked = {"quantile": [0.5], "interval": [], "cdf": [AT], "log_prob": [AT], "log_probability": [AT, AT]}
    for name, given in asked.items():
        if name != "log_probability" or kind == "gaussian":
            with pytest.raises(ValueError, match="the draws were not kept; predict with `keep_draws=True`"):
                getattr(lean, name)(*given)
