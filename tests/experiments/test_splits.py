import numpy as np
import pytest
import torch

from gumdrop_experiments.data.uci import read_splits


@pytest.fixture
def folder(tmp_path):
    data = np.random.default_rng(0).normal([3, -1, 0.1, 100], [2, 1, 0, 5], size=(12, 4))
    np.savetxt(tmp_path / "data.txt", data)
    np.savetxt(tmp_path / "index_features.txt", [0, 2, 1])
    np.savetxt(tmp_path / "index_target.txt", [3])
    for k, test in enumerate([[0, 5], [1, 2]]):
        np.savetxt(tmp_path / f"index_test_{k}.txt", test)
        np.savetxt(tmp_path / f"index_train_{k}.txt", [i for i in range(12) if i not in test])
    return tmp_path


def test_splits_are_standardised_by_their_training_part(folder) -> None:
    data = np.loadtxt(folder / "data.txt")
    splits = read_splits(folder)
    assert len(splits) == 2
    train = [i for i in range(12) if i not in (1, 2)]
    mean, std = data[train].mean(0), data[train].std(0)
    second = splits[1]
    np.testing.assert_allclose(second.x_test[:, 0], (data[[1, 2], 0] - mean[0]) / std[0], rtol=1e-5)
    np.testing.assert_allclose(second.x_train[:, 2], (data[train, 1] - mean[1]) / std[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(second.y_test * second.y_std + second.y_mean, data[[1, 2], 3:], rtol=1e-5)
    assert second.y_train.shape == (10, 1)
    assert second.x_train[:, 1].abs().max() < 1e-6, "a column that does not vary"
    assert len(read_splits(folder, most=1)) == 1


def test_a_part_of_a_split_holds_training_rows_alone(folder) -> None:
    (split, _) = read_splits(folder)
    part = split.part(torch.tensor([0, 1, 2]), torch.tensor([9]))
    assert torch.equal(part.x_test, split.x_train[[9]])
    assert torch.equal(part.y_train, split.y_train[:3])
    assert (part.y_mean, part.y_std) == (split.y_mean, split.y_std)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("data.txt", "1 2 3 4\n5 6", "must hold rows of numbers of one length"),
        ("data.txt", "1 2 nan 4", "must hold finite numbers, got NaN or infinity"),
        ("index_train_1.txt", "0\n12", r"index_train_1.txt must hold row numbers from 0 to 11, each once, got 12"),
        ("index_train_1.txt", "0\n0.5", "each once, got 0.5"),
        ("index_train_1.txt", "0\n0", "each once, got a number twice"),
        ("index_test_0.txt", "0\n3", r"index_test_0.txt names row 3, and so does index_train_0.txt"),
        ("index_target.txt", "0", "must name one column that is no feature, got"),
        ("index_features.txt", "0\n4", "must hold column numbers from 0 to 3"),
    ],
)
def test_files_that_do_not_fit_are_named(folder, file, text, words) -> None:
    (folder / file).write_text(text)
    with pytest.raises(ValueError, match=words):
        read_splits(folder)


@pytest.mark.parametrize("file", ["data.txt", "index_test_1.txt", "index_train_0.txt", "index_target.txt"])
def test_a_missing_file_is_named(folder, file) -> None:
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"lacks the file {file}"):
        read_splits(folder)
