"""The rows behind docs/guide.md, from the committed studies."""

from __future__ import annotations

from typing import Any

# what is compared, the study, the row and the one it is held against, column
COMPARED = [
    ("train at all", "first", "SimCSE", "Before training", "Avg."),
    ("three times the text", "first", "simcse", "SimCSE", "Avg."),
    ("no head", "first", "Plain contrast", "SimCSE", "Avg."),
    ("whiten, and do not train", "first", "Before training, then whitening", "SimCSE", "Avg."),
    ("train, then whiten", "first", "SimCSE, then whitening", "SimCSE", "Avg."),
    ("train, then whiten, against whitening alone", "first", "SimCSE, then whitening",
     "Before training, then whitening", "Avg."),
    ("a ranking teacher (ListNet)", "first", "RankCSE-listNet", "SimCSE", "Avg."),
    ("a ranking teacher (ListMLE)", "first", "RankCSE-listMLE", "SimCSE", "Avg."),
    ("a ranking teacher, then whiten", "first", "RankCSE-listNet, then whitening", "SimCSE, then whitening", "Avg."),
    ("no consistency", "first", "RankCSE-listNet, no consistency", "RankCSE-listNet", "Avg."),
    ("no contrast", "first", "RankCSE-listNet, no contrast", "RankCSE-listNet", "Avg."),
    ("noise negatives, instance weights", "first", "DCLR", "SimCSE", "Avg."),
    ("no ascent of the noise", "first", "DCLR, no ascent", "DCLR", "Avg."),
    ("whitening inside training, one pass", "first", "WhitenedCSE", "SimCSE", "Avg."),
    ("whitening inside training, a pass a view", "first", "WhitenedCSE, a pass a view", "SimCSE", "Avg."),
    ("no shuffling", "first", "WhitenedCSE, a pass a view, unshuffled", "WhitenedCSE, a pass a view", "Avg."),
    ("all three papers together", "first", "All three", "SimCSE", "Avg."),
    ("train at all", "first-minilm", "SimCSE", "Before training", "STS-B"),
    ("a ranking teacher (ListNet)", "first-minilm", "RankCSE-listNet", "SimCSE", "STS-B"),
    ("noise negatives, instance weights", "first-minilm", "DCLR", "SimCSE", "STS-B"),
    ("whitening inside training, a pass a view", "first-minilm", "WhitenedCSE, a pass a view", "SimCSE", "STS-B"),
    ("whiten, and do not train", "first-minilm", "Before training, then whitening", "Before training", "STS-B"),
    ("train, then whiten", "first-minilm", "SimCSE, then whitening", "SimCSE", "STS-B"),
]  # fmt: skip


def differences(studies: dict[str, dict[str, Any]]) -> str:
    """Each comparison's difference in points, with its 95 % interval over seeds; what was not run is left out."""
    lines = ["| what | study | row − row | points (95 % over seeds) |", "|---|---|---|--:|"]
    for what, study, row, than, column in COMPARED:
        if study in studies and (found := _difference(studies[study]["rows"], row, than, column)):
            where = f"[{study}](results/studies/{study}/table.md)"
            lines.append(f"| {what} | {where} | {row} − {than} ({column}) | {found} |")
    return "\n".join(lines) if len(lines) > 2 else "No such study is committed yet."


def _difference(rows: list[dict[str, Any]], row: str, than: str, column: str) -> str | None:
    from isotrope.study.statistics import paired

    scores = {one["label"]: one["scores"] for one in rows}
    first, second = ({seed: s[column] for seed, s in scores.get(label, {}).items()} for label in (row, than))
    if not first or not second:
        return None
    if len(second) == 1:  # a backbone or a teacher: one model, whatever the seed
        second = dict.fromkeys(first, next(iter(second.values())))
    elif len(first) == 1:
        first = dict.fromkeys(second, next(iter(first.values())))
    seeds = sorted(first.keys() & second.keys())
    found = paired([first[seed] for seed in seeds], [second[seed] for seed in seeds])
    interval = "" if found.low is None else f" ({found.low:+.2f} … {found.high:+.2f})"
    return f"{found.mean:+.2f}{interval}"
