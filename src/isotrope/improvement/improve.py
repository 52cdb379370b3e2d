"""Documents in; the best model for them out, or the honest answer "keep yours"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.encoder import load, save
from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.locate import check_hub, is_bare, locate
from isotrope.encoder.origin import Base
from isotrope.encoder.pooling import check_pooling
from isotrope.errors import Stopped, UserError
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.labels import read_domain
from isotrope.evaluation.sts import Sets
from isotrope.improvement.candidates import POST_STEPS, raw_poolings, recipes
from isotrope.improvement.card import choice_card
from isotrope.improvement.clock import Clock
from isotrope.improvement.decide import AS_IS, CandidateGain, choose_candidate, mean_score
from isotrope.improvement.guard import affordable_pairs, general_change, general_pairs, shipped_pairs
from isotrope.improvement.judges import FEWEST_HELD_OUT, Judges, held_out_count, judges_of
from isotrope.improvement.measure import words_read
from isotrope.improvement.page import choice_page
from isotrope.improvement.race import PLAN, Race, Start
from isotrope.store.atomic import check_replaceable, write_json, write_text
from isotrope.store.cache import cache_folder
from isotrope.store.lock import hold
from isotrope.store.mark import kind_of
from isotrope.store.records import Record, read_record
from isotrope.text.collection import Documents, documents_key, open_documents
from isotrope.training.environment import environment
from isotrope.training.inputs import refuse_output_in_corpus

KIND, RESULT, IDENTITY, PAGE = "improve", "improve.json", "identity.json", "report.html"
MINUTES = 20.0
FITTED_ON = 1500  # texts for the post steps
FEWEST = 2 * FEWEST_HELD_OUT  # documents
SAVING = 15.0  # seconds after the race: the choice, the model, the report


@dataclass(frozen=True, slots=True)
class Choice:
    """What `improve` found.

    Attributes:
        folder: what it wrote, with ``report.html``, ``improve.json`` and the model.
        choice: the name of the chosen candidate; "keep": nothing is significantly better than the model as it is.
        table: candidate → task → score, as a fraction.
        gains: candidate → what it changes, and how sure that is.
        record: all that ``improve.json`` holds.
    """

    folder: Path
    choice: str
    table: Mapping[str, Mapping[str, float]]
    gains: Mapping[str, CandidateGain]
    record: Mapping[str, Any]

    @property
    def model(self) -> Path:
        """The chosen model, a plain sentence-transformers folder. With "keep", it is the model as it was."""
        return self.folder / "model"


def improve(
    model: str | Path,
    documents: str | Path | Sequence[str | Path],
    *,
    output: str | Path,
    minutes: float | None = None,
    domain: str | Path | None = None,
    data: str | Path | None = None,
    seed: int = 0,
    pooling: str | None = None,
    title: str | None = None,
    text: str | None = None,
    console: Console | None = None,
) -> Choice:
    """Make a model better for some documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks are made from them: a title must find its text, a half its other half. Candidates
    (poolings, post steps, trainings on the other documents) are compared with the model as it is on these tasks, within
    the given time. A candidate is chosen only if it is significantly better (`isotrope.improvement.decide`).

    Called again after a stop or a kill, it goes on. After its end, it gives the same result again.

    Args:
        model: as `isotrope.load` takes it.
        documents: files and folders: see `isotrope.text.collection.open_documents`.
        output: a folder for the model, the report and the work.
        minutes: the time for all of it; None: 20. A race that is stopped and goes on keeps its count.
        domain: labelled queries or texts of the user's own, which then judge: see
            `isotrope.evaluation.sets.labels.read_domain`.
        data: the folder that holds ``senteval/``, for what the choice changes on STS-B and SICK-R; None takes
            ISOTROPE_DATA. Without one, 330 graded pairs that ship are compared alone.
        seed: of all random numbers.
        pooling: as `isotrope.load` takes it.
        title: the column of the titles, in tables; None: ``title`` if there is one.
        text: the column of the texts, in tables.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: no such model or documents, too few of them to judge by, too little time for this model, an output
            that is not ours, lies among the documents or holds the result of something else.
        Stopped: Ctrl-C. The best candidate so far is in the folder, with its evidence.
    """
    console, folder = console or plain_console(), Path(output)
    if minutes is not None and not 0 < minutes < 1e5:
        raise UserError(f"minutes = {minutes} is not possible", "choose a number above 0")
    if not str(output):  # an unset variable of the shell would mean the present folder
        raise UserError("the output is empty", "name a folder")
    check_pooling(pooling)
    check_hub(locate(str(model)))  # before the documents are read
    paths = [documents] if isinstance(documents, str | Path) else list(documents)
    refuse_output_in_corpus(folder, paths)
    own = None if domain is None else read_domain(domain)
    guards = general_pairs(data)
    identity = {
        "model": files_checksum(str(model)), "documents": documents_key(paths, title=title, text=text),
        "domain": own and own.checksum(), "pooling": pooling, "seed": seed,
        "minutes": MINUTES if minutes is None else float(minutes),
    }  # fmt: skip
    with hold(folder, KIND, again="give the same command again"):
        _refuse_other(folder, identity)
        if (folder / RESULT).is_file() and kind_of(folder / "model") == "model":
            record = read_record(folder / RESULT, ["choice", "table", "gains", "finished"])
            if record["finished"]:
                if not (folder / PAGE).is_file():
                    write_text(folder / PAGE, choice_page(record, Base.of(str(model)).name).html())
                return _choice(folder, record)
        check_replaceable(folder / "model", "model")
        return _Improvement(str(model), paths, folder, identity, own, guards, pooling, title, text, console).made()


def fitting_texts(found: Documents, trained: npt.NDArray[np.int64]) -> list[str]:
    """Texts for the post steps, at most 1,500, from the documents that are not held out.

    Args:
        found: all documents.
        trained: (N,) the numbers of those that are not held out.
    """
    some = trained[np.linspace(0, len(trained) - 1, min(len(trained), FITTED_ON)).astype(np.int64)]
    texts = found.texts(some)
    if len(texts) < FITTED_ON:
        texts += [paragraph for document in found.each(some) for paragraph in document.paragraphs]
    return list(dict.fromkeys(texts))[:FITTED_ON]


def _choice(folder: Path, record: Record) -> Choice:
    gains = {name: CandidateGain(**gain) for name, gain in record["gains"].items()}
    return Choice(folder, record["choice"], record["table"], gains, record)


def _refuse_other(folder: Path, identity: Mapping[str, Any]) -> None:
    path = folder / IDENTITY
    if not path.is_file():
        return
    then = read_record(path, list(identity), "choose another --output")
    for key, value in identity.items():
        if then[key] != value:
            what = (
                f"{key} = {then[key]!r}, not {value!r}" if key in ("seed", "minutes", "pooling") else f"another {key}"
            )
            raise UserError(f"{folder} was begun with {what}", "choose another --output")


class _Improvement:
    """One call of `improve`."""

    def __init__(
        self, model: str, paths: Sequence[str | Path], folder: Path, identity: Mapping[str, Any],
        domain: Domain | None, guards: Sets, pooling: str | None, title: str | None, text: str | None,
        console: Console,
    ) -> None:  # fmt: skip
        self.model, self.paths, self.folder, self.identity, self.console = model, paths, folder, identity, console
        self.domain, self.guards, self.pooling, self.title, self.text = domain, guards, pooling, title, text

    def made(self) -> Choice:
        """Race, decide, save."""
        plan = self.folder / PLAN
        clock = Clock(60 * self.identity["minutes"], read_record(plan).get("spent", 0.0) if plan.is_file() else 0.0)
        encoder = load(self.model, self.pooling)  # first: it may be damaged
        raw = is_bare(self.model) and self.pooling is None
        poolings = raw_poolings(encoder) if raw else [self.pooling]
        with watch("reading", self.console):
            found = open_documents(self.paths, cache=cache_folder("documents"), title=self.title, text=self.text)
        self.console.print(str(found.report))
        start, judges, fitted_on = self._prepared(found)
        self.console.print(threads_line())
        race = Race(start, self.folder, judges.tasks, fitted_on, clock, self.console)
        race.plan_size(encoder)
        del encoder  # its memory
        write_json(self.folder / IDENTITY, dict(self.identity))  # now that no mistake of the user's is left to be found
        stopped = False
        try:
            self._run(race, judges, poolings)
        except (Stopped, KeyboardInterrupt):
            stopped = not clock.rang
        race.note()
        if AS_IS not in race.scores:
            raise Stopped("stopped before anything was measured; the same command goes on")
        record = self._decided(race, judges, found, finished=not stopped)
        if stopped:
            raise Stopped(
                f"stopped; the best so far ({record['choice']}) is in {self.folder}; the same command goes on"
            )
        return _choice(self.folder, record)

    def _prepared(self, found: Documents) -> tuple[Start, Judges, list[str]]:
        if self.domain is None and len(found) < FEWEST:
            problem = f"{len(found)} documents are too few: about {FEWEST} are needed, as half of them must judge"
            raise UserError(problem, "give more documents, or your own judgements (--domain)")
        held_out = held_out_count(found, self.identity["seed"])
        trained, held = found.split(held_out, self.identity["seed"])
        judges = judges_of(list(found.each(held)), self.domain, self.identity["seed"])
        for line in judges.told:
            self.console.print(line)
        start = Start(
            self.model, self.pooling, self.paths, self.title, self.text, held_out, len(trained), self.identity["seed"]
        )
        return start, judges, fitting_texts(found, trained)

    def _run(self, race: Race, judges: Judges, poolings: Sequence[str | None]) -> None:
        pooling = race.poolings(poolings)
        self._keep_back(race)
        steps = [name for name in POST_STEPS if self._helps(race, name)]
        race.trainings(recipes(is_bare(self.model), judges.titled, judges.short), pooling, steps)

    def _keep_back(self, race: Race) -> None:
        """Time for what comes after the race; pairs of general English that would take too much of it are dropped."""
        found, seconds = affordable_pairs(self.guards, race.clock.seconds, race.speed)
        if dropped := self.guards.keys() - found.keys():
            race.told.append(f"to save time, what changes on {' and '.join(sorted(dropped))} is not measured")
        self.guards = found
        seconds += SAVING + words_read(race.fitted_on) / race.speed
        race.clock.kept_back = min(seconds, race.clock.seconds / 4)
        for line in race.told:
            self.console.print(line)

    def _helps(self, race: Race, step: str) -> bool:
        """Whether a post step raised the score of any model that is not trained."""
        pairs = [(name, made) for name, made in race.made.items() if made.step == POST_STEPS[step] and not made.run]
        alone = {made.pooling: name for name, made in race.made.items() if not made.step and not made.run}
        return any(
            name in race.scores and mean_score(race.scores[name]) > mean_score(race.scores[alone[made.pooling]])
            for name, made in pairs
        )

    def _decided(self, race: Race, judges: Judges, found: Documents, finished: bool) -> Record:
        choice, gains = choose_candidate(race.scores, race.alike, seed=self.identity["seed"])
        self.console.print(f"saving the model: {choice}")
        before, after = race.model(AS_IS), race.model(choice)
        guards = self.guards if finished else shipped_pairs()  # after Ctrl-C, nobody wants to wait
        record: Record = {
            **{key: value for key, value in self.identity.items() if key in ("seed", "minutes", "pooling")},
            "choice": choice, "finished": finished, "seconds": race.clock.spent, "left_out": race.left_out,
            "judged_by": [*judges.told, *race.told], "held_out": race.start.held_out,
            "table": {n: {t: float(np.mean(q)) for t, q in of.items()} for n, of in race.scores.items()},
            "gains": {name: asdict(gain) for name, gain in gains.items()},
            "made": {name: asdict(made) for name, made in race.made.items()},
            "similarity": general_change(before, after, guards) if choice != AS_IS else None,
            "environment": environment(),
        }  # fmt: skip
        card = choice_card(race, choice, record, found, after)
        save(after, self.folder / "model", card=card.markdown(self.folder / "model"))
        write_text(self.folder / PAGE, choice_page(record, Base.of(self.model).name).html())
        write_json(self.folder / RESULT, record)
        return record
