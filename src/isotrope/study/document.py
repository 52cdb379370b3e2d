"""A study's record as pages, in Markdown, LaTeX and HTML: which row to use, then tables with notes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from isotrope.evaluation.verdict import Verdict, Word
from isotrope.report.page import Page, PageFigure
from isotrope.report.tables import Table, best_marks, latex, markdown
from isotrope.store.files import Record, write_text, writing
from isotrope.study.columns import LOWER_IS_BETTER, RETRIEVAL, STS, means, shown
from isotrope.study.statistics import ALPHA

JUDGES = {
    "sts": "the seven STS sets",
    "stsb": "STS-B alone",
    "stsb-dev": "STS-B's dev pairs, which may have selected too",
    "dev-half": "half of the study's own dev pairs",
    "none": "no test pairs",
    "dev": "dev pairs that have selected too",
}
TEST_NOTE = """Over seeds: a t-test paired by seed, from three seeds on. Over pairs: a paired bootstrap of the test \
pairs, on the mean over the same seeds. All rows use the same resamples. It answers for the choice of test pairs only. \
All p values are corrected for the number of rows (Holm); intervals are not. A row that is not trained is one \
model: it is compared with every seed. "≤" stands before a p over pairs if no resample was on the other side, so that \
the number of resamples limits it. "Smallest detectable" is the smallest true difference that one test with so many \
seeds finds with a power of 0.8. "Seeds for 0.5 and 1" are those that true differences of so many points need, by the \
standard deviations of both rows as if they were independent. A difference that is not significant is open: it does \
not show that two rows are equal."""
CLAIM_NOTE = """A claim holds if the difference paired over seeds is significantly above 0. It does not hold if the \
difference is significantly below the margin (half a point, or 0 for shares, standard deviations and columns that are \
not points, unless the study sets it). Both are tested at 5 %, \
after Holm's correction over the claims. Otherwise it is open. Differences are signed so that a gain is \
positive. A teacher is one model: it is compared with every seed, and its own seed variance is not included. ln(s \
of a / s of b) compares standard deviations over seeds, by an F test of their ratio."""


def write_pages(record: Record, folder: Path) -> list[Path]:
    """Write ``table.md``, ``table.tex`` and ``table.html`` from what ``study.json`` holds -> their
    paths.
    """
    texts = study_pages(record, folder)
    with writing(folder):
        for name, text in texts.items():
            write_text(folder / name, text)
    return [folder / name for name in texts]


def study_pages(record: Record, folder: Path | None = None) -> dict[str, str]:
    """File name -> text, from what ``study.json`` holds. The HTML page holds the figures that lie
    in ``folder``.
    """
    failed = [
        [row["label"], seed, why] for row in record["rows"] for seed, why in row["failed"].items()
    ]
    found = score_table(record), _differences(record), claim_table(record)
    tables = [
        one for one in (*found, Table("Not finished", ["row", "seed", "why"], failed)) if one.rows
    ]
    figures: Mapping[str, str] = record["figures"]  # title -> file beside the pages
    drawings = {name: folder / file for name, file in figures.items()} if folder else {}
    drawn = [
        PageFigure(path.stem, name, path.read_text("utf-8")) for name, path in drawings.items()
    ]
    source = record["source"] and f"After {record['source']}."
    introduction = [text for text in (source, _scale(record), record["note"]) if text]
    verdict = conclusion(record)
    answer = [f"**{verdict.word}**: {verdict.evidence}.", verdict.advice] if verdict else []
    blocks = [
        f"# {record['title']}",
        *answer,
        *introduction,
        *(markdown([table]).strip() for table in tables),
    ]
    return {
        "table.md": "\n\n".join(
            [*blocks, *(f"![{name}]({file})" for name, file in figures.items())]
        )
        + "\n",
        "table.tex": latex(tables),
        "table.html": Page(
            record["title"], introduction, verdict, tables=tables, figures=drawn
        ).html(),
    }


def conclusion(record: Record) -> Verdict | None:
    """The row that scored best beside the baseline, as they are tested among the differences to the
    baseline.

    None if no other row of the baseline's model is measured. A row that is not trained is advised
    where none that is trained scored more, because it costs nothing.
    """
    column, baseline = record["column"], record["baseline"]
    sign = -1 if column in LOWER_IS_BETTER else 1
    tested = [one for one in record["differences"] if one["seeds"] and not one["same"]]
    if not tested:
        return None
    best = max(tested, key=lambda one: sign * one["seeds"]["mean"])
    label, found = best["row"], best["seeds"]
    scores = {
        row["label"]: means(row)[column][0] / 100 for row in record["rows"] if column in means(row)
    }
    gain, p = sign * found["mean"], found["p_holm"]
    word: Word = "not tested" if p is None else "no difference found"
    if p is not None and p <= ALPHA and gain:
        word = "better" if gain > 0 else "worse"
    judge = str(JUDGES.get(record["scale"]["test"] if column in (*STS, "Avg.") else column, column))
    judge += " over one seed" if found["n"] == 1 else f" over {found['n']} seeds"
    judge += "" if p is None else f" (p = {p:.2g} after correction for {len(tested)} rows)"
    low, high = (None if found[end] is None else found[end] / 100 for end in ("low", "high"))
    return Verdict(
        word,
        baseline,
        label,
        judge,
        f"points ({column}) from {baseline} to {label}",
        (scores[baseline], scores[label]),
        found["mean"] / 100,
        low,
        high,
        p,
        " ".join(_advice(record, label, word, gain)),
    )


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


def _scale(record: Record) -> str:
    scale = record["scale"]
    sentences = (
        f"{scale['sentences']:,} sentences" if scale["sentences"] else "all sentences of the corpus"
    )
    counts = {len(row["scores"]) for row in record["rows"] if row["kind"] == "row"} - {0} or {
        scale["seeds"]
    }
    few, many = min(counts), max(counts)
    seeds = f"{few} to {many} seeds" if few < many else "one seed" if many == 1 else f"{many} seeds"
    told = f"Backbone: {', '.join(scale['backbones'])}. Each run: {sentences}. Each row: {seeds}. Judged by "
    told += JUDGES[scale["test"]]
    told += (
        " (Avg. is its score)." if scale["test"] != "sts" and "Avg." in record["columns"] else "."
    )
    unfinished = scale["finished"] != scale["cells"]
    return told + (
        f" {scale['finished']} of {scale['cells']} cells are finished." if unfinished else ""
    )


def score_table(record: Record) -> Table:
    """Measured mean ± standard deviation of every row, and the published numbers."""
    columns, found = record["columns"], [means(row) for row in record["rows"]]
    marks = best_marks(
        [[own.get(column, (float("nan"),))[0] for own in found] for column in columns],
        [column in LOWER_IS_BETTER for column in columns],
        first=2,
    )
    rows: list[list[str]] = []
    places = list[int]()  # of the measured rows within the table
    for row, own in zip(record["rows"], found, strict=True):
        title = {"teacher": "teacher {}", "untrained": "{} (not trained)"}.get(
            row["kind"], "{}"
        ).format(row["label"])
        places.append(len(rows))
        rows.append(
            [
                title,
                str(len(row["scores"])),
                *(_number(c, *own[c]) if c in own else "" for c in columns),
            ]
        )
        if row["published"]:
            rows.append(_published("published", row, columns))
    rows += [
        _published(f"{label}, published", row, columns)
        for label, row in record["references"].items()
    ]
    marks = {(places[i], j): mark for (i, j), mark in marks.items()}
    notes = [
        "Mean ± standard deviation over n seeds. The best and the second best measured mean of a column are marked. "
        "Published numbers are below the row that repeats them. A row with published numbers alone was not run."
    ]
    if lower := [column for column in columns if column in LOWER_IS_BETTER]:
        notes.append(f"Lower is better for {', '.join(lower)}.")
    if spread := record["spread"]:
        about = f"{spread['n']} seeds, {record['column']}"
        notes.append(f"{record['baseline']}: standard deviation {spread['sd']:.2f} ({about}).")
    return Table("Scores", ["row", "n", *columns], rows, marks, notes=notes)


def _number(column: str, value: float, sd: float | None) -> str:
    return shown(column, value) + (f" ± {shown(column, sd)}" if sd is not None else "")


def _published(name: str, row: Record, columns: Sequence[str]) -> list[str]:
    printed, sd = row["published"], row["published_sd"]
    source = f" ({row['source']})" if row["source"] else ""
    return [
        name + source,
        "",
        *(_number(c, printed[c], sd.get(c)) if c in printed else "" for c in columns),
    ]


def _differences(record: Record) -> Table:
    rows = []
    for one in record["differences"]:
        if seeds := one["seeds"]:
            pairs = one["pairs"] or {}
            least = "" if seeds["detectable"] is None else f"{seeds['detectable']:.2f}"
            tested = [_interval(seeds), _p(seeds), _interval(pairs), _p(pairs)]
            needed = " / ".join(str(n or "> 1000") for n in (one["needed"] or {}).values())
            rows.append(
                [one["row"], str(seeds["n"]), _signed(seeds["mean"]), *tested, least, needed]
            )
    title = f"Differences to {record['baseline']} ({record['column']})"
    header = [
        "row",
        "n",
        "difference",
        "95 % over seeds",
        "p",
        "95 % over pairs",
        "p",
        "smallest detectable",
    ]
    header.append("seeds for 0.5 and 1")
    return Table(title, header, rows, notes=[TEST_NOTE])


def claim_table(record: Record) -> Table:
    """What the papers claim, what was measured, and the answer."""
    rows, left = [], []
    for one in record["claims"]:
        where = f"{one['text']} ({one['source']})" if one["source"] else one["text"]
        if not (seeds := one["seeds"]):
            left.append(where)
            continue
        than = f"{one['share']:g} × {one['than']}" if one.get("share") else one["than"]
        compared = (
            f"ln(s of {than} / s of {one['row']})"
            if one.get("spread")
            else f"{one['row']} − {than}"
        )
        sides = f"{compared} ({one['column']})"
        published = "" if one["published"] is None else _signed(one["published"])
        interval = f" ({_interval(seeds)})" if _interval(seeds) else ""
        answer = one["answer"] + (f": {one['why']}" if one["why"] else "")
        found = (
            "" if one.get("spread") and seeds["p"] is None else _signed(seeds["mean"]) + interval
        )
        rows.append([where, sides, published, found, _p(seeds), answer])
    header = ["claim", "difference", "published", "measured (95 % over seeds)", "p", "answer"]
    if not any(row[2] for row in rows):
        header, *rows = ([*cells[:2], *cells[3:]] for cells in (header, *rows))
    notes = [CLAIM_NOTE, *([f"Not measured here: {'; '.join(left)}."] if left else [])]
    return Table("Claims", header, rows, words=2, notes=notes)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _interval(found: Record) -> str:
    return "" if found.get("low") is None else f"{_signed(found['low'])} … {_signed(found['high'])}"


def _p(found: Record) -> str:
    p = found.get("p_holm")
    limited = "resamples" in found and found["p"] <= 2 / (found["resamples"] + 1)
    return "" if p is None else "< 0.001" if p < 0.001 else f"{'≤ ' if limited else ''}{p:.3f}"
