"""The figure of the small experiment."""

from matplotlib.figure import Figure


def figures(found):
    drawing = Figure(figsize=(7, 3))
    sums = found.results["sums"].values()
    drawing.subplots().plot([size for size, _ in sums], [value for _, value in sums], label=found.pictures)
    yield "tiny-sums", drawing
