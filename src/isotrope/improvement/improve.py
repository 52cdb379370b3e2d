"""Documents in; the best model for them out, or the honest answer "keep yours"."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.encoder import load
from isotrope.encoder.checksum import GivenModel, files_checksum, located
from isotrope.encoder.locate import Base, check_hub, is_bare, locate
from isotrope.encoder.pooling import check_pooling
from isotrope.errors import Stopped, UserError
from isotrope.evaluation.sets.labels import Labels, read_labels
from isotrope.evaluation.sts import SimilaritySets
from isotrope.improvement.budget import Budget, check_minutes
from isotrope.improvement.candidates import (
    Maker,
    check_plan,
    for_queries,
    raw_poolings,
    recipes,
    told_apart,
)
from isotrope.improvement.decide import AS_IS, best_search, race_verdict
from isotrope.improvement.judges import (
    FEWEST_HELD_OUT,
    Judges,
    affordable_pairs,
    general_change,
    general_pairs,
    held_out_count,
    judge_in_words,
    judges_of,
    shipped_pairs,
    shown_search,
)
from isotrope.improvement.measure import found_by
from isotrope.improvement.page import choice_card, choice_page
from isotrope.improvement.questions import SHARE, check_writer, written
from isotrope.improvement.race import Race
from isotrope.improvement.schedule import train_in_turn
from isotrope.improvement.steps import Basis, speed_of, words_read
from isotrope.improvement.teachers import Reranker, is_cross_encoder
from isotrope.report.examples import compare_searches
from isotrope.report.outcome import REPORT, Outcome
from isotrope.report.page import MODEL
from isotrope.report.saving import save_model
from isotrope.report.switching import Switch
from isotrope.store.files import Record, read_record, write_text
from isotrope.store.job import Job
from isotrope.text import TextLike, TextSource, read_text
from isotrope.text.coverage import unknown_warning
from isotrope.text.permutation import evenly
from isotrope.training.processes import environment

KIND = "improvement"
MINUTES = 20.0
FEWEST = 2 * FEWEST_HELD_OUT  # documents
UNKNOWN_IN = 1500  # documents that are looked through for unknown words
SAVING = 15.0  # seconds after the race: the choice, the model, the report


class Improvement(Outcome):
    """What `improve` found, an `Outcome`. `table` has a row a candidate, and a column a task."""

    @property
    def choice(self) -> str:
        """The name of the chosen candidate, or "keep"."""
        return str(self.record["choice"])


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
    title: str | None = None,
    text: str | None = None,
    others: Sequence[GivenModel] = (),
    teachers: Sequence[GivenModel] = (),
    query_model: str | None = None,
    plan: str | Path | Mapping[str, Any] | None = None,
    restart: bool = False,
    console: Console | None = None,
) -> Improvement:
    """Make a model better for some documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks are made from them: a title must find its text, a half its
    other half. Candidates (poolings, post steps, trainings on the other documents) are compared
    with the model as it is on these tasks, within the given time. A candidate is chosen only if it
    is significantly better (`isotrope.improvement.decide`).

    Called again after a stop or a kill, it goes on. After its end, it gives the same result again.

    Args:
        model: a loaded model, which is left as it was, or what `isotrope.load` takes.
        documents: files, folders, URLs, a list of texts, a Dataset, a DataFrame: see
            `isotrope.text.read_text`.
        output: a folder for the model, the report and the work; None: a temporary one, which the
            result keeps.
        minutes: the time for all of it; None: 20. A race that is stopped and goes on keeps its
            count.
        labels: labels of your own, which then judge alone: see
            `isotrope.evaluation.sets.labels.read_labels`.
        columns: the columns of the labels, in a table: "question,answer".
        data: the folder that holds ``senteval/``, for what the choice changes on STS-B and SICK-R;
            None takes ISOTROPE_DATA. Without one, only the 330 graded pairs that ship are compared.
        seed: of all random numbers.
        pooling: as `isotrope.load` takes it.
        title: the column of the titles, in tables; None: ``title`` if there is one.
        text: the column of the texts, in tables.
        others: further models to begin with. The best of all for these documents is improved.
        teachers: models too slow for searches, but good enough to teach rankings: see
            `isotrope.improvement.teachers`.
        query_model: a language model that writes questions for the documents: see
            `isotrope.improvement.questions`.
        plan: do the work of an earlier improvement, whose folder or ``record["plan"]`` this is.
            Then there is no clock, and the same documents and model give the same choice.
        restart: forget what an earlier call left in the output.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: no such model or documents, too few of them to judge by, an output that is not
            ours, lies among the documents or was begun with something else; the documents changed
            during the race.
        Stopped: Ctrl-C. The best candidate so far is in the folder, with its evidence.
    """
    console = console or plain_console()
    if minutes is not None:
        check_minutes(minutes)
    check_pooling(pooling)
    where = located(model)
    taken = {AS_IS, Base.of(where).name}
    starts, taught_by = (told_apart(given, taken) for given in (others, teachers))
    for one in (
        where,
        *starts.values(),
        *taught_by.values(),
        *([query_model] if query_model else []),
    ):
        check_hub(locate(one))  # before the documents are read
    if query_model:
        check_writer(query_model)
    own = None if labels is None else read_labels(labels, columns)
    guards = general_pairs(data)
    if isinstance(plan, str | Path):
        plan = read_record(
            Path(plan) / "result.json", ["plan"], "name the folder of a finished improvement"
        )["plan"]
    with watch("reading", console):
        opened = read_text(documents, text_column=text, title_column=title)
        found = opened.documents()
    identity = {
        "seed": seed,
        "pooling": pooling,
        "minutes": None if plan else float(minutes or MINUTES),
        "plan": plan,
        "others": {name: files_checksum(one) for name, one in starts.items()},
        "teachers": {name: files_checksum(one) for name, one in taught_by.items()},
        "model": files_checksum(where),
        "documents": found.key,
        "labels": own and own.checksum(),
        "query_model": query_model and files_checksum(query_model),
    }
    job = Job(output, KIND, identity, [opened], restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            console.print(str(found.report))
            record = _Work(
                job, where, starts, taught_by, query_model, opened, own, guards, console
            ).done()
    return Improvement(job, record, choice_page)


@dataclass
class _Work:
    """One call of `improve`, in a folder that it holds."""

    job: Job
    model: str
    others: Mapping[str, str]  # name -> where it is
    teachers: Mapping[str, str]
    query_model: str | None
    opened: TextSource
    labels: Labels | None
    guards: SimilaritySets
    console: Console

    def done(self) -> Record:
        """Race, decide, save."""
        asked, plan = self.job.identity, self.job.identity["plan"]
        budget = Budget(
            self.job.folder, 60 * asked["minutes"] if asked["minutes"] else float("inf")
        )
        for one in self.teachers.values():  # first: a model may be damaged
            Reranker.load(one) if is_cross_encoder(one) else load(one)
        for one in (*self.others.values(), self.model):
            if is_cross_encoder(one):
                raise UserError(
                    f"{one} is a cross-encoder, which gives no vectors",
                    f"let it teach: --teacher {one}",
                )
            encoder = load(one, asked["pooling"] if one == self.model else None)
        raw = is_bare(self.model) and asked["pooling"] is None
        poolings = raw_poolings(encoder) if raw else [asked["pooling"]]
        found = self.opened.documents()
        if warning := unknown_warning(
            encoder, found.texts(np.array(evenly(len(found), UNKNOWN_IN)))
        ):
            self.console.print(warning)
        race, judges = self._prepared(budget)
        self.console.print(threads_line())
        speed, dimensions = (
            speed_of(encoder, race.texts()),
            int(encoder.get_embedding_dimension() or 0),
        )
        del encoder  # its memory
        if not plan and not race.plan_size(speed, dimensions):
            return self._decided(race, judges, finished=True)
        stopped = False
        try:
            race.repeat(plan) if plan else self._run(race, poolings)
        except (Stopped, KeyboardInterrupt):
            stopped = not budget.rang
        budget.keep()
        if not race.scores:
            raise Stopped("stopped before anything was measured")
        record = self._decided(race, judges, finished=not stopped)
        if stopped:
            raise Stopped(f"stopped; the best so far ({record['choice']}) is in {self.job.folder}")
        return record

    def _prepared(self, budget: Budget) -> tuple[Race, Judges]:
        """Hold documents out, and make tasks from them."""
        found, seed = self.opened.documents(), self.job.identity["seed"]
        if self.labels is None and len(found) < FEWEST:
            problem = f"{len(found)} documents are too few: about {FEWEST} are needed, as half of them must judge"
            raise UserError(problem, "give more documents, or labels of your own (--labels)")
        held_out = held_out_count(found, seed)
        trained, held = found.split(held_out, seed)
        judges = judges_of(list(found.each(held)), self.labels, seed)
        for line in judges.told:
            self.console.print(line)

        makers = {}
        for name, model in {"": self.model, **self.others}.items():
            tried = recipes(is_bare(model), judges.titled, judges.short, judges.searched)
            named = {one.name: one for one in tried}
            makers[name] = Maker(
                model, self.opened, held_out, len(trained), seed, self.job.folder, named
            )
        if plan := self.job.identity["plan"]:
            check_plan(plan, makers, self.teachers, bool(self.query_model))
        basis = Basis.of(found, trained, seed)
        self.job.begin()
        if self.query_model:
            seconds, most = (
                (float("inf"), plan.get("questions", 0)) if plan else (SHARE * budget.seconds, None)
            )
            with watch("writing", self.console):
                place = self.job.folder / "questions.json"
                more, read = written(self.query_model, basis.documents, place, seconds, most, seed)
            budget.keep(questions=read)
            basis = basis.asking(more)
        return Race(
            makers.pop(""), judges.tasks, basis, budget, self.console, makers, self.teachers
        ), judges

    def _run(self, race: Race, poolings: Sequence[str | None]) -> None:
        """First what shows how fast this machine is, and so how much time is needed after the race;
        then trainings.
        """
        race.teach()
        pooling, budget = race.poolings(poolings), race.budget
        self.guards, seconds = affordable_pairs(self.guards, budget.seconds, budget.speed)
        if search := shown_search(race.tasks):
            seconds += 2 * words_read([*search.queries, *search.corpus]) / budget.speed
        budget.kept_back = min(SAVING + seconds, budget.seconds / 4)
        for line in race.told:
            self.console.print(line)
        start = race.starts()
        self.console.print(
            f"{len(race.makers[start].recipes)} kinds of training follow{budget.told}"
        )
        train_in_turn(race, None if start else pooling, race.helpful(), start)
        race.widen()

    def _decided(self, race: Race, judges: Judges, finished: bool) -> Record:
        self.opened.check()  # what changed may have been trained on by its own judges
        asked, name = self.job.identity, Base.of(self.model).name
        choice, gains = race.choose()
        before = load(self.model, asked["pooling"])
        after = before if choice == AS_IS else race.model(choice)
        best = (
            max(gains, key=lambda one: gains[one].gain, default=AS_IS)
            if choice == AS_IS
            else choice
        )
        scores = race.judged(best) if gains else ({}, {})
        search = shown_search(race.tasks) if finished and choice != AS_IS else None
        judge = judge_in_words(race.tasks, scores[0])
        verdict = race_verdict(
            scores, gains, choice, best, model=name, judge=judge, needed=race.needed()
        )
        guards = self.guards if finished else shipped_pairs()  # after Ctrl-C, nobody wants to wait
        self.console.print(f"saving the model: {choice}")
        record: Record = {
            "model": name,
            **{key: asked[key] for key in ("seed", "minutes", "pooling")},
            "choice": choice,
            "verdict": verdict.record(),
            "finished": finished,
            "seconds": race.budget.spent,
            "left_out": race.left_out,
            "judged_by": [*judges.told, *race.told],
            "documents": len(self.opened.documents()),
            "held_out": race.maker.held_out,
            "table": {
                n: {t: float(np.mean(q)) for t, q in of.items()} for n, of in race.scores.items()
            },
            "gains": {name: asdict(gain) for name, gain in gains.items()},
            "hybrid": best_search(race.scores, race.first.hybrids, race.documents, asked["seed"]),
            "teachers": dict(race.first.teachers),
            "taught_by": race.first.taught_by,
            "made": {
                name: asdict(trial) | {"step": step} for name, (trial, step) in race.made.items()
            },
            "plan": race.plan,
            "similarity": None if choice == AS_IS else general_change(before, after, guards),
            "searched": search
            and compare_searches(search, found_by(before, search), found_by(after, search)),
            "environment": environment(),
        }
        stay = choice != AS_IS and for_queries(record["made"][choice])
        record["switch"] = Switch.of(after, documents_stay=stay).model_dump()
        card = choice_card(race, record, after).describing(after, documents_stay=stay)
        save_model(after, self.job.folder / MODEL, card)
        write_text(self.job.folder / REPORT, choice_page(record).html())
        return self.job.finish(record) if finished else record
