"""The record of carbon dioxide, in both of its spellings."""

import numpy as np
import pytest

from gumdrop_experiments.data.mauna_loa import MaunaLoaError, read_mauna_loa

COLLECTION = """Date,Decimal Date,Average,Interpolated,Trend,Number of Days
1958-11,1958.8740,313.33,315.20,-01,-9.99,-0.99
1958-12,1958.9562,314.67,315.43,-01,-9.99,-0.99
1959-01,1959.0411,315.58,315.55,-01,-9.99,-0.99
"""
NOAA = """# Data from March 1958 are monthly means.
# Please cite.
year,month,decimal date,average,deseasonalized,ndays,sdev,unc
1958,11,1958.8740,313.33,315.20,-1,-9.99,-0.99
1958,12,1958.9562,314.67,315.43,-1,-9.99,-0.99
1959,1,1959.0411,315.58,315.55,-1,-9.99,-0.99
"""


@pytest.mark.parametrize("text", [COLLECTION, NOAA])
def test_months_and_means(tmp_path, text) -> None:
    (tmp_path / "a.csv").write_text(text)
    months, ppm = read_mauna_loa(tmp_path / "a.csv")
    assert months.tolist() == np.array(["1958-11", "1958-12", "1959-01"], dtype="datetime64[M]").tolist()
    assert ppm.tolist() == [313.33, 314.67, 315.58]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "holds no months"),
        ("Date,Mean\n", "holds no months"),
        ("1958-03,1958.2,sorry\n", "is no month with a mean"),
        ("1958-13,1958.2,315.0\n", "is no month with a mean"),
        ("1958-03,1958.2\n", "is no month with a mean"),
        ("1958-03,1958.2,-99.99\n", r"-99\.99 in 1958-03 is no concentration"),
        ("1958-03,1958.2,315.7\n1958-05,1958.4,317.5\n", "goes from 1958-03 to 1958-05"),
        ("1958-03,1958.2,315.7\n1958-03,1958.2,315.7\n", "goes from 1958-03 to 1958-03"),
    ],
)
def test_a_file_that_is_no_record(tmp_path, text, match) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(MaunaLoaError, match=match):
        read_mauna_loa(tmp_path / "a.csv")
