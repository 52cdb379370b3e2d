"""Documents in; the best model for them out, or the honest answer "keep yours"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.encoder import load
from isotrope.encoder.checksum import GivenModel
from isotrope.errors import Stopped, UserError
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.significance import Comparison
from isotrope.evaluation.sts import SimilaritySets
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.clock import MINUTES, Clock, check_minutes
from isotrope.improvement.cross_fit import Fold, make_folds
from isotrope.improvement.general import (
    affordable_pairs,
    general_change,
    general_pairs,
    general_words,
)
from isotrope.improvement.judge import (
    BestSearch,
    Judge,
    best_shares,
    choose_search,
    embed_tasks,
    judge_finalists,
    model_verdict,
    search_verdict,
)
from isotrope.improvement.models import Models
from isotrope.improvement.page import choice_card, choice_page
from isotrope.improvement.plan import (
    Plan,
    check_plan,
    make_plan,
    minutes_for_trainings,
    read_plan,
)
from isotrope.improvement.prepare import (
    Material,
    measure_workload,
    plan_teaching,
    trainers_of,
)
from isotrope.improvement.race import Notes, Race
from isotrope.improvement.result import CandidateGain, RaceResult
from isotrope.improvement.scores import KEEP, TaskScores, judging_tasks
from isotrope.improvement.search import DocumentSearch
from isotrope.improvement.tasks import TaskSet
from isotrope.report.examples import MOST_TEXTS, compare_searches
from isotrope.report.outcome import REPORT, Outcome
from isotrope.report.page import MODEL
from isotrope.report.saving import save_model
from isotrope.report.switching import Switch
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.text import TextLike, TextSource, read_text
from isotrope.text.coverage import unknown_warning
from isotrope.text.permutation import evenly
from isotrope.training.processes import environment

KIND = "improvement"
CHOOSING, JUDGING = "to choose", "to judge"  # what tasks are for, in lines on them
UNKNOWN_IN = 1500  # documents that are looked through for unknown words


class Improvement(Outcome):
    """What `improve` found, an `Outcome`. `table` has a row a candidate, and a column a task."""

    source: TextSource | None = None  # the documents that `search` searches
    models: Models | None = None  # those that were given

    @property
    def choice(self) -> str:
        """The name of the chosen candidate, or "keep"."""
        return str(self.record["choice"])

    @property
    def search_settings(self) -> BestSearch | None:
        """The best search: model, BM25's share and verdict; None if nothing was searched."""
        return RaceResult.model_validate(self.record).search

    def search(self, queries: Sequence[str], count: int = 10) -> list[list[tuple[str, float]]]:
        """Search the documents in memory with `search_settings`.

        Args:
            queries: texts (Q,).
            count: documents for each query.

        Returns:
            For each query the best documents, with their scores from 0 to 1.
        """
        return self._document_search.search(queries, count)

    @cached_property
    def _document_search(self) -> DocumentSearch:
        """The documents, searched by the best search, with the new model or the given one."""
        settings = self.search_settings
        if settings is None or self.source is None or self.models is None:
            raise UserError(
                "nothing was searched here, so there is no best search",
                "call isotrope.improve with documents that allow searches",
                "no-search",
            )
        model = self.model
        if settings.model == KEEP:
            model = load(self.models.given, self.models.pooling)
        return DocumentSearch.of(model, self.source.documents().texts(), settings.bm25_share)


def improve(
    model: GivenModel,
    documents: TextLike,
    *,
    output: str | Path | None = None,
    minutes: float | None = None,
    labels: Any = None,
    columns: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    seed: int = 0,
    pooling: str | None = None,
    title_column: str | None = None,
    text_column: str | None = None,
    other_models: Sequence[GivenModel] = (),
    teachers: Sequence[GivenModel] = (),
    plan: str | Path | Mapping[str, Any] | None = None,
    restart: bool = False,
    console: Console | None = None,
) -> Improvement:
    """Make a model better for some documents, without labels, or find that it is best to keep it.

    Half of the documents, 1,300 at most, are held out, and tasks are made from them: a title must
    find its text, a span must find the rest of its text. Candidates (poolings, post steps,
    trainings on the other documents) are compared on some of the held-out documents. Two finalists
    are then compared with the model as it is on the others, once, and one of them is chosen only if
    it is significantly better there (`isotrope.improvement.judge`).

    The time becomes a plan once, from the measured speed (`isotrope.improvement.plan`). Called
    again after a stop or a kill, it goes on. After its end, it gives the same result again.

    Args:
        model: a loaded model, which is left as it was, or what `isotrope.load` takes.
        documents: files, folders, URLs, a list of texts, a Dataset, a DataFrame: see
            `isotrope.text.read_text`.
        output: a folder for the model, the report and the work; None: a temporary one, which the
            result keeps.
        minutes: the time for all of it; None: 20. A race that is stopped and goes on keeps its
            count.
        labels: labels of your own. Of 60 or more, a third chooses and the others judge; fewer only
            judge. See `isotrope.evaluation.sets.labels.read_labels`.
        columns: the columns of the labels, in a table: "question,answer".
        data: the folder that holds ``senteval/``, for what the choice changes on STS-B and SICK-R;
            None takes ISOTROPE_DATA. Without one, only the 330 graded pairs that ship are compared.
        seed: of all random numbers.
        pooling: as `isotrope.load` takes it.
        title_column: the column of the titles, in tables; None: ``title`` if there is one.
        text_column: the column of the texts, in tables.
        other_models: further models to begin with. The best of all for these documents is improved.
        teachers: models too slow for searches, but good enough to teach rankings: see
            `isotrope.improvement.teachers`.
        plan: do the work of an earlier improvement, whose folder or ``record["plan"]`` this is.
            Then there is no clock, and the same documents and model give the same choice.
        restart: forget what an earlier call left in the output.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: no such model or documents, too few of them to judge by, an output that is not
            ours, lies among the documents or was begun with something else; the documents changed
            during the race.
        Stopped: Ctrl-C. The same call goes on.
    """
    console = console or plain_console()
    if minutes is not None:
        check_minutes(minutes)
    given_plan = None if plan is None else read_plan(plan)
    with watch("reading", console):
        models = Models.locate(model, pooling, other_models, teachers)
        judging_labels = None if labels is None else read_labels(labels, columns)
        general = general_pairs(data)
        source = read_text(documents, text_column=text_column, title_column=title_column)
        texts = source.documents()

    identity = {
        **models.identity(),
        "seed": seed,
        "pooling": pooling,
        "minutes": None if given_plan else float(minutes or MINUTES),
        "plan": given_plan.model_dump(mode="json") if given_plan else None,
        "documents": texts.key,
        "labels": judging_labels and judging_labels.checksum(),
    }
    job = Job(output, KIND, identity, [source], restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            console.print(str(texts.report))
            material = Material.of(source, judging_labels, seed)
            record = _Improving(job, models, material, general, given_plan, console).run()
    improvement = Improvement(job, record, choice_page)
    improvement.source, improvement.models = source, models
    return improvement


@dataclass
class _Improving:
    """One call of `improve`, in a folder that it holds."""

    job: Job
    models: Models
    material: Material
    general: SimilaritySets
    given_plan: Plan | None
    console: Console
    advice_on_time: str = ""  # what a race with trainings needs, if there is no time for one

    def run(self) -> Record:
        """Plan the candidates, let them race, judge the best of them, and write the result.

        After Ctrl-C, notes keep the plan and the time spent, so the same command goes on.
        """
        with watch("loading the models", self.console):
            self.models.check()
            warning = self._warning_of_unknown_words()
        if warning:
            self.console.print(warning)
        notes = Notes.read(self.job.folder)
        minutes = self.job.identity["minutes"]
        clock = Clock(60 * minutes if minutes else inf, notes.spent)
        try:
            plan = self._plan(notes, clock)
            race, judging = self._race(plan, notes, clock)
            race.run()
            return self._report(race, judging)
        except KeyboardInterrupt:
            notes.write(self.job.folder, clock)
            raise Stopped(
                f"stopped; the same command goes on with what is in {self.job.folder}"
            ) from None

    def _warning_of_unknown_words(self) -> str:
        documents = self.material.documents
        rows = np.array(evenly(len(documents), UNKNOWN_IN))
        encoder = load(self.models.given, self.models.pooling)
        return unknown_warning(encoder, documents.texts(rows))

    def _plan(self, notes: Notes, clock: Clock) -> Plan:
        """The plan that was given or begun, or a new one."""
        self.console.print(threads_line())
        if self.given_plan is not None:
            trainers = trainers_of(self.models, self.material, 0, self.job.folder)
            check_plan(self.given_plan, trainers, self.models.teachers)
        self.job.begin()
        if notes.plan is None:
            notes.plan = self.given_plan or self._new_plan(clock)
            notes.write(self.job.folder, clock)
        return notes.plan

    def _new_plan(self, clock: Clock) -> Plan:
        """Turn the time that is left into a plan."""
        words = general_words(self.general)
        with watch("planning", self.console):
            teaching = plan_teaching(self.models, self.material, clock.left)
            workload = measure_workload(self.models, self.material, clock, words)
        plan = make_plan(workload, teaching)
        self.general = affordable_pairs(self.general, workload.seconds, workload.slowest)
        cases = f"{plan.choosing:,} cases choose, {plan.judging:,} judge"
        self.console.print(f"plan: {cases}; {len(plan.short_trainings)} kinds of training")
        if not plan.short_trainings:
            minutes = minutes_for_trainings(workload, plan)
            self.advice_on_time = (
                f"trainings of this model need about {minutes} minutes on this machine"
            )
        return plan

    def _race(self, plan: Plan, notes: Notes, clock: Clock) -> tuple[Race, TaskSet]:
        """The race of a plan, and the tasks that judge its choice."""
        material = self.material
        split = material.split(plan)
        choosing, judging = material.task_sets(plan, split)
        self.console.print(choosing.line(CHOOSING))
        self.console.print(judging.line(JUDGING))
        fitting_set = material.fitting_set(split.fitting).part(plan.fitting)

        # Documents of the fitting set judge quick steps too, by the same tasks as the others.
        folds: list[Fold] = []
        tasks = [task.name for task in judging.tasks]
        same_tasks = tasks == [task.name for task in choosing.tasks]
        if material.labels is None and plan.cross_fitting and same_tasks:
            folds = make_folds(material.documents, fitting_set, plan.cross_fitting, tasks)
        race = Race(
            plan=plan,
            trainers=trainers_of(self.models, material, split.held_out, self.job.folder),
            task_set=choosing,
            fitting_set=fitting_set,
            folds=folds,
            teachers=self.models.teachers,
            folder=self.job.folder,
            notes=notes,
            clock=clock,
            console=self.console,
        )
        return race, judging

    def _report(self, race: Race, judging: TaskSet) -> Record:
        """Judge the chosen candidate, and save what is best with its report."""
        finalists = race.finalists()
        self.material.source.check()  # what changed may have been trained on by its own judges
        before = load(self.models.given, self.models.pooling)
        with watch("judging", self.console):
            judge, comparison = self._judge(race, finalists, before, judging)
            verdict = self._verdict(race, judge, comparison)
            search = self._search(race, judge)

        choice = judge.choice if verdict.word == "better" else KEEP
        after = before if choice == KEEP else race.model(choice)
        if search is not None and search.model not in (KEEP, choice):
            search = None  # only with a model that is not better by itself
        self.console.print(f"saving the model: {choice}")
        result = self._result(race, judge, choice, verdict, search)
        if choice != KEEP:
            result.similarity = general_change(before, after, self.general)
            result.searched = searches_shown(judge)
        return self._save(race, result, after)

    def _judge(
        self, race: Race, names: Sequence[str], before: SentenceTransformer, judging: TaskSet
    ) -> tuple[Judge, Comparison | None]:
        """The chosen finalist, and how it compares with the given model; None: nothing gained."""
        given = embed_tasks(before, judging)
        folds = race.given.cross_fitted.judging
        finalists = [
            Judge(judging, given, embed_tasks(race.model(name), judging), name, folds)
            for name in names
        ]
        if not finalists:
            return Judge(judging, given, given, KEEP), None
        return judge_finalists(finalists, race.made[names[0]].keeps_documents)

    def _verdict(self, race: Race, judge: Judge, comparison: Comparison | None) -> Verdict:
        """Whether the chosen candidate is better than the given model."""
        model = self.models.name
        count = len(race.scores) - 1
        if comparison is not None:
            verdict = model_verdict(comparison, judge.task_set, model, judge.choice, count)
        elif count:
            gains = race.table.gains()
            best = max(gains, key=lambda name: gains[name].difference)
            verdict = model_verdict(gains[best], race.task_set, model, best, count, gained=False)
        else:
            advice = self.advice_on_time or f"Keep {model}."
            return Verdict.not_tested(before=model, after="other models", advice=advice)
        if not self.advice_on_time:
            return verdict
        advice = f"{verdict.advice} No training was tried: {self.advice_on_time}."
        return replace(verdict, advice=advice)

    def _search(self, race: Race, judge: Judge) -> BestSearch | None:
        """The best search, and whether it is better than the given model's."""
        if not judge.task_set.searches or not race.task_set.searches:
            return None
        settings = choose_search(judge.choice, race.searches, race.task_set.documents)
        comparison = judge.compare_search(*settings)
        return search_verdict(comparison, judge.task_set, self.models.name, settings)

    def _result(
        self,
        race: Race,
        judge: Judge,
        choice: str,
        verdict: Verdict,
        search: BestSearch | None,
    ) -> RaceResult:
        return RaceResult(
            model=self.models.name,
            seed=self.material.seed,
            minutes=self.job.identity["minutes"],
            pooling=self.models.pooling,
            choice=choice,
            chosen=judge.choice,
            verdict=verdict,
            search=search,
            bm25_shares=best_shares(race.searches),
            seconds=race.clock.spent,
            left_out=race.notes.left_out,
            notes=[race.task_set.line(CHOOSING), judge.task_set.line(JUDGING)],
            documents=len(self.material.documents),
            fitting=race.trainers[""].trained_on,
            table={name: task_means(scores) for name, scores in race.scores.items()},
            gains={name: CandidateGain.of(gain) for name, gain in race.table.gains().items()},
            teachers=race.given.teachers,
            taught_by=race.given.taught_by,
            made=race.made,
            plan=race.plan_done(),
            environment=environment(),
        )

    def _save(self, race: Race, result: RaceResult, model: SentenceTransformer) -> Record:
        """Write the model with its card, the report and the result."""
        result.switch = Switch.of(model, documents_stay=result.keeps_documents)
        card = choice_card(race.trainers, result, model)
        save_model(model, self.job.folder / MODEL, card)
        record = result.record()
        write_text(self.job.folder / REPORT, choice_page(record).html())
        return self.job.finish(record)


def task_means(scores: TaskScores) -> dict[str, float]:
    """Task -> the mean over its cases."""
    return {task: float(np.mean(cases)) for task, cases in scores.items()}


def searches_shown(judge: Judge) -> Record | None:
    """Some searches of the judging tasks, as both models answer them; None: nothing is searched."""
    tasks = {task.name: task for task in judge.task_set.searches}
    if not tasks:
        return None
    task = tasks[judging_tasks(tasks)[0]]
    if len(task.texts) > MOST_TEXTS:
        task = task.part(task.size * MOST_TEXTS // len(task.texts))
    searches = task.as_retrieval_set() if isinstance(task, DocumentTask) else task
    return compare_searches(searches, judge.before, judge.after)
