"""``isotrope search`` at the command line: data is shown as it is, queries come from arguments or
from a pipe.
"""

import io
import json
import sys
from pathlib import Path

import pytest

from helpers.commands import Said, Shell

TEXTS = ["one [/x] two", "[bold]three[/bold] :smile:", "a\x1b[2J river", "word " * 100]


@pytest.fixture(autouse=True)
def _vectors(
    tiny_model: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table, in the present folder."""
    monkeypatch.chdir(tmp_path)
    rows = [json.dumps({"text": text, "[id]": number}) for number, text in enumerate(TEXTS)]
    Path("rows.jsonl").write_text("\n".join(rows) + "\n")
    encode = [
        "encode",
        tiny_model,
        "rows.jsonl",
        "--text-column",
        "text",
        "--keep",
        "[id]",
        "--output",
        "vectors",
    ]
    assert shell(*encode).code == 0


def test_hits_are_shown_as_they_are_and_cut(shell: Shell) -> None:
    code, out, _ = shell("search", "vectors", "[red]a river[/red]", TEXTS[1])
    assert code == 0
    assert "[red]a river[/red]" in out
    heads = [line.split() for line in out.splitlines() if "similarity" in line]
    assert heads == [["rank", "similarity", "row", "[id]", "text"]] * 2
    first, second, escaped, long = (
        [line.split(maxsplit=4) for line in out.splitlines() if text in line]
        for text in ("one [/x] two", "[bold]three[/bold] :smile:", "a\\x1b[2J river", "word word")
    )
    assert (len(first), len(second), len(escaped), len(long)) == (2, 3, 2, 2)  # one is a query too
    assert second[2][:4] == ["1", "1.000", "1", "1"]
    assert long[0][4].strip().endswith("word…")


def test_hits_are_written_whole(shell: Shell) -> None:
    said = shell("search", "vectors", "a river", TEXTS[1], "--json", "hits.json")
    assert said.out.splitlines()[-1] == "written to hits.json"
    record = json.loads(Path("hits.json").read_text())
    assert [one["query"] for one in record] == ["a river", TEXTS[1]]
    best = record[1]["hits"][0]
    assert best["row"] == 1
    assert best["fields"] == {"text": TEXTS[1], "[id]": 1}
    assert sorted(hit["fields"]["text"] for hit in record[0]["hits"]) == sorted(TEXTS)


def test_queries_from_a_pipe(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(given: bytes) -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        return shell("search", "vectors", "--top", "1")

    code, out, _ = piped(b"a river\n\none [/x] two\n")
    assert (code, out.count("similarity")) == (0, 2)
    assert "1.000" in out
    piped(b"na\xefve\n").is_mistake("is not UTF-8 text")
    piped(b"\n").is_mistake("is empty")


def test_mistakes(shell: Shell) -> None:
    search = ["search", "vectors", "a"]
    shell(*search, "--model", "no").is_mistake(
        "no is neither a folder here nor a model … check the name"
    )
    shell(*search, "--top", "0").is_mistake("--top … see isotrope search --help")
    shell(*search, "--json", "no/hits.json").is_mistake("hits.json cannot be written: name a file")
