"""The query side alone: a small model reads queries, and documents keep the vectors that they have.

A student of a few of its teacher's layers learns to give queries their teacher's vectors. Wang and Lyu, 2023,
https://arxiv.org/abs/2306.11550: with two layers of a BERT, that keeps 92.5 % of the quality on BEIR.
"""

from pathlib import Path

import tomli_w
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load, save
from isotrope.encoder.prompts import role_prompt, used_prompt, with_query_route
from isotrope.encoder.student import IN_PLACE, STATIC, check_student, without_vocabulary

BOTH, QUERY = "both", "query"
SIDES = (BOTH, QUERY)
_TEXTS = 8  # of a document, at most
_KEYS = (  # over the preset's: the student's own vector is its teacher's, of texts that look like queries
    "terms=false", "terms={vectors={kind='vector_match', teacher='teacher', projected=false}}",
    "pairs=false", f"pairs={{kind='queries', rounds={_TEXTS}}}",
)  # fmt: skip


def query_student(student: str) -> str:
    """The student whose vectors begin among its teacher's: made of the teacher, or a model that follows it already."""
    if "/" not in student:
        check_student(without_vocabulary(student)[0])
    return IN_PLACE if student == STATIC else student


def query_keys(teacher: str) -> list[str]:
    """The preset's keys for a student that follows a teacher's queries: both read the words before a query."""
    encoder = load(teacher, device="cpu", frozen=True)
    words = role_prompt(encoder, "query")
    if not words or words == used_prompt(encoder):
        return list(_KEYS)
    own, its = ({"prompt": each} for each in (words, [words]))
    return [*_KEYS, f"encoder.{tomli_w.dumps(own)}", f"teachers.teacher.{tomli_w.dumps(its)}"]


def save_query_side(teacher: str, student: SentenceTransformer, folder: Path) -> None:
    """Write a model whose queries the student reads, and whose documents the teacher reads as before."""
    whole = load(teacher, device="cpu")
    joined = with_query_route(whole, list(student.to("cpu")), list(whole))
    joined.prompts["query"] = used_prompt(student)  # the words that it was trained with
    save(joined, folder)
