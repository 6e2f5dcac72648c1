import gzip
import struct

import pytest
import torch

from gumdrop.attribution.pictures import ImageFileError, read_photograph
from gumdrop_experiments.data.mnist import read_idx, read_mnist

from builders.digits import idx


@pytest.fixture
def folder(tmp_path):
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", 5), ("t10k", 3)):
        images = torch.randint(0, 256, (count, 4, 6), generator=generator, dtype=torch.uint8)
        (tmp_path / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{split}-labels-idx1-ubyte").write_bytes(idx(torch.arange(count, dtype=torch.uint8)))
    return tmp_path


def test_values_and_shape_are_those_of_the_file(tmp_path) -> None:
    values = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(values)))
    assert torch.equal(read_idx(tmp_path / "a.gz"), values)


def test_images_lie_between_0_and_1_beside_their_labels(folder) -> None:
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    assert train.images.shape == (5, 1, 4, 6)
    assert test.labels.tolist() == [0, 1, 2]
    raw = read_idx(folder / "train-images-idx3-ubyte.gz")
    assert torch.equal((train.images[:, 0] * 255).round().to(torch.uint8), raw)
    assert train.images.dtype == torch.float32
    assert train.labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "does not begin like an IDX file"),
        (b"\x89PNG" + bytes(20), "does not begin like an IDX file"),
        (b"\0\0\x0d\x01" + struct.pack(">i", 3) + bytes(12), "does not begin like an IDX file"),
        (b"\0\0\x08\x03\0\0", "ends within its header"),
        (idx(torch.zeros(3, 2, dtype=torch.uint8))[:-1], r"states the shape \(3, 2\) but holds 5 bytes"),
        (idx(torch.zeros(3, 2, dtype=torch.uint8)) + b"x", "holds 7 bytes"),
        (idx(torch.zeros(3, 2, dtype=torch.uint8))[:12], "holds 0 bytes"),
        (b"\0\0\x08\x01" + struct.pack(">i", -3), "must be at least 1"),
        (b"\0\0\x08\x00", "must be at least 1"),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path, content, match) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ImageFileError, match=match):
        read_idx(tmp_path / "bad")


def test_a_cut_archive_is_an_error(tmp_path) -> None:
    (tmp_path / "bad.gz").write_bytes(gzip.compress(idx(torch.zeros(9, dtype=torch.uint8)))[:-9])
    with pytest.raises(ImageFileError, match="not a whole gzip file"):
        read_idx(tmp_path / "bad.gz")


def test_files_that_do_not_belong_together(folder) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(torch.zeros(4, dtype=torch.uint8)))
    with pytest.raises(ImageFileError, match=r"\(5, 4, 6\) and labels of shape \(4,\)"):
        read_mnist(folder)
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(ImageFileError, match=r"train-labels-idx1-ubyte\.gz is missing"):
        read_mnist(folder)


def test_a_photograph_has_its_colours_and_size(tmp_path) -> None:
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGB", (6, 4), (255, 0, 51)).save(tmp_path / "a.png")
    picture = read_photograph(tmp_path / "a.png")
    assert picture.shape == (3, 4, 6)
    torch.testing.assert_close(picture[:, 1, 2], torch.tensor([1.0, 0.0, 0.2]))
    assert read_photograph(tmp_path / "a.png", size=(2, 3), grey=True).shape == (1, 2, 3)
    (tmp_path / "b.png").write_bytes(b"no picture")
    with pytest.raises(ImageFileError, match="no picture that can be read"):
        read_photograph(tmp_path / "b.png")


def test_letters_and_clothes_come_in_files_of_the_same_kind(folder) -> None:
    for path in list(folder.iterdir()):
        path.rename(folder / f"emnist-letters-{path.name.replace('t10k', 'test')}")
    assert len(read_mnist(folder).images) == 5
    assert len(read_mnist(folder, train=False).images) == 3


def test_an_archive_beside_its_content_counts_once_and_two_sets_are_an_error(folder) -> None:
    archive = folder / "train-images-idx3-ubyte.gz"
    (folder / "train-images-idx3-ubyte").write_bytes(gzip.decompress(archive.read_bytes()))
    assert len(read_mnist(folder).images) == 5
    (folder / "letters-train-images-idx3-ubyte").write_bytes(b"")
    with pytest.raises(ImageFileError, match="holds several files of train images-idx3-ubyte"):
        read_mnist(folder)
