"""Dropout of a model's own beside learned rates: left, and said so, or switched off."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.layers import dropout_blocks

from builders.models import report_of
from builders.rates import set_logit

ON_TOP = "; it acts as before, on top of learned rates"


class Functional(nn.Module):
    """A module that drops by functions, at rates that it keeps as numbers."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(8, 8), nn.Dropout(0.3)
        self.dropout, self.attention_dropout = 0.2, 0.4
        self.scale, self.use_dropout, self.no_dropout, self.drop_rate = 0.5, True, 0.0, 0.6

    def forward(self, x):
        x = F.dropout(self.layer(x), self.dropout, self.training)
        return F.dropout(x, self.drop.p if self.training else 0.0, self.training) + x


def parts():
    return nn.ModuleDict(
        {
            "functional": Functional(),
            "attention": nn.MultiheadAttention(8, 2, dropout=0.25),
            "lstm": nn.LSTM(8, 8, num_layers=2, dropout=0.15),
            "left_lstm": nn.LSTM(8, 8, num_layers=2, dropout=0.35),
            "alpha": nn.AlphaDropout(0.45),
            "none": nn.Dropout(0.0),
        }
    )


LEFT = {
    "functional.drop": "Dropout(p=0.3)",
    "functional.dropout": "dropout = 0.2 in the code of Functional",
    "functional.attention_dropout": "attention_dropout = 0.4 in the code of Functional",
    "attention.dropout": "dropout of attention weights, p = 0.25",
    "left_lstm.dropout": "dropout between layers, p = 0.35",
    "alpha": "AlphaDropout(p=0.45)",
}


def test_what_stays_is_in_the_report():
    model = parts()
    report = report_of(model, exclude=["left_lstm"])
    stays = {name: what for name, what in report.left.items() if ON_TOP in what}
    assert stays == {name: what + ON_TOP for name, what in LEFT.items()}
    assert report.removed == {}
    assert report.replaced == {"lstm.dropout": "lstm starts from p = 0.15 between its layers"}
    assert model["functional"].drop.p == 0.3


def test_what_is_removed_is_in_the_report_and_off():
    model, other = parts(), parts()
    report = report_of(model, exclude=["left_lstm"], plain_dropout="remove")
    report_of(other, exclude=["left_lstm"])
    assert report.removed == LEFT
    assert not any(ON_TOP in what for what in report.left.values())
    assert "removed     alpha" in str(report)
    functional = model["functional"]
    assert (functional.dropout, functional.attention_dropout, functional.drop.p) == (0.0, 0.0, 0.0)
    assert (functional.scale, functional.use_dropout) == (0.5, True)
    assert model["attention"].dropout == model["left_lstm"].dropout == model["alpha"].p == 0.0
    assert model["lstm"].dropout == 0.15  # what its rates started from; its sites act in its place
    assert list(model.state_dict()) == list(other.state_dict())
    assert {n: type(m) for n, m in model.named_modules()} == {n: type(m) for n, m in other.named_modules()}


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), (4, 3, 8)),
        (Functional, (4, 8)),
    ],
)
def test_after_removal_nothing_drops_but_learned_rates(make, shape):
    x = torch.randn(shape)
    for plain_dropout, same in (("keep", False), ("remove", True)):
        model = gd.learn_dropout(make(), plain_dropout=plain_dropout).train()
        with torch.no_grad():
            for block in dropout_blocks(model):
                set_logit(block.site, -30.0)
        first, second = model(x), model(x)
        assert torch.allclose(first, second, atol=1e-5) == same
    model.eval()
    torch.testing.assert_close(model(x), first, atol=1e-5, rtol=1e-5)
