"""Pictures of streets, in the layout of CamVid."""

import numpy as np
from PIL import Image

from gumdrop_experiments.data.camvid import VOID


def write_pictures(folder, counts, size=(40, 48)):
    """Grey pictures with a bright box of class 3 on class 0 and an edge without a class."""
    rng = np.random.default_rng(0)
    for part, count in counts.items():
        (folder / part).mkdir(parents=True)
        (folder / f"{part}annot").mkdir()
        lines = []
        for i in range(count):
            top, left = rng.integers(2, size[0] - 20), rng.integers(2, size[1] - 20)
            classes = np.zeros(size, dtype=np.uint8)
            classes[top : top + 16, left : left + 16] = 3
            picture = (60 + 120 * (classes == 3)[..., None] + rng.integers(0, 40, (*size, 3))).astype(np.uint8)
            classes[:2] = VOID
            Image.fromarray(picture).save(folder / part / f"{i}.png")
            Image.fromarray(classes).save(folder / f"{part}annot" / f"{i}.png")
            lines.append(f"/somewhere/else/{part}/{i}.png /somewhere/else/{part}annot/{i}.png")
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
