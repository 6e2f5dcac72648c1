"""``gumdrop demo``: fit, predict and report on a table that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path

from gumdrop.cli.fit import fit
from gumdrop.cli.predict import predict
from gumdrop.views.terminal import Voice

__all__ = ["demo"]


def demo(*, out: Path = Path("demo")) -> int:
    """Fit, predict and report on real patients: how far diabetes progressed in a year (Efron et al. 2004).

    Args:
        out: Folder for the tables, the model, the predictions and the report; what is there from an
            earlier demo is replaced.

    Returns:
        Exit status.
    """
    from sklearn.datasets import load_diabetes

    from gumdrop.machine.files import replacing

    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    frame["sex"] = frame["sex"].map({1.0: "one", 2.0: "two"})  # the source does not say which is which
    out.mkdir(parents=True, exist_ok=True)
    known, new = frame.iloc[:-20], frame.iloc[-20:].drop(columns="progression")
    with replacing(out / "diabetes.csv") as file:
        known.to_csv(file, index=False)
    with replacing(out / "new-patients.csv") as file:
        new.to_csv(file, index=False)
    Voice().say(f"{len(known)} patients, 10 measurements each -> {out / 'diabetes.csv'}")
    status = fit(out / "diabetes.csv", target="progression", out=out / "diabetes", overwrite=True)
    place = out / "new-patients.predictions.csv"
    return status or predict(out / "diabetes", out / "new-patients.csv", out=place, overwrite=True)
