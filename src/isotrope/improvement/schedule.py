"""Which trainings a race runs, and for how long.

They run twice. First each gets the same short time. Then the better half is trained anew with more
pairs, and averaged with the start model. If time is left then, recipes that did not fit at first
are tried.
"""

from collections.abc import Sequence

from isotrope.improvement.budget import FEWEST_OF_ONE, FIRST_SHARE
from isotrope.improvement.candidates import RANKINGS, Trial, joined
from isotrope.improvement.decide import mean_score
from isotrope.improvement.race import NO_TEACHER, NO_TIME, Race

MOST_ROUNDS = 8


def train_in_turn(race: Race, pooling: str | None, steps: Sequence[str], start: str = "") -> None:
    """Train students from ``start`` with this pooling, and measure them with these post steps."""
    recipes, most = list(race.makers[start].recipes), MOST_ROUNDS * race.maker.trained_on
    if RANKINGS in recipes and not race.kept.rankings(Trial("", pooling, start=start), race.basis):
        race.leave_out(RANKINGS, NO_TEACHER)
        recipes.remove(RANKINGS)

    def tried(recipe: str, pairs: int, average: bool = False) -> None:
        name = joined(start, recipe, f"{pairs:,} pairs")
        trial = Trial(
            name, pooling, recipe, pairs, 1.0, () if recipe == RANKINGS else tuple(steps), start
        )
        if race.run(trial) and average:
            race.run(trial.averaged)

    first = race.budget.pairs_in("first", recipes, FIRST_SHARE, 1, most)
    for name, pairs in first.items():
        tried(name, pairs)
    scores = dict[str, float]()  # recipe -> of its best candidate
    for name, (trial, _) in race.made.items():
        if trial.recipe in first and name in race.scores:
            scores[trial.recipe] = max(mean_score(race.scores[name]), scores.get(trial.recipe, 0))
    best = sorted(scores, key=scores.__getitem__, reverse=True)[: (len(first) + 1) // 2]
    for place, name in enumerate(best):
        share = 2 / (len(best) - place + 1)  # of the time left: of three, the best gets 3 : 2 : 1
        pairs = max(
            race.budget.pairs_in(f"second: {name}", [name], share, 2, most).values(), default=0
        )
        tried(name, pairs if pairs > 1.2 * first[name] else first[name], average=True)
    for name in [name for name in recipes if name not in first and name not in race.left_out]:
        if last := race.budget.pairs_in(f"last: {name}", [name], 1, 1, most):
            tried(name, min([*last.values(), *first.values()]))
        else:
            race.leave_out(name, "there are too few documents" if most < FEWEST_OF_ONE else NO_TIME)
