"""`gumdrop reproduce pairs` on made-up digits, and how a method is judged."""

import pytest
import torch
from torch import nn

from gumdrop_experiments.pairs import study as experiment

from builders.digits import write_digits
from builders.reproduced import reproduced

pytest.importorskip("captum")


def test_pairs_leave_their_numbers_and_figures(tmp_path, constants) -> None:
    constants(experiment, UNSEEN=slice(None), PAIRS=((4, 9),))
    write_digits(tmp_path / "data" / "mnist")
    out = tmp_path / "out"
    words = ["--images", 2, "--iterations", 2, "--classifier-steps", 9]
    pairs = reproduced("pairs", out, *words, data=tmp_path / "data")["pairs"]
    assert list(pairs) == ["4-9", "9-4"]
    for part in pairs.values():
        assert part["images"] == 2
        assert {len(shares) for shares in part["needed"].values()} == {2}
        assert {curve[0] for curve in part["changed"].values()} == {0}
        assert {curve[-1] for curve in part["changed"].values()} == {1}
    assert "between the two" in (out / "report.html").read_text()


def test_an_answer_changes_where_what_decides_is_replaced() -> None:
    """A classifier that sees one pixel changes its mind as soon as that pixel is among those replaced."""

    class OnePixel(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = x[:, 0, 3, 4]
            return torch.stack([seen, 0.5 - seen, torch.full_like(seen, -9.0)], dim=1)

    between = experiment.Between(OnePixel(), 0, 1)
    x, near = torch.ones(2, 1, 10, 10), torch.zeros(2, 1, 10, 10)
    relevance = torch.rand(2, 1, 10, 10)
    relevance[0, 0, 3, 4], relevance[1, 0, 3, 4] = 2, -1
    changed = experiment._changed(between, x, near, relevance)
    assert changed.shape == (2, 101)
    assert changed[0].tolist() == [False] + [True] * 100
    assert changed[1].tolist() == [False] * 100 + [True]
