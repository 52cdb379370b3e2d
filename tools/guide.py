"""The rows behind docs/guide.md, from the committed studies."""

from __future__ import annotations

from typing import Any

# what is compared, the row and the one it is held against
PAIRS = [
    ("train at all", "SimCSE", "Before training"),
    ("more text (three times as much, on MiniLM twice)", "simcse", "SimCSE"),
    ("no head", "Plain contrast", "SimCSE"),
    ("a guide that takes false negatives out", "Plain contrast, guided", "Plain contrast"),
    ("three views", "Dropout, three views", "SimCSE"),
    ("whiten, and do not train", "Before training, then whitening", "SimCSE"),
    ("train, then whiten", "SimCSE, then whitening", "SimCSE"),
    ("train, then whiten, against whitening alone", "SimCSE, then whitening", "Before training, then whitening"),
    ("a ranking teacher (ListNet)", "RankCSE-listNet", "SimCSE"),
    ("a ranking teacher (ListMLE)", "RankCSE-listMLE", "SimCSE"),
    ("a ranking teacher, then whiten", "RankCSE-listNet, then whitening", "SimCSE, then whitening"),
    (
        "a ranking teacher, then whiten, against whitening alone",
        "RankCSE-listNet, then whitening",
        "Before training, then whitening",
    ),
    ("no consistency", "RankCSE-listNet, no consistency", "RankCSE-listNet"),
    ("no contrast", "RankCSE-listNet, no contrast", "RankCSE-listNet"),
    ("noise negatives, instance weights", "DCLR", "SimCSE"),
    ("no ascent of the noise", "DCLR, no ascent", "DCLR"),
    ("whitening inside training, one pass", "WhitenedCSE", "SimCSE"),
    ("whitening inside training, a pass a view", "WhitenedCSE, a pass a view", "SimCSE"),
    ("no shuffling", "WhitenedCSE, a pass a view, unshuffled", "WhitenedCSE, a pass a view"),
    ("all three papers together", "All three", "SimCSE"),
]
FEW = [
    (f"{share} of the text", f"{row}, sentences = {at}", f"{row}, sentences = 1")
    for row in ("SimCSE", "DCLR", "RankCSE")
    for share, at in (("30 %", 0.3), ("10 %", 0.1), ("3 %", 0.03), ("1 %", 0.01), ("0.3 %", 0.003))
]
FEW += [
    (f"whiten with {share}, and do not train", f"Whitened, not trained, sentences = {at}", "Before training")
    for share, at in (("all of the text", 1), ("30 %", 0.3), ("10 %", 0.1), ("3 %", 0.03))
]
# what is compared; the studies in which, each with the column that judges
COMPARED = [(PAIRS, {"first": "Avg.", "first-minilm": "STS-B"}), (FEW, {"few": "Avg."})]


def differences(studies: dict[str, dict[str, Any]]) -> str:
    """Each comparison's difference in points, with its 95 % interval over seeds; what was not run is left out."""
    tables = []
    for pairs, judged in COMPARED:
        columns = {study: column for study, column in judged.items() if study in studies}
        lines = []
        for what, row, than in pairs:
            found = [difference(studies[study]["rows"], row, than, column) for study, column in columns.items()]
            if any(found):
                lines.append(f"| {what} | {row} − {than} | {' | '.join(one or '' for one in found)} |")
        if lines:
            names = [f"[{study}](results/studies/{study}/table.md), {column}" for study, column in columns.items()]
            head = [f"| what is compared | row − row | {' | '.join(names)} |", "|---|---|" + "--:|" * len(names)]
            tables.append("\n".join(head + lines))
    return "\n\n".join(tables) or "No such study is committed yet."


def difference(rows: list[dict[str, Any]], row: str, than: str, column: str) -> str | None:
    """The mean difference of two rows in points, with its 95 % interval over seeds; None if one has no scores."""
    from isotrope.study.statistics import paired_test

    scores = {one["label"]: one["scores"] for one in rows}
    first, second = ({seed: s[column] for seed, s in scores.get(label, {}).items()} for label in (row, than))
    if not first or not second:
        return None
    if len(second) == 1:  # a backbone or a teacher: one model, whatever the seed
        second = dict.fromkeys(first, next(iter(second.values())))
    elif len(first) == 1:
        first = dict.fromkeys(second, next(iter(first.values())))
    seeds = sorted(first.keys() & second.keys())
    found = paired_test([first[seed] for seed in seeds], [second[seed] for seed in seeds])
    interval = "" if found.low is None else f" ({found.low:+.2f} … {found.high:+.2f})"
    return f"{found.mean:+.2f}{interval}".replace("-", "−")
