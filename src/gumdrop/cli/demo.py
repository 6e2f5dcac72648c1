"""``gumdrop demo``: fit, predict and report on a table that comes with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING

from gumdrop.cli.fit import fit
from gumdrop.cli.predict import predict
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.views.terminal import Voice

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "bp": "blood_pressure",
    "s1": "cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_to_hdl",
    "s5": "log_triglycerides",
    "s6": "blood_sugar",
    "target": "progression",
}


def patients() -> "pd.DataFrame":
    """Read ten measurements of 442 patients, and their `progression` (Efron et al. 2004, *Least Angle Regression*)."""
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame.rename(columns=COLUMNS)


def demo(*, out: Path = Path("demo")) -> int:
    """Fit, predict and report on real measurements: diabetes, a year after ten measurements of 442 patients.

    Args:
        out: Folder for the tables, the model, the predictions and the report; what is there from an
            earlier demo is replaced.

    Returns:
        Exit status.
    """
    from gumdrop.machine.files import replacing

    frame = patients()
    new = frame.sample(20, random_state=0)
    known = frame.drop(new.index)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / "diabetes.csv") as file:
        known.to_csv(file, index=False)
    with replacing(out / "new.csv") as file:
        new.drop(columns="progression").to_csv(file, index=False)
    Voice().say(f"{len(known)} patients with diabetes -> {out / 'diabetes.csv'}")
    model = out / "diabetes"
    settings = FitSettings(test_fraction=0.5)  # 211 rows: a tenth of them could not tell one model from another
    status = fit(out / "diabetes.csv", target="progression", out=model, settings=settings, overwrite=True)
    if not status:
        predict(model, out / "new.csv", out=out / "new.predictions.csv", overwrite=True)
    return status
