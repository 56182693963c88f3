"""`discreet local vectors`: the conformance vectors of clients."""

from typing import Annotated

from discreet.cli.local.options import local
from discreet.cli.options import ANSWER_PANEL, Json, make_option
from discreet.cli.output import print_data, print_json, print_styled


@local.command("vectors", epilog="Example: [bold]discreet local vectors --out vectors.jsonl[/bold]")
def local_vectors(
    out: Annotated[str | None, make_option(ANSWER_PANEL, "Write them into this file; to stdout, unless given.")] = None,
    json: Json = False,
) -> None:
    """Write the conformance vectors: what every client, in every language, does with the same random bytes.

    Each line is JSON. They are the same on every machine; --json prints how many there are of each kind, and their hash.
    """
    from collections import Counter
    from hashlib import sha256

    from discreet.formats import refuse_unwritable
    from discreet.local.vectors import list_vectors, write_vectors

    vectors = list(list_vectors())
    text = "".join(f"{line}\n" for line in write_vectors(vectors))
    if out is not None:
        with refuse_unwritable(out, "--out"), open(out, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    if json:
        kinds = Counter(str(vector["kind"]) for vector in vectors)
        digest = sha256(text.encode()).hexdigest()
        print_json({"file": out, "vectors": len(vectors), "kinds": dict(kinds), "sha256": digest})
    elif out is None:
        print_data(text)
    else:
        print_styled(f"{len(vectors):,} vectors written to {out}.")
