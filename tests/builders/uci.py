"""A data set in the folders of the UCI splits."""

import numpy as np
from sklearn.datasets import load_diabetes


def write_set(folder, rows: int = 80, splits: int = 3) -> None:
    folder.mkdir(parents=True)
    x, y = load_diabetes(return_X_y=True)
    np.savetxt(folder / "data.txt", np.column_stack([x[:rows], y[:rows]]))
    np.savetxt(folder / "index_features.txt", range(10))
    np.savetxt(folder / "index_target.txt", [10])
    for k in range(splits):
        order = np.random.default_rng(k).permutation(rows)
        np.savetxt(folder / f"index_test_{k}.txt", order[:10])
        np.savetxt(folder / f"index_train_{k}.txt", order[10:])
