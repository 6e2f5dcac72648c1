"""What every command tells a machine: one JSON object."""


def test_every_command_writes_one_json_object(place, quick, odd_rows, tmp_path, shell) -> None:
    table, run = str(place / "houses.csv"), str(place / "run")
    fitted = shell.told("fit", table, "--target", "price", "--drop", "grade", "id", "--out", tmp_path / "new", *quick)
    assert fitted["task"] == "regression"
    assert fitted["stopped"] is None
    assert fitted["scores"][0]["values"]["RMSE"] > 0
    predicted = shell.told("predict", run, odd_rows, "--keep", "id")
    assert predicted["unseen"] == {"colour": {"violet": 1, "Red": 1}}
    assert predicted["missing"] == {"size": 1, "colour": 1}
    assert predicted["outside"] == {"size": 1}
    assert [row["unseen_cells"] for row in predicted["predictions"]] == [0, 1, 1, 0]
    assert [row["missing_cells"] for row in predicted["predictions"]] == [0, 1, 0, 1]
    assert [row["outside_cells"] for row in predicted["predictions"]] == [0, 0, 1, 0]
    assert [row["id"] for row in predicted["predictions"]] == ["H000", "H001", "H002", "H003"]
    info = shell.told("info", run)
    assert [column["kind"] for column in info["columns"]] == ["date", "number", "category"]
    assert info["target"] | {"mean": 0, "std": 0} == {
        "name": "price", "unit": "thousand euro", "task": "regression", "classes": [], "mean": 0, "std": 0,
    }  # fmt: skip
    assert info["background_rows"] == 96
    assert "holds no model.json" in shell.told("info", tmp_path, status=2)["error"]
