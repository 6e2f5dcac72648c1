"""The look of the axes of experiments."""

from matplotlib.axes import Axes


def dress(ax: Axes, *, title: str = "", x: str = "", y: str = "") -> Axes:
    """Give axes the look of the house."""
    ax.set_title(title, fontsize=10.5, loc="left")
    ax.set(**{name: label for name, label in (("xlabel", x), ("ylabel", y)) if label})
    ax.grid(alpha=0.15)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
