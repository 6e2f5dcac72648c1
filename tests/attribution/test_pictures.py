import shutil
import sys

import pytest
import torch
from torch import nn

from gumdrop.attribution import FIDOSettings, pictures
from gumdrop.attribution.pictures import Normalisation, explain_picture, load_classifier
from gumdrop.views.picture import draw_explanation

Image = pytest.importorskip("PIL.Image")


class Corner(nn.Module):
    """Knows a picture by the light in its upper left quarter."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        light = x[:, :, :8, :8].mean((1, 2, 3))
        return torch.stack([12 * light, 6 * torch.ones_like(light)], dim=1)


def make_corner() -> nn.Module:
    return Corner()


def not_a_model() -> int:
    return 3


@pytest.fixture
def folder(tmp_path, exported):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("corner")
    Image.new("RGB", (16, 16), (255, 255, 255)).save(place / "white.png")
    for name, sizes in (("corner", ({0: torch.export.Dim("n")},)), ("fixed", None)):
        program = torch.export.export(Corner().eval(), (torch.rand(2, 3, 16, 16),), dynamic_shapes=sizes)
        torch.export.save(program, place / f"{name}.pt2")
    (place / "bad.pt2").write_bytes(b"no program")
    return place


def test_a_picture_is_explained_from_two_files(folder, shell) -> None:
    words = ["explain-image", folder / "corner.pt2", folder / "white.png", "--infill", "zeros", "--quiet"]
    said = shell.said(*words)
    assert "Log-odds of class 0: 6.00;" in said
    assert "Box: rows 0 to 8, columns 0 to 8" in said
    with Image.open(folder / "white.explained.png") as figure:
        assert figure.width > 800


def test_a_model_is_found_by_its_name(folder, monkeypatch, shell) -> None:
    monkeypatch.setitem(sys.modules, "my_models", sys.modules[__name__])
    words = ["explain-image", "my_models:make_corner", str(folder / "white.png"), "--infill", "zeros"]
    words += ["--size", "20", "16", "--quiet"]
    assert "Log-odds of class 1: -6.00" in shell.said(
        *words, "--out", folder / "a.png", "--mask-size", "8", "--target", "1"
    )
    assert (folder / "a.png").is_file()


def test_each_option_of_the_command_arrives(folder, monkeypatch, shell) -> None:
    """Options of values that are no defaults; the search itself is not run."""
    got = {}

    def explained(*arguments, **options):
        got.update(options)
        raise ValueError("enough")

    monkeypatch.setattr(pictures, "explain_picture", explained)
    words = "--seed 7 --target 1 --infill mean --mask-size 3 --iterations 5 --size 20 16 --grey --mean .5 --std .2"
    names = folder / "corner.pt2", folder / "white.png", "--quiet"
    assert "enough" in shell.refused("explain-image", *names, *words.split())
    assert got == {
        "seed": 7, "target": 1, "infill": "mean", "mask_size": 3, "settings": FIDOSettings(iterations=5),
        "size": (20, 16), "grey": True, "normalisation": Normalisation((0.5,), (0.2,)), "device": "cpu",
        "show_progress": False,
    }  # fmt: skip


def test_the_shape_of_an_exported_model_is_known(folder) -> None:
    classifier = load_classifier(str(folder / "corner.pt2"))
    assert classifier.shape == (3, 16, 16)
    Image.new("L", (40, 30), 200).save(folder / "grey.png")
    found = explain_picture(
        classifier,
        folder / "grey.png",
        normalisation=Normalisation([0.5, 0.4, 0.3], [0.2]),
        settings=FIDOSettings(iterations=2),
        infill="zeros",
    )
    expected = (200 / 255 - torch.tensor([0.5, 0.4, 0.3])) / 0.2
    torch.testing.assert_close(found.inputs[0, :, 4, 5], expected)
    draw_explanation(found, folder / "b.png", normalisation=Normalisation([0.5, 0.4, 0.3], [0.2]))
    assert (folder / "b.png").is_file()


def test_an_exported_model_may_take_pictures_of_any_size(tmp_path) -> None:
    sizes = {0: torch.export.Dim("n"), 2: torch.export.Dim("height", min=9), 3: torch.export.Dim("width", min=9)}
    program = torch.export.export(Corner().eval(), (torch.rand(2, 3, 16, 20),), dynamic_shapes=(sizes,))
    torch.export.save(program, tmp_path / "any.pt2")
    classifier = load_classifier(str(tmp_path / "any.pt2"))
    assert classifier.shape is None
    x = torch.rand(2, 3, 11, 14)
    torch.testing.assert_close(classifier.forward(x), Corner()(x))


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("weights.pt", ValueError, "neither a file that ends in .pt2"),
        ("absent.pt2", ValueError, "absent.pt2 is not there"),
        ("no_such_module:thing", ValueError, "cannot be imported"),
        ("torch:no_such_thing", ValueError, "cannot be imported"),
        ("bad.pt2", ValueError, r"no program that torch\.export\.save wrote"),
        ("fixed.pt2", ValueError, "must take any number of rows"),
        ("my_models:not_a_model", TypeError, r"must be or make a torch\.nn\.Module, got a int"),
    ],
)
def test_what_is_no_model(folder, monkeypatch, shell, name, error, match) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "my_models", sys.modules[__name__])
    with pytest.raises(error, match=match):
        load_classifier(name)
    if name == "bad.pt2":
        assert "no program" in shell.refused("explain-image", name, "white.png")


def test_bad_normalisation() -> None:
    with pytest.raises(ValueError, match="`std` must be positive"):
        Normalisation([0.0], [0.0])
    with pytest.raises(ValueError, match="one for each of 3 channels, got 2"):
        Normalisation([0.1, 0.2])(torch.ones(3, 2, 2))
