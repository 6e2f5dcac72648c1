"""
From a table to predictions
===========================

`fit_table` takes a data frame as it is: numbers, words, dates, missing cells. It splits, encodes, trains an ensemble
and scores it. `gumdrop fit` does the same for a file.
"""

# %%
# The airfoil table, with one column made into words and some cells lost, as tables are.

from importlib.resources import files

import matplotlib.pyplot as plt
import pandas as pd

from gumdrop.tables import FitSettings, fit_table

table = pd.read_csv(files("gumdrop.cli") / "airfoil" / "airfoil.csv")
table["chord_m"] = table["chord_m"].map("{:.3f} m".format)
table.loc[table.index % 17 == 3, "thickness_m"] = None
table = table.sample(frac=1, random_state=0, ignore_index=True)

# %%
# The last rows are kept as new ones. ``epochs=15`` is for haste: leave it out for a model to use.

model = fit_table(
    table[:-200], target="sound_level", settings=FitSettings(hidden=(32, 32), num_members=3, epochs=15, compare=False)
)
new = table[-200:].drop(columns="sound_level")
predictions = model.predict(new, coverage=0.9)
print(predictions[["prediction", "lower", "upper", "missing_cells"]].head().round(2))

# %%
# Each row has its own interval, and its uncertainty in two parts.

truth = table["sound_level"][-200:]
fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.6))
left.vlines(predictions["prediction"], predictions["lower"], predictions["upper"], color="C0", alpha=0.3)
left.plot(predictions["prediction"], truth, ".", color="0.2", markersize=4)
left.axline((120, 120), slope=1, color="0.6", linewidth=1)
left.set(xlabel="prediction, dB", ylabel="measured, dB", title="90 % intervals")
noise, unknown = predictions["aleatoric_std"], predictions["epistemic_std"]
for cells, label in ((0, "all cells known"), (1, "a cell missing")):
    rows = predictions["missing_cells"] == cells
    right.plot(noise[rows], unknown[rows], "o", markersize=4, alpha=0.6, label=label)
right.set(xlabel="aleatoric standard deviation, dB", ylabel="epistemic standard deviation, dB")
right.legend()
plt.show()

inside = ((predictions["lower"] <= truth) & (truth <= predictions["upper"])).mean()
print(f"inside the 90 % interval: {inside:.0%} of 200 new rows")
