"""A study's record as pages, in Markdown, LaTeX and HTML: which row to use, then tables with notes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from isotrope.evaluation.verdict import Verdict, Word
from isotrope.report.page import Page, PageFigure
from isotrope.report.tables import Marks, Table, best_marks, latex, markdown
from isotrope.store.files import Record, write_text, writing
from isotrope.study.columns import LOWER_IS_BETTER, RETRIEVAL, STS, Mean, means, shown
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
SCORE_NOTE = """Mean ± standard deviation over n seeds. The best and the second best measured mean of a column are \
marked. Published numbers are below the row that repeats them. A row with published numbers alone was not run."""
DIFFERENCE_HEADER = [
    "row",
    "n",
    "difference",
    "95 % over seeds",
    "p",
    "95 % over pairs",
    "p",
    "smallest detectable",
    "seeds for 0.5 and 1",
]
CLAIM_HEADER = [
    "claim",
    "difference",
    "published",
    "measured (95 % over seeds)",
    "p",
    "answer",
]


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
    tables = [score_table(record), difference_table(record), claim_table(record)]
    tables = [table for table in (*tables, _unfinished_table(record)) if table.rows]
    figures: Mapping[str, str] = record["figures"]  # title -> file beside the pages
    source = f"After {record['source']}." if record["source"] else ""
    introduction = [text for text in (source, _scale(record), record["note"]) if text]
    verdict = conclusion(record)
    page = Page(
        record["title"],
        introduction,
        verdict,
        tables=tables,
        figures=_page_figures(figures, folder) if folder else [],
    )
    answer = [f"**{verdict.word}**: {verdict.evidence}.", verdict.advice] if verdict else []
    blocks = [
        f"# {record['title']}",
        *answer,
        *introduction,
        *(markdown([table]).strip() for table in tables),
        *(f"![{name}]({file})" for name, file in figures.items()),
    ]
    return {
        "table.md": "\n\n".join(blocks) + "\n",
        "table.tex": latex(tables),
        "table.html": page.html(),
    }


def _page_figures(figures: Mapping[str, str], folder: Path) -> list[PageFigure]:
    paths = {name: folder / file for name, file in figures.items()}
    return [PageFigure(path.stem, name, path.read_text("utf-8")) for name, path in paths.items()]


def _unfinished_table(record: Record) -> Table:
    rows = [
        [row["label"], seed, why] for row in record["rows"] for seed, why in row["failed"].items()
    ]
    return Table("Not finished", ["row", "seed", "why"], rows)


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
    best = max(tested, key=lambda difference: sign * difference["seeds"]["mean"])
    label, seeds = best["row"], best["seeds"]
    gain = sign * seeds["mean"]
    word = _word(gain, seeds["p_holm"])
    rows = {row["label"]: means(row) for row in record["rows"]}
    return Verdict(
        word,
        baseline,
        label,
        _judge(record, seeds, len(tested)),
        f"points ({column}) from {baseline} to {label}",
        (rows[baseline][column].value / 100, rows[label][column].value / 100),
        seeds["mean"] / 100,
        None if seeds["low"] is None else seeds["low"] / 100,
        None if seeds["high"] is None else seeds["high"] / 100,
        seeds["p_holm"],
        " ".join(_advice(record, label, word, gain)),
    )


def _word(gain: float, p: float | None) -> Word:
    if p is None:
        return "not tested"
    if p > ALPHA or not gain:
        return "no difference found"
    return "better" if gain > 0 else "worse"


def _judge(record: Record, seeds: Record, compared: int) -> str:
    """What judged, over how many seeds, and the p value."""
    column = record["column"]
    judge = record["scale"]["test"] if column in (*STS, "Avg.") else column
    count = "one seed" if seeds["n"] == 1 else f"{seeds['n']} seeds"
    p = ""
    if seeds["p_holm"] is not None:
        p = f" (p = {seeds['p_holm']:.2g} after correction for {compared} rows)"
    return f"{JUDGES.get(judge, column)} over {count}{p}"


def _advice(record: Record, label: str, word: Word, gain: float) -> Iterator[str]:
    """What to do, and what it says about search: sentences."""
    column, baseline = record["column"], record["baseline"]
    compared = {baseline, *(difference["row"] for difference in record["differences"])}
    rows = [row for row in record["rows"] if row["label"] in compared]
    untrained = [row["label"] for row in rows if row["kind"] == "untrained"]
    if gain <= 0:
        yield f'Stay with "{baseline}": no row scored higher.'
    elif label in untrained:
        yield f'Use "{label}": it is not trained, and no trained row scored higher.'
    elif word == "better":
        yield f'Use "{label}".'
    else:
        chance = f'"{label}" is the highest of {len(rows)} rows, which may be chance'
        yield f'Stay with "{baseline}": {chance}.'
        yield "Run more seeds to see."

    search = {
        row["label"]: means(row)["nDCG Avg."].value for row in rows if "nDCG Avg." in means(row)
    }
    if search and column != "nDCG Avg.":
        first = max(search, key=lambda name: search[name])
        yield f'In search, "{first}" is the highest, with {search[first]:.2f}.'
    elif column not in (*RETRIEVAL, "nDCG Avg."):
        yield "Search was not measured."


def _scale(record: Record) -> str:
    """What was run: backbones, sentences, seeds, judges, and whether cells are missing."""
    scale = record["scale"]
    sentences = "all sentences of the corpus"
    if scale["sentences"]:
        sentences = f"{scale['sentences']:,} sentences"
    only = scale["test"] != "sts" and "Avg." in record["columns"]
    text = (
        f"Backbone: {', '.join(scale['backbones'])}. Each run: {sentences}. "
        f"Each row: {_seed_count(record)}. Judged by {JUDGES[scale['test']]}"
        f"{' (Avg. is its score)' if only else ''}."
    )
    if scale["finished"] != scale["cells"]:
        text += f" {scale['finished']} of {scale['cells']} cells are finished."
    return text


def _seed_count(record: Record) -> str:
    counts = {len(row["scores"]) for row in record["rows"] if row["kind"] == "row"} - {0}
    counts = counts or {record["scale"]["seeds"]}
    fewest, most = min(counts), max(counts)
    if fewest < most:
        return f"{fewest} to {most} seeds"
    return "one seed" if most == 1 else f"{most} seeds"


def score_table(record: Record) -> Table:
    """Measured mean ± standard deviation of every row, and the published numbers."""
    columns = record["columns"]
    rows: list[list[str]] = []
    places: list[int] = []  # of the measured rows within the table
    for row in record["rows"]:
        places.append(len(rows))
        rows.append(_measured_cells(row, columns))
        if row["published"]:
            rows.append(_published_cells("published", row, columns))
    for label, row in record["references"].items():
        rows.append(_published_cells(f"{label}, published", row, columns))

    marks = {(places[i], j): mark for (i, j), mark in _score_marks(record).items()}
    return Table("Scores", ["row", "n", *columns], rows, marks, notes=_score_notes(record))


def _score_marks(record: Record) -> Marks:
    """Marks for the best means: by the place among the measured rows, and that of the column."""
    row_means = [means(row) for row in record["rows"]]
    nothing = Mean(float("nan"), None)
    columns = record["columns"]
    return best_marks(
        [[measured.get(column, nothing).value for measured in row_means] for column in columns],
        [column in LOWER_IS_BETTER for column in columns],
        first=2,
    )


def _score_notes(record: Record) -> list[str]:
    notes = [SCORE_NOTE]
    if lower := [column for column in record["columns"] if column in LOWER_IS_BETTER]:
        notes.append(f"Lower is better for {', '.join(lower)}.")
    if spread := record["spread"]:
        about = f"{spread['n']} seeds, {record['column']}"
        notes.append(f"{record['baseline']}: standard deviation {spread['sd']:.2f} ({about}).")
    return notes


def _measured_cells(row: Record, columns: Sequence[str]) -> list[str]:
    titles = {"teacher": f"teacher {row['label']}", "untrained": f"{row['label']} (not trained)"}
    measured = means(row)
    numbers = [
        _number(column, *measured[column]) if column in measured else "" for column in columns
    ]
    return [titles.get(row["kind"], str(row["label"])), str(len(row["scores"])), *numbers]


def _published_cells(name: str, row: Record, columns: Sequence[str]) -> list[str]:
    printed, sd = row["published"], row["published_sd"]
    words = "; ".join(filter(None, [row["source"], row.get("differs", "")]))
    numbers = [
        _number(column, printed[column], sd.get(column)) if column in printed else ""
        for column in columns
    ]
    return [f"{name} ({words})" if words else name, "", *numbers]


def _number(column: str, value: float, sd: float | None) -> str:
    return shown(column, value) + (f" ± {shown(column, sd)}" if sd is not None else "")


def difference_table(record: Record) -> Table:
    """Each row against the baseline, over seeds and over pairs."""
    title = f"Differences to {record['baseline']} ({record['column']})"
    rows = [_difference_cells(one) for one in record["differences"] if one["seeds"]]
    return Table(title, DIFFERENCE_HEADER, rows, notes=[TEST_NOTE])


def _difference_cells(difference: Record) -> list[str]:
    seeds, pairs = difference["seeds"], difference["pairs"] or {}
    detectable = "" if seeds["detectable"] is None else f"{seeds['detectable']:.2f}"
    needed = (difference["needed"] or {}).values()
    return [
        difference["row"],
        str(seeds["n"]),
        _signed(seeds["mean"]),
        _interval(seeds),
        _p(seeds),
        _interval(pairs),
        _p(pairs),
        detectable,
        " / ".join(str(count or "> 1000") for count in needed),
    ]


def claim_table(record: Record) -> Table:
    """What the papers claim, what was measured, and the answer."""
    claims = record["claims"]
    rows = [_claim_cells(record, claim) for claim in claims if claim["seeds"]]
    header = CLAIM_HEADER
    if not any(claim["published"] is not None for claim in claims if claim["seeds"]):
        header = [*CLAIM_HEADER[:2], *CLAIM_HEADER[3:]]
        rows = [[*cells[:2], *cells[3:]] for cells in rows]
    notes = [CLAIM_NOTE]
    if not_measured := [_claim_text(record, claim) for claim in claims if not claim["seeds"]]:
        notes.append(f"Not measured here: {'; '.join(not_measured)}.")
    return Table("Claims", header, rows, words=2, notes=notes)


def _claim_text(record: Record, claim: Record) -> str:
    """What a paper says, where, and what is different behind the numbers of its rows."""
    text = f"{claim['text']} ({claim['source']})" if claim["source"] else str(claim["text"])
    for row in record["rows"]:
        if row["label"] in (claim["row"], claim["than"]) and row.get("differs"):
            text += f"; published {row['label']}: {row['differs']}"
    return text


def _claim_cells(record: Record, claim: Record) -> list[str]:
    seeds = claim["seeds"]
    than = f"{claim['share']:g} × {claim['than']}" if claim.get("share") else claim["than"]
    compared = f"{claim['row']} − {than}"
    if claim.get("spread"):
        compared = f"ln(s of {than} / s of {claim['row']})"
    measured = _signed(seeds["mean"])
    if _interval(seeds):
        measured += f" ({_interval(seeds)})"
    if claim.get("spread") and seeds["p"] is None:
        measured = ""
    return [
        _claim_text(record, claim),
        f"{compared} ({claim['column']})",
        "" if claim["published"] is None else _signed(claim["published"]),
        measured,
        _p(seeds),
        f"{claim['answer']}: {claim['why']}" if claim["why"] else claim["answer"],
    ]


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _interval(test: Record) -> str:
    return "" if test.get("low") is None else f"{_signed(test['low'])} … {_signed(test['high'])}"


def _p(test: Record) -> str:
    """The p value after correction; "≤" if the number of resamples limits it."""
    p = test.get("p_holm")
    if p is None:
        return ""
    if p < 0.001:
        return "< 0.001"
    limited = "resamples" in test and test["p"] <= 2 / (test["resamples"] + 1)
    return f"≤ {p:.3f}" if limited else f"{p:.3f}"
