"""``gumdrop demo``: fit, predict and report on a table that comes with the package."""

from pathlib import Path

from gumdrop.cli.fit import fit
from gumdrop.cli.predict import predict
from gumdrop.tables.fitting.settings import FitSettings, Reading
from gumdrop.views.terminal import Voice

TABLE = Path(__file__).parent / "airfoil" / "airfoil.csv"
TEST_FRACTION = 0.68  # a thousand rows, so that the differences between models are not chance


def demo(*, out: Path = Path("demo")) -> int:
    """Fit, predict and report on real measurements: the noise of aircraft wings in a wind tunnel (Brooks et al. 1989).

    Args:
        out: Folder for the tables, the model, the predictions and the report; what is there from an
            earlier demo is replaced.

    Returns:
        Exit status.
    """
    import pandas as pd

    from gumdrop.machine.files import replacing

    frame = pd.read_csv(TABLE)
    new = frame.sample(20, random_state=0)
    known = frame.drop(new.index)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / "airfoil.csv") as file:
        known.to_csv(file, index=False)
    with replacing(out / "new.csv") as file:
        new.drop(columns="sound_level").to_csv(file, index=False)
    Voice().say(f"{len(known)} measurements of the noise of wings -> {out / 'airfoil.csv'}")
    model = out / "airfoil"
    reading, settings = Reading(unit="dB"), FitSettings(test_fraction=TEST_FRACTION)
    status = fit(
        out / "airfoil.csv", target="sound_level", out=model, reading=reading, settings=settings, overwrite=True
    )
    if not status:
        predict(model, out / "new.csv", out=out / "new.predictions.csv", overwrite=True)
    return status
