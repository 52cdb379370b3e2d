"""A study's record as pages, in Markdown and HTML: which row to use, then tables with notes."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from isotrope.evaluation.verdict import Verdict, Word
from isotrope.report.page import Page, PageFigure
from isotrope.report.tables import Marks, Table, best_marks, markdown
from isotrope.store.files import write_text, writing
from isotrope.study.columns import LOWER_IS_BETTER, RETRIEVAL, STS, shown
from isotrope.study.record import (
    AnsweredClaim,
    PairTest,
    Published,
    StudyRecord,
    StudyRow,
)
from isotrope.study.statistics import ALPHA, PairedTest

JUDGES = {
    "sts": "the seven STS sets",
    "stsb": "STS-B alone",
    "stsb-dev": "STS-B's dev pairs, which may have selected too",
    "dev-half": "half of the study's own dev pairs",
    "none": "no test pairs",
    "dev": "dev pairs that have selected too",
}
TEST_NOTE = (
    "Over seeds: a t-test paired by seed, from three seeds on. Over pairs: a paired bootstrap of "
    "the test pairs, on the mean over the same seeds. All rows use the same resamples. It answers "
    "for the choice of test pairs only. All p values are corrected for the number of rows (Holm); "
    "intervals are not. A row that is not trained is one model: it is compared with every seed. "
    '"≤" stands before a p over pairs if no resample was on the other side, so that the number of '
    'resamples limits it. "Smallest detectable" is the smallest true difference that one test '
    'with so many seeds finds with a power of 0.8. "Seeds for 0.5 and 1" are those that true '
    "differences of so many points need, by the standard deviations of both rows as if they were "
    "independent. A difference that is not significant is open: it does not show that two rows "
    "are equal."
)
CLAIM_NOTE = (
    "A claim holds if the difference paired over seeds is significantly above 0. It does not hold "
    "if the difference is significantly below the margin (half a point, or 0 for shares, standard "
    "deviations and columns that are not points, unless the study sets it). Both are tested at 5 "
    "%, after Holm's correction over the claims. Otherwise it is open. Differences are signed so "
    "that a gain is positive. A teacher is one model: it is compared with every seed, and its own "
    "seed variance is not included. ln(s of a / s of b) compares standard deviations over seeds, "
    "by an F test of their ratio."
)
SCORE_NOTE = (
    "Mean ± standard deviation over n seeds. The best and the second best measured mean of a "
    "column are marked. Published numbers are below the row that repeats them. A row with "
    "published numbers alone was not run."
)
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
SEARCH = "nDCG Avg."
CLAIM_HEADER = [
    "claim",
    "difference",
    "published",
    "measured (95 % over seeds)",
    "p",
    "answer",
]


def write_pages(record: StudyRecord, folder: Path) -> list[Path]:
    """Write ``table.md`` and ``table.html`` from what ``study.json`` holds -> their paths."""
    texts = study_pages(record, folder)
    with writing(folder):
        for name, text in texts.items():
            write_text(folder / name, text)
    return [folder / name for name in texts]


def study_pages(record: StudyRecord, folder: Path | None = None) -> dict[str, str]:
    """File name -> text, from what ``study.json`` holds. The HTML page holds the figures that lie
    in ``folder``.
    """
    tables = [
        score_table(record),
        difference_table(record),
        claim_table(record),
        _unfinished_table(record),
    ]
    tables = [table for table in tables if table.rows]
    verdict = conclusion(record)
    source = f"After {record.source}." if record.source else ""
    introduction = [text for text in (source, _scale(record), record.note) if text]

    blocks = [f"# {record.title}"]
    if verdict:
        blocks += [f"**{verdict.word}**: {verdict.evidence}.", verdict.advice]
    blocks += introduction
    blocks.append(markdown(tables).strip())
    figures = []
    for name, file in record.figures.items():
        blocks.append(f"![{name}]({file})")
        if folder:
            path = folder / file
            figures.append(PageFigure(path.stem, name, path.read_text("utf-8")))
    page = Page(record.title, introduction, verdict, tables, figures)
    return {
        "table.md": "\n\n".join(blocks) + "\n",
        "table.html": page.html(),
    }


def _unfinished_table(record: StudyRecord) -> Table:
    rows = []
    for row in record.rows:
        for seed, why in row.failed.items():
            rows.append([row.label, str(seed), why])
    return Table("Not finished", ["row", "seed", "why"], rows)


def conclusion(record: StudyRecord) -> Verdict | None:
    """The row that scored best, compared with the baseline. Its p-value is corrected for all
    differences to the baseline.

    None if no other row of the baseline's model is measured.
    """
    column = record.column
    sign = -1 if column in LOWER_IS_BETTER else 1
    tested = {}
    for difference in record.differences:
        if difference.seeds and not difference.same:
            tested[difference.row] = difference.seeds
    if not tested:
        return None

    best = max(tested, key=lambda label: sign * tested[label].mean)
    test = tested[best]
    gain = sign * test.mean
    word = _word(gain, test.p_holm)
    return Verdict(
        word,
        before=record.baseline,
        after=best,
        judge=_judge(record, test, len(tested)),
        measure=f"points ({column}) from {record.baseline} to {best}",
        scores=(_fraction(record, record.baseline), _fraction(record, best)),
        difference=test.mean / 100,
        low=test.low and test.low / 100,
        high=test.high and test.high / 100,
        p=test.p_holm,
        advice=" ".join(_advice(record, best, word, gain)),
    )


def _fraction(record: StudyRecord, label: str) -> float:
    """A row's mean in the tested column, as a fraction."""
    mean = record.row(label).mean(record.column)
    assert mean is not None  # it is tested
    return mean.value / 100


def _word(gain: float, p: float | None) -> Word:
    if p is None:
        return "not tested"
    if p > ALPHA or not gain:
        return "no difference found"
    return "better" if gain > 0 else "worse"


def _judge(record: StudyRecord, test: PairedTest, row_count: int) -> str:
    """What judged, over how many seeds, and the p value."""
    column = record.column
    judge = record.scale.test if column in (*STS, "Avg.") else column
    text = f"{JUDGES.get(judge, column)} over {_seeds(test.n)}"
    if test.p_holm is not None:
        text += f" (p = {test.p_holm:.2g} after correction for {row_count} rows)"
    return text


def _advice(record: StudyRecord, label: str, word: Word, gain: float) -> Iterator[str]:
    """What to do, and what it says about search: sentences."""
    compared = [difference.row for difference in record.differences]
    compared.append(record.baseline)
    rows = [row for row in record.rows if row.label in compared]
    if gain <= 0:
        yield f'Stay with "{record.baseline}": no row scored higher.'
    elif record.row(label).kind == "untrained":
        yield f'Use "{label}": it is not trained, and no trained row scored higher.'
    elif word == "better":
        yield f'Use "{label}".'
    else:
        chance = f'"{label}" is the highest of {len(rows)} rows, which may be chance'
        yield f'Stay with "{record.baseline}": {chance}.'
        yield "Run more seeds to see."

    search = {}
    for row in rows:
        if mean := row.mean(SEARCH):
            search[row.label] = mean.value
    if search and record.column != SEARCH:
        highest = max(search, key=lambda label: search[label])
        yield f'In search, "{highest}" is the highest, with {search[highest]:.2f}.'
    elif record.column not in (*RETRIEVAL, SEARCH):
        yield "Search was not measured."


def _scale(record: StudyRecord) -> str:
    """What was run: backbones, sentences, seeds, judges, and whether cells are missing."""
    scale = record.scale
    sentences = "all sentences of the corpus"
    if scale.sentences:
        sentences = f"{scale.sentences:,} sentences"
    judges = JUDGES[scale.test]
    if scale.test != "sts" and "Avg." in record.columns:
        judges += " (Avg. is its score)"
    backbones = ", ".join(scale.backbones)
    text = (
        f"Backbone: {backbones}. Each run: {sentences}. "
        f"Each row: {_seed_count(record)}. Judged by {judges}."
    )
    if scale.finished != scale.cells:
        text += f" {scale.finished} of {scale.cells} cells are finished."
    return text


def _seed_count(record: StudyRecord) -> str:
    trained = [row for row in record.rows if row.kind == "row" and row.scores]
    counts = {len(row.scores) for row in trained} or {record.scale.seeds}
    largest = max(counts)
    if len(counts) > 1:
        return f"{min(counts)} to {largest} seeds"
    return _seeds(largest)


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def score_table(record: StudyRecord) -> Table:
    """Measured mean ± standard deviation of every row, and the published numbers."""
    columns = record.columns
    rows: list[list[str]] = []
    places = []  # of the measured rows within the table
    for row in record.rows:
        places.append(len(rows))
        rows.append(_measured_cells(row, columns))
        if row.published:
            rows.append(_published_cells("published", row, columns))
    for label, reference in record.references.items():
        rows.append(_published_cells(f"{label}, published", reference, columns))

    marks = {}
    for (i, j), mark in _score_marks(record).items():
        marks[places[i], j] = mark
    header = ["row", "n", *columns]
    return Table("Scores", header, rows, marks, notes=_score_notes(record))


def _score_marks(record: StudyRecord) -> Marks:
    """Marks for the best means: by the place among the measured rows, and that of the column."""
    values = []
    for column in record.columns:
        means = [row.mean(column) for row in record.rows]
        values.append([mean.value if mean else math.nan for mean in means])
    lower = [column in LOWER_IS_BETTER for column in record.columns]
    return best_marks(values, lower, first=2)


def _score_notes(record: StudyRecord) -> list[str]:
    notes = [SCORE_NOTE]
    lower = [column for column in record.columns if column in LOWER_IS_BETTER]
    if lower:
        notes.append(f"Lower is better for {', '.join(lower)}.")
    spread = record.spread
    if spread:
        seeds = f"{spread.n} seeds, {record.column}"
        notes.append(f"{record.baseline}: standard deviation {spread.sd:.2f} ({seeds}).")
    return notes


def _measured_cells(row: StudyRow, columns: Sequence[str]) -> list[str]:
    title = row.label
    if row.kind == "teacher":
        title = f"teacher {title}"
    elif row.kind == "untrained":
        title = f"{title} (not trained)"
    cells = [title, str(len(row.scores))]
    for column in columns:
        mean = row.mean(column)
        number = _number(column, mean.value, mean.sd) if mean else ""
        cells.append(number)
    return cells


def _published_cells(name: str, printed: Published, columns: Sequence[str]) -> list[str]:
    words = "; ".join(filter(None, [printed.source, printed.differs]))
    if words:
        name += f" ({words})"
    cells = [name, ""]
    for column in columns:
        value = printed.published.get(column)
        sd = printed.published_sd.get(column)
        number = "" if value is None else _number(column, value, sd)
        cells.append(number)
    return cells


def _number(column: str, value: float, sd: float | None) -> str:
    number = shown(column, value)
    if sd is not None:
        number += f" ± {shown(column, sd)}"
    return number


def difference_table(record: StudyRecord) -> Table:
    """Each row against the baseline, over seeds and over pairs."""
    rows = []
    for difference in record.differences:
        test = difference.seeds
        if test is None:
            continue
        needed = difference.needed or {}
        cells = [
            difference.row,
            str(test.n),
            _signed(test.mean),
            _interval(test),
            _p(test.p_holm),
            _interval(difference.pairs),
            _p_over_pairs(difference.pairs),
            "" if test.detectable is None else f"{test.detectable:.2f}",
            " / ".join(str(count or "> 1000") for count in needed.values()),
        ]
        rows.append(cells)
    title = f"Differences to {record.baseline} ({record.column})"
    return Table(title, DIFFERENCE_HEADER, rows, notes=[TEST_NOTE])


def claim_table(record: StudyRecord) -> Table:
    """What the papers claim, what was measured, and the answer."""
    measured = [claim for claim in record.claims if claim.seeds]
    rows = [_claim_cells(record, claim) for claim in measured]
    header = [*CLAIM_HEADER]
    if all(claim.published is None for claim in measured):
        for cells in (header, *rows):
            del cells[CLAIM_HEADER.index("published")]

    notes = [CLAIM_NOTE]
    not_measured = [_claim_text(record, claim) for claim in record.claims if not claim.seeds]
    if not_measured:
        notes.append(f"Not measured here: {'; '.join(not_measured)}.")
    return Table("Claims", header, rows, words=2, notes=notes)


def _claim_text(record: StudyRecord, claim: AnsweredClaim) -> str:
    """What a paper says, where, and what is different behind the numbers of its rows."""
    text = claim.text
    if claim.source:
        text += f" ({claim.source})"
    for row in record.rows:
        if row.label in claim.sides and row.differs:
            text += f"; published {row.label}: {row.differs}"
    return text


def _claim_cells(record: StudyRecord, claim: AnsweredClaim) -> list[str]:
    than = claim.than
    if claim.share:
        than = f"{claim.share:g} × {than}"
    compared = f"{claim.row} − {than}"
    if claim.spread:
        compared = f"ln(s of {than} / s of {claim.row})"
    return [
        _claim_text(record, claim),
        f"{compared} ({claim.column})",
        "" if claim.published is None else _signed(claim.published),
        _measured_difference(claim),
        _p(claim.seeds.p_holm) if claim.seeds else "",
        f"{claim.answer}: {claim.why}" if claim.why else claim.answer,
    ]


def _measured_difference(claim: AnsweredClaim) -> str:
    test = claim.seeds
    if test is None or (claim.spread and test.p is None):
        return ""
    text = _signed(test.mean)
    if interval := _interval(test):
        text += f" ({interval})"
    return text


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _interval(test: PairedTest | PairTest | None) -> str:
    if test is None or test.low is None or test.high is None:
        return ""
    return f"{_signed(test.low)} … {_signed(test.high)}"


def _p(p: float | None) -> str:
    """A p value after correction."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _p_over_pairs(test: PairTest | None) -> str:
    """The p value after correction; "≤" if the number of resamples limits it."""
    if test is None or test.p_holm is None:
        return ""
    p = _p(test.p_holm)
    smallest_p = 2 / (test.resamples + 1)
    if test.p <= smallest_p and test.p_holm >= 0.001:
        return f"≤ {p}"
    return p
