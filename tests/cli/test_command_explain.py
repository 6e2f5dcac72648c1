"""`gumdrop explain`."""

import pytest

from builders.browser import views


def test_explanations_are_told_shown_and_the_same_again(place, odd_rows, tmp_path, monkeypatch, shell) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["explain", place / "run", odd_rows, "--orders", "6", "--most", "3"]
    found = shell.told(*words)
    assert not list(tmp_path.iterdir())
    assert found["columns"] == ["sold", "size", "colour"]
    assert len(found["rows"]) == 3
    for row in found["rows"]:
        for part in ("explained", "epistemic"):
            shares = row[part]
            assert sum(shares["shares"]) == pytest.approx(shares["value"] - shares["usual"], abs=1e-4)
    assert shell.told(*words) == found
    said = shell.run(words, 0).out
    assert "Row 1: price" in said
    lines = said[said.index("Row 1") : said.index("Row 2")].splitlines()
    assert [line.split()[0] for line in lines if line.startswith((" usual row", " this row"))] == ["usual", "this"]
    assert max(map(len, said[said.index("Row 1") :].splitlines())) <= 80
    page = (tmp_path / "odd.explained.html").read_text()
    assert "violet" in page
    assert page.count("usual row (base value)") == page.count("<b>this row</b>") == 3
    shell.refused(*words)


def test_classes_are_explained_too(place, tmp_path, shell) -> None:
    words = ["explain", place / "classes", "--against", place / "houses.csv"]
    found = shell.told(*words, "--out", tmp_path / "page.html")
    assert found["rows"] == []
    assert found["background"] == {"rows": 120, "source": "houses.csv"}
    assert len(found["overall"]["epistemic"]) == 3
    assert "Overall" in (tmp_path / "page.html").read_text()


def test_rows_to_compare_with_are_read_with_the_decimal_mark_of_the_model(tmp_path, quick, shell) -> None:
    """By itself `1,234` may be a number with three decimals or one above a thousand."""
    rows = [f"{100 + i},{i % 7 + 1},{234 + i}" for i in range(40)]
    (tmp_path / "t.csv").write_text("y;size\n" + "\n".join(row.replace(",", ";", 1) for row in rows))
    table, run = tmp_path / "t.csv", tmp_path / "run"
    shell.said("fit", table, "--target", "y", "--decimal", ",", "--out", run, *quick)
    found = shell.told("explain", run, "--against", table, "--out", tmp_path / "page.html")
    assert found["background"] == {"rows": 40, "source": "t.csv"}


def test_a_model_without_kept_rows_says_so(place, odd_rows, tmp_path, shell) -> None:
    words = ["fit", "--config", place / "run" / "config.toml", "--background", "0", "--quiet"]
    shell.said(*words, "--out", tmp_path / "bare")
    assert "--against TABLE.csv" in shell.told("explain", tmp_path / "bare", odd_rows, status=2)["error"]


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_the_page_of_an_explanation_in_a_browser(browser, place, odd_rows, tmp_path, shell, folder) -> None:
    shell.said("explain", place / folder, odd_rows, "--orders", "3", "--out", tmp_path / "page.html")
    assert list(views(browser, (tmp_path / "page.html").as_uri()))
