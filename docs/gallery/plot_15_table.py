"""
From a table to predictions
===========================

`fit_table` takes a data frame as it is: numbers, words, dates, missing cells. It splits, encodes, trains an ensemble
and scores it. `gumdrop fit` does the same for a file.
"""

# %%
# Ten measurements of 442 patients with diabetes, with one column made into words and some cells lost, as tables are.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from gumdrop.tables import FitSettings, fit_table

table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
table["sex"] = table["sex"].map({1.0: "one", 2.0: "two"})
table.loc[table.index % 7 == 3, "bmi"] = None
table = table.sample(frac=1, random_state=0, ignore_index=True)

# %%
# The last rows are kept as new ones. ``epochs=15`` is for haste: leave it out for a model to use.

model = fit_table(
    table[:-150], target="progression", settings=FitSettings(hidden=(32, 32), num_members=3, epochs=15, compare=False)
)
new = table[-150:].drop(columns="progression")
predictions = model.predict(new, coverage=0.9)
print(predictions[["prediction", "lower", "upper", "missing_cells"]].head().round(2))

# %%
# Each row has its own interval, and its uncertainty in two parts.

truth = table["progression"][-150:]
fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.6))
left.vlines(predictions["prediction"], predictions["lower"], predictions["upper"], color="C0", alpha=0.3)
left.plot(predictions["prediction"], truth, ".", color="0.2", markersize=4)
left.axline((150, 150), slope=1, color="0.6", linewidth=1)
left.set(xlabel="prediction", ylabel="after a year", title="90 % intervals")
noise, unknown = predictions["aleatoric_std"], predictions["epistemic_std"]
for cells, label in ((0, "all cells known"), (1, "a cell missing")):
    rows = predictions["missing_cells"] == cells
    right.plot(noise[rows], unknown[rows], "o", markersize=4, alpha=0.6, label=label)
right.set(xlabel="aleatoric standard deviation", ylabel="epistemic standard deviation")
right.legend()
plt.show()

inside = ((predictions["lower"] <= truth) & (truth <= predictions["upper"])).mean()
print(f"inside the 90 % interval: {inside:.0%} of 150 new rows")
