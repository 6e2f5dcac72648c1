"""A made-up set of film reviews in the files of SST-2."""

GOOD, BAD = ["fine", "great", "warm"], ["dull", "bad", "cold"]


def write_reviews(folder):
    """Write sentences whose second word says it all, and two trees, into `folder`."""
    (folder / "trees").mkdir(parents=True)
    for part, count in (("train", 60), ("dev", 20), ("test", 20)):
        lines = [f"{i % 2} a {[BAD, GOOD][i % 2][i % 3]} film number n{i}" for i in range(count)]
        (folder / f"stsa.binary.{part}").write_text("\n".join(lines) + "\n")
    (folder / "trees" / "train.txt").write_text("(3 (2 a) (3 (3 great) (2 film)))\n(1 (1 dull) (2 film))\n")
