"""Both clients, Python and JavaScript, do what the conformance vectors say; wrong clients are noticed."""

import json
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import BadParameter
from discreet.local.client import Client
from discreet.local.collection import Collection
from discreet.local.draws import TapeDraws, below
from discreet.local.oracles import Direct
from discreet.local.store import MemoryStore
from discreet.local.vectors import choose_collection, list_mechanisms, list_vectors, run_client, write_vectors
from tests.support.node import CLIENT, ROOT, find_node, run_node

CHECK = ROOT / "tests" / "support" / "check_client.mjs"
GOLDEN = "a351a98be2b29261faa80e43ee1035ffa35af1daacb95a78f02b86bdd47b3f45"
"""SHA-256 of all lines: a change of any client or format changes it, and needs a new format or wire version."""


@cache
def lines() -> tuple[str, ...]:
    return tuple(write_vectors(list_vectors()))


@cache
def vectors() -> tuple[dict[str, Any], ...]:
    return tuple(map(json.loads, lines()))


def collections() -> dict[str, Collection]:
    return {v["id"]: Collection.read(v["text"], v["id"]) for v in vectors() if v["kind"] == "collection"}


def test_the_vectors_are_those_of_this_format() -> None:
    assert sha256("\n".join(lines()).encode()).hexdigest() == GOLDEN


def test_every_mechanism_has_two_hundred_reports_with_rejections_and_ends_of_tapes() -> None:
    known, counts, rejected, ended = collections(), Counter[str](), Counter[str](), Counter[str]()
    for vector in vectors():
        if vector["kind"] != "report":
            continue
        mechanism = known[vector["collection"]].mechanism
        kind = json.loads(known[vector["collection"]].to_json())["mechanism"]["type"]
        counts[kind] += 1
        ended[kind] += vector.get("error") == "tape"
        least = 16 + sum(((modulus - 1).bit_length() + 7) // 8 for modulus in mechanism.moduli)
        rejected[kind] += vector.get("consumed", 0) > least
    assert counts.keys() == list_mechanisms().keys()
    assert min(counts.values()) >= 200
    assert min(ended.values()) >= 20
    assert min(rejected.values()) >= 20


def test_the_python_client_agrees() -> None:
    """Vectors are read back, as a client in another language reads them."""
    known, seen = collections(), Counter[str]()
    for vector in vectors():
        seen[vector["kind"]] += 1
        match vector["kind"]:
            case "below":
                draws = TapeDraws(bytes.fromhex(vector["tape"]))
                if "error" not in vector:
                    assert (below(draws, vector["bound"]), draws.consumed) == (vector["number"], vector["consumed"])
                    continue
                with pytest.raises(BadParameter, match="tape"):
                    below(draws, vector["bound"])
            case "report":
                secret, tape = bytes.fromhex(vector["secret"]), bytes.fromhex(vector["tape"])
                found = run_client(known[vector["collection"]], vector["value"], secret, tape)
                assert found.items() <= vector.items()
            case "history":
                conditional = vector.get("conditional", False)
                store = MemoryStore(bytes.fromhex(vector["secret"]), vector["limit"], conditional=conditional)
                for step in vector["steps"]:
                    if "json" in step:
                        draws = TapeDraws(bytes.fromhex(step["tape"]))
                        client = Client(known[vector["collection"]], store, draws=draws)
                        assert client.report(step["value"], step["occasion"]).decode() == step["json"]
    assert set(seen) == {"hash", "stream", "below", "collection", "law", "report", "history"}


# -- JavaScript ------------------------------------------------------------------------------------------------------------


def check_javascript(client: Path, of: tuple[str, ...], *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_node(CHECK, client, *options, lines="\n".join(of) + "\n"))
    return found


def test_the_javascript_client_agrees() -> None:
    """With every vector, with all draws of tiny domains, and with `below` on all tapes of one and two bytes."""
    found = check_javascript(CLIENT, lines())
    assert found["wrong"] == []
    kinds = Counter(vector["kind"] for vector in vectors())
    assert found["agreed"] == dict(kinds) | {"uniform": 261}


MUTANTS = {
    "a draw of seven bits": (
        "direct",
        "2 ** (bits - 8 * (size - 1)) - 1;",
        "Math.min(127, 2 ** (bits - 8 * (size - 1)) - 1);",
    ),
    "a remainder for a rejection": ("direct", "if (number < bound) return number;", "return number % bound;"),
    "a coin of doubles": ("direct", "if (number < a) return true_;", "if (number / (a + b) < 0.75) return true_;"),
    "a bit that is never cleared": (
        "unary",
        "number < (place === value ? truth : other)",
        "place === value || number < other",
    ),
    "32-bit rows": ("hadamard", "^ ((one / 2 ** 32) & (two / 2 ** 32))", ""),
    "products of doubles": ("hashed", "product < MAX_MODULUS ? product % modulus :", "true ? product % modulus :"),
    "no padding": ("direct", ".padEnd(size)", ""),
    "the shortest numbers": ("direct", "if (bound <= 24)", "if (number < 24)"),
    "fresh noise on retry": ("direct", "if (!entry.sent.has(occasion))", "if (true)"),
    "an account that forgets": ("direct", "entry.spent += cost;", ""),
    "draws that depend on the value": (
        "direct",
        "const drawn = drawAll(draws, mechanism.moduli);",
        "if (value === 0) draws.take(0); const drawn = drawAll(draws, mechanism.moduli);",
    ),
    "a memo without the collection": ("rappor", "discreet.local memo ${id} device", "discreet.local memo device"),
    "a memo without the state": ("bucket flip", ' state ${state.join(",")}', ""),
    "permanent noise that is redrawn": (
        "rounded bit",
        "drawAll(stream, mechanism.permanentModuli)",
        "drawAll(new SystemDraws(), mechanism.permanentModuli)",
    ),
    "states that are paid for once and for all": ("basic rappor", "!entry.states.includes(mark)", "!entry.states.length"),
    "letters of 16 bits": ("unknown rappor", "Array.from(new TextDecoder", "((text) => text.split(''))(new TextDecoder"),
    "the order of drawing": ("subset", "report.sort((one, two) => one - two)", "report"),
}
"""Wrong clients: of which mechanism the vectors show it, what is replaced, and by what."""


def lines_of(kind: str) -> tuple[str, ...]:
    """The vectors of one kind of mechanism, and those of no mechanism."""
    ids = {v["id"] for v in vectors() if v["kind"] == "collection" and json.loads(v["text"])["mechanism"]["type"] == kind}
    named = [vector.get("id", vector.get("collection")) for vector in vectors()]
    return tuple(line for line, name in zip(lines(), named, strict=True) if name is None or name in ids)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_javascript_client_is_noticed(name: str, tmp_path: Path) -> None:
    kind, right, wrong = MUTANTS[name]
    text = CLIENT.read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "mutant.js").write_text(text.replace(right, wrong), encoding="utf-8")
    assert check_javascript(tmp_path / "mutant.js", lines_of(kind), "--first")["wrong"] != []


def test_the_client_is_one_file_without_dependencies() -> None:
    text = CLIENT.read_text(encoding="utf-8")
    assert set(re.findall(r"import\(\"([^\"]+)\"\)", text)) == {"node:fs", "node:readline", "node:url"}  # in a shell alone
    assert not re.search(r"^import .* from|Math\.random|require\(", text.split("*/", 1)[1], re.MULTILINE)


def test_the_shell_answers_lines(tmp_path: Path) -> None:
    collection = choose_collection(Direct(2, Fraction(3)))
    (tmp_path / "collection.json").write_bytes(collection.to_json())
    asked: list[dict[str, Any]] = [
        {"value": "yes", "secret": "07" * 32, "tape": "ff00" * 20},
        {"value": "no"},
        {"value": "no", "device": "d", "occasion": "a"},
        {"value": "yes", "device": "d", "occasion": "a"},
        {"value": "no", "device": "d"},
        {"value": "no", "device": "d"},
        {"value": "perhaps"},
    ]
    answers = run_node(CLIENT, tmp_path / "collection.json", lines="".join(json.dumps(line) + "\n" for line in asked))
    first, second, third, again, fourth, spent, outside = map(json.loads, answers.splitlines())
    assert first == run_client(collection, "yes", b"\x07" * 32, b"\xff\0" * 20)
    assert again == third
    assert len({first["json"], second["json"], third["json"], fourth["json"]}) == 4
    assert (spent, outside) == ({"error": "budget"}, {"error": "value"})


def test_a_machine_without_node_fails_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.fail.Exception, match="install Node 20"):
        find_node()
