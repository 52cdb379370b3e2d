"""Naive forms of the retrieval measures: one query, one list, one loop at a time."""

import math


def order(query, corpus, grades, own=None):
    """Places of the corpus by falling cosine; among equal ones the least relevant first; without
    text `own`.
    """

    def cosine(text):
        dot = sum(a * b for a, b in zip(query, text, strict=True))
        return dot / math.sqrt(sum(a * a for a in query)) / math.sqrt(sum(b * b for b in text))

    places = [j for j in range(len(corpus)) if j != own]
    return sorted(places, key=lambda j: (-round(cosine(corpus[j]), 12), grades[j]))


def ndcg(found, grades, k):
    def gain(ordered):
        return sum(grade / math.log2(place + 1) for place, grade in enumerate(ordered[:k], start=1))

    return gain([grades[j] for j in found]) / gain(sorted(grades, reverse=True))


def reciprocal_rank(found, grades, k):
    return next((1 / place for place, j in enumerate(found[:k], start=1) if grades[j] > 0), 0.0)


def recall(found, grades, k):
    return sum(grades[j] > 0 for j in found[:k]) / sum(grade > 0 for grade in grades)
