"""The page of the small experiment."""

from gumdrop_experiments.pages.page import Figure, Page, Table


def page(results):
    sums = results["sums"]
    rows = [["sum", "3 & 30", *(str(value) for _, value in sums.values()), "a" * 90]]
    table = Table("Sums <by size>", ["what", "published", *sums, "and a long one"], rows, ours=[0], best=[(0, 2)])
    return Page("Sums", "They add up.", [Figure("tiny-sums", "Sums against size."), table], notes=["Short & sweet."])
