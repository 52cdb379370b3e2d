"""The card of a chosen model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.components.citations import cited_keys
from isotrope.encoder.origin import Base
from isotrope.improvement.candidates import linear_step
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.page import evidence, race_verdict
from isotrope.improvement.race import Race
from isotrope.report.card import Card, Data, Step
from isotrope.text.collection import Documents

CHOSEN = "chosen in a race"


def choice_card(
    race: Race, choice: str, record: Mapping[str, Any], documents: Documents, model: SentenceTransformer
) -> Card:
    """The card of the candidate ``choice``: that of the model or training that it comes from, and how it was chosen."""
    start, made = race.start, race.made[choice]
    card = Card.of(race.run(made.run).model if made.run else start.model)
    if choice != AS_IS:
        settings = [
            ("pooling", made.pooling, "the model's own"),
            ("share of the trained weights", f"{made.share:g}" if made.run else None, ""),
            ("post step", made.step or None, "none"),
        ]
        step = Step(
            action="Chosen by",
            method="isotrope improve",
            data=Data.of(start.documents, len(documents), start.trained_on, documents.key),
            settings=[(key, value or usual, CHOSEN) for key, value, usual in settings if value or usual],
            cites=cited_keys([type(linear_step(made.step))]) if made.step else [],
            limits=["It was chosen for the documents above. It may fit other text less well."],
        )
        card = card.then(step, model)
    against = Base.of(start.model).name  # not always the card's base model: the start may be made of that one
    return card.judged(race_verdict(record, against), evidence(record))
