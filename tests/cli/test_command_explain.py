"""`gumdrop explain`."""

import json

import pytest

from gumdrop.cli import main

from builders.browser import views


def test_explanations_are_told_shown_and_the_same_again(place, odd_rows, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["explain", str(place / "run"), str(odd_rows), "--orders", "6", "--most", "3"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not list(tmp_path.iterdir())
    assert found["columns"] == ["sold", "size", "colour"]
    assert len(found["rows"]) == 3
    for row in found["rows"]:
        for part in ("explained", "epistemic"):
            shares = row[part]
            assert sum(shares["shares"]) == pytest.approx(shares["value"] - shares["usual"], abs=1e-4)
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Row 1: price" in said
    lines = said[said.index("Row 1") : said.index("Row 2")].splitlines()
    assert [line.split()[0] for line in lines if line.startswith((" usual row", " this row"))] == ["usual", "this"]
    assert max(map(len, said[said.index("Row 1") :].splitlines())) <= 80
    page = (tmp_path / "odd.explained.html").read_text()
    assert "violet" in page
    assert page.count("usual row (base value)") == page.count("<b>this row</b>") == 3
    assert main(words) == 2


def test_classes_are_explained_too(place, tmp_path, capsys) -> None:
    words = ["explain", str(place / "classes"), "--against", str(place / "houses.csv")]
    assert main([*words, "--json", "--out", str(tmp_path / "page.html")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == []
    assert found["background"] == {"rows": 120, "source": "houses.csv"}
    assert len(found["overall"]["epistemic"]) == 3
    assert "Overall" in (tmp_path / "page.html").read_text()


def test_rows_to_compare_with_are_read_with_the_decimal_mark_of_the_model(tmp_path, quick, capsys) -> None:
    """By itself `1,234` may be a number with three decimals or one above a thousand."""
    rows = [f"{100 + i},{i % 7 + 1},{234 + i}" for i in range(40)]
    (tmp_path / "t.csv").write_text("y;size\n" + "\n".join(row.replace(",", ";", 1) for row in rows))
    words = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--decimal", ",", "--out", str(tmp_path / "run"), *quick]
    assert main(words) == 0
    capsys.readouterr()
    explain = ["explain", str(tmp_path / "run"), "--against", str(tmp_path / "t.csv"), "--json"]
    assert main([*explain, "--out", str(tmp_path / "page.html")]) == 0
    assert json.loads(capsys.readouterr().out)["background"] == {"rows": 40, "source": "t.csv"}


def test_a_model_without_kept_rows_says_so(place, odd_rows, tmp_path, capsys) -> None:
    words = ["fit", "--config", str(place / "run" / "config.toml"), "--background", "0"]
    assert main([*words, "--out", str(tmp_path / "bare"), "--quiet"]) == 0
    assert main(["explain", str(tmp_path / "bare"), str(odd_rows), "--json"]) == 2
    assert "--against TABLE.csv" in json.loads(capsys.readouterr().out.splitlines()[-1])["error"]


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_the_page_of_an_explanation_in_a_browser(browser, place, odd_rows, tmp_path, folder) -> None:
    page = tmp_path / "page.html"
    words = ["explain", str(place / folder), str(odd_rows), "--orders", "3", "--out", str(page)]
    assert main(words) == 0
    assert list(views(browser, page.as_uri()))
