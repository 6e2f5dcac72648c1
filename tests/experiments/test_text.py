"""Readers of words: SST-2, its trees, and the CMU dictionary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gumdrop_experiments.data.download import sha256_of
from gumdrop_experiments.data.texts import (
    CMUDICT,
    SST,
    Pronunciation,
    TextFileError,
    Vocabulary,
    part_of_word,
    read_cmudict,
    read_sst,
    read_sst_phrases,
)

TREE = "(3 (2 (2 A) (4 great)) (1 (2 film) (2 .)))\n(2 (2 So) (2 it))\n"


def written(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return tmp_path


def test_sentences_come_with_their_labels(tmp_path):
    found = read_sst(written(tmp_path, "stsa.binary.dev", "1 a fine film\n0 no .\n"), "dev")
    assert found.words == [["a", "fine", "film"], ["no", "."]]
    assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize("line", ["2 a film", "1", "", "fine film"])
def test_a_line_that_is_no_sentence_is_named(tmp_path, line):
    folder = written(tmp_path, "stsa.binary.dev", f"1 fine\n{line}\n")
    with pytest.raises(TextFileError, match=r"line 2 of .* is not 0 or 1 and a sentence"):
        read_sst(folder, "dev")


def test_phrases_are_the_nodes_that_are_not_neutral(tmp_path):
    found = read_sst_phrases(written(tmp_path, "trees/train.txt", TREE))
    labels = dict(zip([" ".join(words) for words in found.words], found.labels.tolist(), strict=True))
    assert labels == {"great": 1, "film .": 0, "a great film .": 1}


@pytest.mark.parametrize("line", ["(2 a", "2 a)", "words"])
def test_a_line_that_is_no_tree_is_named(tmp_path, line):
    with pytest.raises(TextFileError, match=r"line 1 of .* is no tree"):
        read_sst_phrases(written(tmp_path, "trees/train.txt", line + "\n"))


def test_pronunciations_with_and_without_stress(tmp_path):
    text = "read R EH1 D\nread(2) R IY1 D\nred R EH0 D # colour\nred(2) R EH1 D\n"
    folder = written(tmp_path, "cmudict.dict", text)
    assert read_cmudict(folder) == [
        Pronunciation("read", ("R", "EH", "D")),
        Pronunciation("read", ("R", "IY", "D")),
        Pronunciation("red", ("R", "EH", "D")),
    ]
    assert len(read_cmudict(folder, stress=True)) == 4
    with pytest.raises(TextFileError, match=r"line 2 of .* is not a word and its phones"):
        read_cmudict(written(tmp_path, "cmudict.dict", "a AH0\nalone\n"))


def test_words_keep_their_part_for_ever():
    assert [part_of_word(word) for word in ("gumdrop", "a1", "a16")] == ["train", "test", "validation"]
    parts = [part_of_word(f"word{i}") for i in range(4000)]
    for part, share in (("train", 0.9), ("validation", 0.05), ("test", 0.05)):
        assert parts.count(part) / len(parts) == pytest.approx(share, abs=0.015)


def test_vocabulary_numbers_frequent_words_first():
    vocabulary = Vocabulary([["b", "a"], ["b"], ["c", "b", "a"]], least=2)
    assert len(vocabulary) == 4
    assert vocabulary.encode([["b", "a", "c"], ["zzz"]]).tolist() == [[2, 3, 1], [1, 0, 0]]
    with pytest.raises(ValueError, match="`least` must be at least 1, got 0"):
        Vocabulary([["a"]], least=0)
    for empty in ([], [["a"], []]):
        with pytest.raises(ValueError, match="must hold at least one sentence, and each at least one word"):
            vocabulary.encode(empty)


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not (SHARED / "sst").is_dir(), reason="the SST files are not here")
def test_the_real_files_are_read_whole():
    parts = {part: read_sst(SHARED / "sst", part) for part in ("train", "dev", "test")}
    assert [len(part.words) for part in parts.values()] == [6920, 872, 1821]
    assert int(parts["train"].labels.sum()) == 3610
    phrases = {" ".join(words) for words in read_sst_phrases(SHARED / "sst").words}
    assert {" ".join(words) for words in parts["train"].words} <= phrases


@pytest.mark.skipif(not (SHARED / "g2p").is_dir(), reason="the CMU dictionary is not here")
def test_the_real_dictionary_is_read_whole():
    entries = read_cmudict(SHARED / "g2p", stress=True)
    assert len({entry.word for entry in entries}) == 126_052
    assert len({phone for entry in read_cmudict(SHARED / "g2p") for phone in entry.phones}) == 39
    assert torch.tensor([len(entry.phones) for entry in entries]).max() == 28


@pytest.mark.parametrize(("name", "files"), [("sst", SST), ("g2p", CMUDICT)])
def test_checksums_of_downloads_are_those_of_the_files(name, files):
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip("the data sets are not here")
    assert all(sha256_of(folder / file.name) == file.sha256 for file in files)
