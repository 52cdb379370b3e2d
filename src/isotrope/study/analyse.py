"""What a study found: scores by row and seed, tested differences, answered claims."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from isotrope.evaluation.significance import judged
from isotrope.study.cell import recorded_cells, without_paths
from isotrope.study.columns import COST, KNOWN, LOWER_IS_BETTER, SHAPE, UNSHOWN, column_of
from isotrope.study.plan import StudyPlan
from isotrope.study.record import (
    AnsweredClaim,
    CellResult,
    ClaimAnswer,
    Difference,
    PairTest,
    Published,
    RowComparison,
    Scale,
    Spread,
    StudyRecord,
    StudyRow,
)
from isotrope.study.spec import Claim, Reference, Spec
from isotrope.study.statistics import (
    ALPHA,
    FEWEST_SEEDS,
    holm,
    paired_test,
    seeds_needed,
    spread_test,
)
from isotrope.types import Vector

OWN_DOCUMENTS = (
    "A row with documents of its own reads all of them, unless it has a number of sentences."
)
MARGIN = 0.5  # points: less is no advantage, unless a claim says otherwise
DIFFERENCES = (0.5, 1.0)  # points, for which the table says how many seeds they need

Results = Mapping[str, CellResult]  # by the keys of cells
C = TypeVar("C", bound=RowComparison)


def study_record(plan: StudyPlan, failed: Mapping[str, str] | None = None) -> StudyRecord:
    """Everything that the study's pages show, from its finished cells; ``failed`` is key -> why.

    A row has one score for each seed. A teacher or an untrained backbone is one run; it is compared
    with every seed.
    """
    spec = plan.spec
    results = {key: cell.result() for key, cell in plan.cells.items()}
    finished = {key: result for key, result in results.items() if result}
    rows = _rows(plan, finished, failed or {})
    columns = _shown_columns(spec, rows)
    column = "Avg." if "Avg." in columns else next(iter(columns), "Avg.")
    baseline = _baseline(plan)

    record = StudyRecord(
        name=spec.name,
        title=spec.title,
        source=spec.source,
        note=_note(spec),
        scale=_scale(plan, finished),
        columns=columns,
        column=column,
        rows=rows,
        references={label: Published.model_validate(row) for label, row in spec.reference.items()},
        baseline=baseline,
        differences=_differences(plan, baseline, column),
        claims=[_unanswered(plan, label, claim) for label, claim in spec.claims.items()],
        **dict(recorded_cells(finished)),
    )
    return _with_tests(record, CellDraws(plan))


def _rows(plan: StudyPlan, finished: Results, failed: Mapping[str, str]) -> list[StudyRow]:
    """The rows and the teachers, with the scores of each seed, or why it failed."""
    rows = [
        StudyRow(
            label=label,
            kind="row" if entry.row.train else "untrained",
            base=entry.base,
            at=entry.at,
            cells=plan.rows[label],
            **dict(Published.model_validate(entry.row)),
        )
        for label, entry in plan.entries.items()
    ]
    for name, key in plan.models.items():
        cells = {plan.cells[key].seed: key}
        rows.append(StudyRow(label=name, kind="teacher", base=name, cells=cells))

    for row in rows:
        for seed, key in row.cells.items():
            if key in finished:
                row.scores[seed] = finished[key].scores
            if key in failed:
                row.failed[seed] = failed[key]
    return rows


def _shown_columns(spec: Spec, rows: Sequence[StudyRow]) -> list[str]:
    """The columns of the table: those of the user's own pairs, then the papers' in their order."""
    columns: set[str] = set()
    for row in rows:
        columns.update(*row.scores.values())
    for row_settings in spec.rows.values():
        columns.update(row_settings.published)
    for reference in spec.reference.values():
        columns.update(reference.published)
    if spec.run.tasks:
        columns &= set(spec.run.tasks)
    else:
        columns -= set(UNSHOWN)
    own_pairs = sorted(columns - set(KNOWN))
    return own_pairs + [column for column in KNOWN if column in columns]


def _baseline(plan: StudyPlan) -> str:
    """The row that the file names, if it is run; else the first that is trained; else the first."""
    name = plan.spec.run.baseline
    for label, entry in plan.entries.items():
        if name in (label, entry.base):
            return label
    for label, entry in plan.entries.items():
        if entry.row.train:
            return label
    return next(iter(plan.entries))


def _differences(plan: StudyPlan, baseline: str, column: str) -> list[Difference]:
    """Each row against the baseline, if it is trained or of the same untrained model."""
    differences = []
    model = plan.cell(baseline).base
    for label, entry in plan.entries.items():
        is_compared = entry.row.train or plan.cell(label).base == model
        if is_compared and label != baseline:
            differences.append(Difference(row=label, than=baseline, column=column))
    return differences


def _note(spec: Spec) -> str:
    notes = [spec.note]
    if any(row.documents for row in spec.rows.values()):
        notes.append(OWN_DOCUMENTS)
    return " ".join(filter(None, notes))


def _scale(plan: StudyPlan, finished: Results) -> Scale:
    """How large a study is: its sentences, seeds, models, texts and cells."""
    run = plan.spec.run
    backbones = {without_paths(cell.base) for cell in plan.cells.values()}
    corpora = set()
    for result in finished.values():
        if "corpus" in result.data:
            corpora.add(result.data["corpus"]["key"])
    return Scale(
        sentences=run.sentences,
        seeds=run.seeds,
        test=run.test,
        backbones=sorted(backbones),
        corpora=sorted(corpora),
        cells=len(plan.cells),
        finished=len(finished),
    )


def recomputed(record: StudyRecord) -> StudyRecord:
    """A study's record with its tests computed from its scores: differences, spread, and the
    answers to its claims.

    The tests over pairs stay as they are, because they need every cell's resamples.
    """
    return _with_tests(record, None)


def _with_tests(record: StudyRecord, draws: "CellDraws | None") -> StudyRecord:
    """The record with its tests; those over pairs stay as they are without the cells' draws."""
    differences = []
    for difference in record.differences:
        needed = _needed_seeds(record, difference)
        tested = _tested(record, difference, draws)
        differences.append(tested.model_copy(update={"needed": needed}))
    claims = []
    for claim in _corrected([_tested(record, claim, draws) for claim in record.claims]):
        answer, why = claim_answer(claim)
        claims.append(claim.model_copy(update={"answer": answer, "why": why}))
    changes = {
        "differences": _corrected(differences),
        "claims": claims,
        "spread": _spread(record.row(record.baseline), record.column),
    }
    return record.model_copy(update=changes)


def _tested(record: StudyRecord, comparison: C, draws: "CellDraws | None") -> C:
    """The comparison with its tests over seeds and over pairs, if something is measured."""
    scores = _scores_by_seed(record, comparison)
    if not scores:
        return comparison.model_copy(update={"same": False, "seeds": None})

    first, second = zip(*scores.values(), strict=True)
    share = None
    spread = False
    margin = 0.0
    if isinstance(comparison, AnsweredClaim):
        share = comparison.share
        spread = comparison.spread
        margin = comparison.margin
    if spread:
        test = spread_test(first, second)
    else:
        scaled = [(share or 1) * score for score in second]
        test = paired_test(first, scaled, margin)
    cells, other_cells = _cells_of_sides(record, comparison, scores)
    changes: dict[str, Any] = {"same": cells == other_cells, "seeds": test}
    if draws and not spread and not share:  # it is a difference of two means
        changes["pairs"] = draws.test(cells, other_cells, comparison.column)
    return comparison.model_copy(update=changes)


def _needed_seeds(record: StudyRecord, difference: Difference) -> dict[str, int | None] | None:
    """The seeds that true differences of 0.5 and 1 need, if rows are independent; None if a row has
    fewer than two seeds.
    """
    variance = 0.0
    for row in map(record.row, difference.sides):
        if row.kind != "row":  # one model has no spread
            continue
        spread = _spread(row, difference.column)
        if spread is None:
            return None
        variance += spread.sd**2
    return {str(points): seeds_needed(points, variance**0.5) for points in DIFFERENCES}


def _spread(row: StudyRow, column: str) -> Spread | None:
    """A row's standard deviation over its seeds; None if it has fewer than two."""
    mean = row.mean(column)
    if mean is None or mean.sd is None:
        return None
    return Spread(sd=mean.sd, n=mean.n)


class CellDraws:
    """The bootstrap draws of a plan's cells, each read once."""

    def __init__(self, plan: StudyPlan) -> None:
        self.plan = plan
        self.draws = cache(self._draws)

    def _draws(self, key: str, column: str) -> Vector | None:
        """A cell's draws of a column: (R,) in points, or None if it has no pairs."""
        draws = []
        for task, values in self.plan.cells[key].draws().items():
            if column in ("Avg.", column_of(task)):
                draws.append(values)
        return 100 * np.mean(draws, axis=0) if draws else None

    def mean(self, keys: Iterable[str], column: str) -> Vector | None:
        """The mean draws over cells (R,); None if one of them has no pairs."""
        draws = []
        for key in keys:
            values = self.draws(key, column)
            if values is None:
                return None
            draws.append(values)
        return np.asarray(np.mean(draws, axis=0))

    def test(self, keys: Iterable[str], other_keys: Iterable[str], column: str) -> PairTest | None:
        """Interval and p of the difference of two means over cells; None if there are no pairs."""
        mean = self.mean(keys, column)
        other_mean = self.mean(other_keys, column)
        if mean is None or other_mean is None:
            return None
        # Interval and p come from the draws only. The scores are in the record already.
        return PairTest.model_validate(judged(0.0, 0.0, mean - other_mean))


def _scores_by_seed(
    record: StudyRecord, comparison: RowComparison
) -> dict[int, tuple[float, float]]:
    """Seed -> the scores of both sides, for the seeds that both have."""
    row, than = map(record.row, comparison.sides)
    first = row.column_scores(comparison.column)
    second = than.column_scores(comparison.column)
    if not first or not second:
        return {}
    # One model is compared with every seed.
    if row.kind != "row":
        first = dict.fromkeys(second, *first.values())
    elif than.kind != "row":
        second = dict.fromkeys(first, *second.values())
    seeds = sorted(first.keys() & second.keys())
    return {seed: (first[seed], second[seed]) for seed in seeds}


def _cells_of_sides(
    record: StudyRecord, comparison: RowComparison, seeds: Iterable[int]
) -> list[list[str]]:
    """Both sides' cells of these seeds. A teacher or an untrained row has one cell."""
    sides = []
    for row in map(record.row, comparison.sides):
        cells = [*row.cells.values()]
        if row.kind == "row":
            cells = [row.cells[seed] for seed in seeds if seed in row.cells]
        sides.append(cells)
    return sides


def _corrected(comparisons: Sequence[C]) -> list[C]:
    """Correct the p values over seeds, and those over pairs, for their number; equal cells do not
    count.
    """
    p_values = [comparison.p_values for comparison in comparisons]
    families = [holm(family) for family in zip(*p_values, strict=True)]
    corrected = []
    for comparison, *values in zip(comparisons, *families, strict=True):
        corrected.append(comparison.corrected(*values))
    return corrected


def _unanswered(plan: StudyPlan, label: str, claim: Claim) -> AnsweredClaim:
    """A paper's claim as the difference ``row`` − ``than``. The order is such that a gain is
    positive.
    """
    row, than = claim.better, claim.than
    if claim.column in LOWER_IS_BETTER and not claim.spread:
        row, than = than, row
    changes = {
        "claim": label,
        "row": _entry_label(plan, row),
        "than": _entry_label(plan, than),
        "margin": _margin(claim),
        "published": _published_difference(plan.spec, claim, row, than),
    }
    return AnsweredClaim.model_validate(dict(claim) | changes)


def _entry_label(plan: StudyPlan, name: str) -> str:
    """The entry that a name of the file means: of a swept row the first. Teachers keep theirs."""
    if name in plan.entries:
        return name
    for label, entry in plan.entries.items():
        if entry.base == name:
            return label
    return name


def _margin(claim: Claim) -> float:
    """What a gain has to exceed: half a point, or 0 for what is not in points."""
    if claim.margin is not None:
        return claim.margin
    if claim.share or claim.spread or claim.column in (*SHAPE, *COST):
        return 0.0
    return MARGIN


def _published_difference(spec: Spec, claim: Claim, row: str, than: str) -> float | None:
    """The difference of the printed numbers; None if one is not printed."""
    first = spec.rows.get(row, Reference())
    second = spec.rows.get(than, Reference())
    if claim.spread:
        narrow = first.published_sd.get(claim.column)
        wide = second.published_sd.get(claim.column)
        # printed digits may hide a small one
        return float(np.log(wide / narrow)) if narrow and wide else None
    higher = first.published.get(claim.column)
    lower = second.published.get(claim.column)
    if higher is None or lower is None:
        return None
    return higher - (claim.share or 1) * lower


def claim_answer(claim: AnsweredClaim) -> tuple[ClaimAnswer, str]:
    """A claim *holds* if the difference is significantly above 0. It *does not hold* if it is
    significantly below the margin, which is the smallest difference that the claim means. Both are
    after Holm's correction over the study's claims. Otherwise it is *open*, and the second string
    says why.

    Each answer takes one side of a two-sided test at 5 %, so both together err with at most 5 % in
    the whole study.
    """
    test = claim.seeds
    if test is None:
        return "open", "not measured here"
    if claim.same:
        return "open", "the two rows have equal settings at this scale"
    if test.p is None and test.n < FEWEST_SEEDS:
        return "open", f"{test.n} seed(s): at least {FEWEST_SEEDS} are needed"
    if test.p_holm is None or test.p_margin_holm is None:
        return "open", "one of the two has no spread over seeds"
    if test.p_holm <= ALPHA and test.mean > 0:
        return "holds", ""
    if test.p_margin_holm <= ALPHA and test.mean < claim.margin:
        return "does not hold", ""
    detected = f"{test.n} seeds show {test.detectable:.2f} or more if one claim is tested"
    return "open", f"{detected}, and only larger differences if many are"
