"""Choosing rows whose classes together tell most: against enumeration, and by what must hold."""

import itertools

import pytest
import torch

from gumdrop.metrics import acquisition, choose, choose_classes_jointly


def drawn(seed: int, shape: tuple[int, int, int] = (7, 9, 3), spread: float = 2.0) -> torch.Tensor:
    return spread * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def told(logits: torch.Tensor, rows: list[int]) -> float:
    """Mutual information of the labels of some rows and the function, label by label and draw by draw."""
    p = logits.double().softmax(2)
    joint = torch.zeros(())
    for labels in itertools.product(range(p.shape[2]), repeat=len(rows)):
        likely = torch.stack([p[:, row, label] for row, label in zip(rows, labels, strict=True)]).prod(0).mean()
        joint = joint - likely * likely.log()
    return float(joint - sum(-(p[:, row] * p[:, row].log()).sum(1).mean() for row in rows))


@pytest.mark.parametrize("seed", range(6))
def test_each_choice_is_the_best_of_all_that_are_left(seed) -> None:
    logits = drawn(seed)
    expected: list[int] = []
    for _ in range(4):
        left = [row for row in range(9) if row not in expected]
        expected.append(max(left, key=lambda row: told(logits, [*expected, row])))
    assert choose_classes_jointly(logits, 4).tolist() == expected


def test_bounds_leave_out_no_row(monkeypatch) -> None:
    logits = drawn(1, (10, 60, 4))
    whole = choose_classes_jointly(logits, 5)
    for rows, numbers in ((1, 7), (13, 100)):
        monkeypatch.setattr(acquisition, "ROWS_AT_ONCE", rows)
        monkeypatch.setattr(acquisition, "MOST_NUMBERS", numbers)
        assert choose_classes_jointly(logits, 5).tolist() == whole.tolist()


def test_bounds_spare_most_of_the_work(monkeypatch) -> None:
    looked, joint = [], acquisition._joint_entropy
    monkeypatch.setattr(acquisition, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(acquisition, "_joint_entropy", lambda p, *more: looked.append(p.shape[1]) or joint(p, *more))
    logits = drawn(2, (10, 400, 4)) * torch.linspace(0, 1, 400)[None, :, None] ** 3
    choose_classes_jointly(logits, 4)
    assert sum(looked) < 400 + 3 * 200


def test_drawn_configurations_give_the_joint_entropy_of_all() -> None:
    logits = drawn(3, (8, 6, 4))
    rows, more = [0, 2, 3, 5], torch.tensor([1, 4])
    p = logits[:, more].double().softmax(2)
    found = {}
    for name, most in {"all": 4**4, "drawn": 4**4 - 1}.items():
        found[name] = []
        for seed in range(30):
            given, weight = acquisition._configurations(logits, rows, most, torch.Generator().manual_seed(seed))
            found[name].append(acquisition._joint_entropy(p, given, weight))
    exact, estimates = found["all"][0], torch.stack(found["drawn"])
    error = estimates.std(0) / len(estimates) ** 0.5
    assert ((estimates.mean(0) - exact).abs() < 4 * error).all()
    assert (error < 0.05).all()
    assert exact[0].item() == pytest.approx(told(logits, [*rows, 1]) + _ambiguity(logits, [*rows, 1]), rel=1e-9)


def _ambiguity(logits: torch.Tensor, rows: list[int]) -> float:
    return float(torch.special.entr(logits[:, rows].double().softmax(2)).sum(2).mean(0).sum())


def test_choices_from_drawn_configurations_are_nearly_as_good() -> None:
    logits, before = drawn(4, (12, 40, 3)), torch.get_rng_state()
    copy = logits.clone()
    exact, sampled, again = (
        choose_classes_jointly(logits, 5, num_configurations=most, seed=1).tolist() for most in (10_000, 60, 60)
    )
    assert told(logits, sampled) > 0.97 * told(logits, exact)
    assert len(set(sampled)) == 5
    assert sampled == again
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(logits, copy)
    known = torch.zeros(3, 4, 2)  # there is still something to choose from
    assert sorted(choose_classes_jointly(known, 4).tolist()) == [0, 1, 2, 3]


def test_a_row_that_stands_there_twice_is_taken_once() -> None:
    logits = drawn(5, (20, 30, 3))
    logits[:, :10] = logits[:, 10:11] * 2
    score = torch.special.entr(logits.softmax(2).mean(0)).sum(1) - torch.special.entr(logits.softmax(2)).sum(2).mean(0)
    assert set(choose(score.clamp(min=0), 4).tolist()) <= set(range(10))
    assert sum(row < 10 for row in choose_classes_jointly(logits, 4).tolist()) == 1


def test_errors() -> None:
    logits = torch.zeros(5, 3, 2)
    for count in (0, 4):
        with pytest.raises(ValueError, match=f"`count` must be at least 1 and at most the 3 rows .*, got {count}"):
            choose_classes_jointly(logits, count)
    with pytest.raises(ValueError, match="`num_configurations` must be at least the 5 draws, got 4"):
        choose_classes_jointly(logits, 2, num_configurations=4)
    for wrong in (torch.zeros(5, 3), torch.full((2, 3, 2), torch.nan)):
        with pytest.raises(ValueError, match=r"`logits` must hold finite numbers, shape \(S, N, C\)"):
            choose_classes_jointly(wrong, 1)
