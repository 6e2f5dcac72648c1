"""Columns of more than a thousand words: the common ones are categories, and the others one more."""

import numpy as np
import pandas as pd
import pytest

from gumdrop.export import serving
from gumdrop.tables import TableError
from gumdrop.tables.notes import table_notes
from gumdrop.tables.schema.cells import OTHERS
from gumdrop.tables.schema.inference import infer_schema, with_statistics
from gumdrop.tables.schema.schema import TableSchema


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    often = np.repeat([f"street {i}" for i in range(5)], 200)
    rare = np.repeat([f"lane {i}" for i in range(1200)], 2)
    street = random.permutation(np.r_[often, rare])
    return pd.DataFrame({"street": street, "size": random.normal(size=3400), "price": random.normal(size=3400)})


def test_rare_words_count_as_one_and_that_is_said(frame) -> None:
    schema = infer_schema(frame, "price")
    street = schema.columns[0]
    assert street.categories == (*(f"street {i}" for i in range(5)), OTHERS)
    (note,) = [note for note in table_notes(frame, schema) if "'street'" in note]
    assert note.startswith("'street' has 1,205 different texts: the 5 commonest are categories")
    assert "in 70.6% of the rows, count as one" in note
    trained = with_statistics(schema, frame.iloc[:1500])
    assert trained.columns[0].categories == street.categories
    assert TableSchema.from_json(trained.to_json()) == trained


def test_a_word_that_nobody_has_seen_counts_as_rare(frame) -> None:
    schema = infer_schema(frame.assign(street=frame["street"].where(frame.index % 7 > 0)), "price")
    new = pd.DataFrame({"street": ["street 3", "lane 7", "avenue", None, " street 0"], "size": 0.0})
    encoded = schema.encode_inputs(new)
    assert schema.feature_names[5:7] == ["street=(others)", "street=(missing)"]
    assert encoded.x[:, :7].argmax(1).tolist() == [3, 5, 5, 6, 0]
    assert (encoded.x[:, :7].sum(1) == 1).all()
    assert encoded.unseen == {}
    assert encoded.missing == {"street": 1}
    places = [serving._place(schema.columns[0].categories, text) for text in ("street 3", "avenue", OTHERS)]
    assert places == [3, 5, 5]
    with pytest.raises(TableError, match="holds numbers, such as 1, where training had categories"):
        schema.encode_inputs(pd.DataFrame({"street": [1, 2], "size": 0.0}))


def test_words_that_hardly_repeat_are_set_aside(frame) -> None:
    for street in ([f"lane {i % 1400}" for i in range(3400)], [f"lane {i % 1800}" for i in range(3400)]):
        schema = infer_schema(frame.assign(street=street), "price")
        assert (schema.texts, "street" in schema.names) == (("street",), False)
    with pytest.raises(TableError, match="choose another target"):
        infer_schema(frame, "street")


def test_a_word_of_the_same_name_is_one_of_the_others(frame) -> None:
    named = frame.assign(street=frame["street"].replace("street 1", OTHERS))
    assert infer_schema(named, "price").columns[0].categories.count(OTHERS) == 1
