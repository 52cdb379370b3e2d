"""What a study says to a reader in a hurry: which row to use, and whether that is shown."""

from collections.abc import Iterator

from isotrope.evaluation.verdict import Verdict, Word
from isotrope.store.records import Record
from isotrope.study.columns import LOWER_IS_BETTER, RETRIEVAL, STS, means
from isotrope.study.statistics import ALPHA

JUDGES = {
    "sts": "the seven STS sets",
    "stsb": "STS-B alone",
    "stsb-dev": "STS-B's dev pairs, which may have selected too",
    "dev-half": "half of the study's own dev pairs",
    "none": "no test pairs",
    "dev": "dev pairs that have selected too",
}


def conclusion(record: Record) -> Verdict | None:
    """The row that scored best beside the baseline, as they are tested among the differences to the baseline.

    None if no other row of the baseline's model is measured. A row that is not trained is advised where none that is
    trained scored more, because it costs nothing.
    """
    column, baseline = record["column"], record["baseline"]
    sign = -1 if column in LOWER_IS_BETTER else 1
    tested = [one for one in record["differences"] if one["seeds"] and not one["same"]]
    if not tested:
        return None
    best = max(tested, key=lambda one: sign * one["seeds"]["mean"])
    label, found = best["row"], best["seeds"]
    scores = {row["label"]: means(row)[column][0] for row in record["rows"] if column in means(row)}
    gain, p = sign * found["mean"], found["p_holm"]
    word: Word = "no difference found"
    if p is None:
        word = "not tested"
    elif p <= ALPHA and gain:
        word = "better" if gain > 0 else "worse"
    seeds = "one seed" if found["n"] == 1 else f"{found['n']} seeds"
    corrected = "" if p is None else f" (p = {p:.2g} after correction for {len(tested)} rows)"
    judge = JUDGES.get(record["scale"]["test"] if column in (*STS, "Avg.") else column, column)
    low, high = (None if found[end] is None else found[end] / 100 for end in ("low", "high"))
    return Verdict(
        word, baseline, label, f"{judge} over {seeds}{corrected}", f"points ({column}) from {baseline} to {label}",
        (scores[baseline] / 100, scores[label] / 100), found["mean"] / 100, low, high, p,
        " ".join(_advice(record, label, word, gain)),
    )  # fmt: skip


def _advice(record: Record, label: str, word: Word, gain: float) -> Iterator[str]:
    """What to do, and what it says about search: sentences."""
    column, baseline = record["column"], record["baseline"]
    compared = {baseline, *(one["row"] for one in record["differences"])}
    rows = [row for row in record["rows"] if row["label"] in compared]
    if gain <= 0:
        yield f'Stay with "{baseline}": no row scored higher.'
    elif any(row["label"] == label and row["kind"] == "untrained" for row in rows):
        yield f'Use "{label}": it is not trained, and no trained row scored higher.'
    elif word == "better":
        yield f'Use "{label}".'
    else:
        yield f'Stay with "{baseline}": "{label}" is the highest of {len(rows)} rows, which may be chance.'
        yield "Run more seeds to see."
    found = {row["label"]: means(row)["nDCG Avg."][0] for row in rows if "nDCG Avg." in means(row)}
    if found and column != "nDCG Avg.":
        first = max(found, key=lambda name: found[name])
        yield f'In search, "{first}" is the highest, with {found[first]:.2f}.'
    elif column not in (*RETRIEVAL, "nDCG Avg."):
        yield "Search was not measured."
