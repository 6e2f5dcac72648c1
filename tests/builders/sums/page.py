"""The page of the small experiment."""

from gumdrop_experiments.pages.axes import subplots
from gumdrop_experiments.pages.page import Page, Picture, Table


def page(found):
    sums = found.results["sums"]
    rows = [["sum", "3 & 30", *(str(value) for _, value in sums.values()), "a" * 90]]
    table = Table("Sums <by size>", ["what", "published", *sums, "and a long one"], rows, ours=[0], best=[(0, 2)])
    drawing, axes = subplots(size=(7, 3))
    axes.plot([size for size, _ in sums.values()], [value for _, value in sums.values()], label=found.pictures)
    picture = Picture("tiny-sums", "Sums against size.", drawing)
    return Page("Sums", "They add up.", [picture, table], notes=["Short & sweet."])
