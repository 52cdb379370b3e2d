"""Save a model with its card; one with routes also as two plain models, for code that knows no
routes.
"""

from pathlib import Path

from sentence_transformers import SentenceTransformer

from isotrope.encoder import save
from isotrope.encoder.prompts import ROLE_NAMES, Role, one_route, routed
from isotrope.report.card import Card


def save_model(model: SentenceTransformer, folder: Path, card: Card) -> None:
    """Write a model with its card to ``folder``.

    If queries have a route of their own, the folders ``query`` and ``document`` below it hold a
    plain model each, as `save_role` writes it.

    Raises:
        UserError: ``folder`` holds something that is not ours.
    """
    plain_models: dict[str, tuple[SentenceTransformer, str]] = {}
    if routed(model):
        for role in ROLE_NAMES:
            plain_model = one_route(model, role)
            plain_models[role] = (
                plain_model,
                card.of_role(role, plain_model).markdown(folder / role),
            )
    stay = card.switch is not None and card.switch.documents_stay
    save(model, folder, card=card.describing(model, stay).markdown(folder), parts=plain_models)


def save_role(model: SentenceTransformer, folder: Path, role: Role, card: Card) -> None:
    """Write a plain model whose ``encode`` reads queries, or documents, as the given one does.

    Raises:
        UserError: ``folder`` holds something that is not ours.
    """
    plain_model = one_route(model, role)
    save(plain_model, folder, card=card.of_role(role, plain_model).markdown(folder))


def roles_line(folder: Path) -> str:
    """Where the plain models of each role are; "" if the model in ``folder`` has none."""
    places = [folder / role for role in ROLE_NAMES if (folder / role / "modules.json").is_file()]
    if not places:
        return ""
    plain = " and ".join(str(place) for place in places)
    return f"plain models for queries and for documents: {plain}"
