"""The key `stream` of a plan: the parameters of a stream as TOML.

    stream = {every = "day", steps = 1024, at_most = 3, apart = 7}

Its keys are parameters of `open_stream`, and mean the same; all mistakes are listed at once.
"""

import tomllib
from collections.abc import Mapping
from datetime import date
from os import PathLike
from typing import Any

from discreet.errors import BadParameter
from discreet.paths import read_text

PLAN_KEYS: dict[str, tuple[type, ...]] = {
    "query": (str,), "name": (str,), "time": (str,), "every": (str,), "start": (str, date), "steps": (int,),
    "at_most": (int,), "apart": (int,), "epsilon": (int, float, str),
}  # fmt: skip


def read_stream_plan(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the parameters under the key `stream` of a TOML file.

    Raises:
        BadParameter: the file cannot be read, or holds what no stream has; every such key is named.
    """
    text = read_text(path, lambda reason: BadParameter("plan", repr(str(path)), reason, "name another file"))
    try:
        found = tomllib.loads(text, parse_float=str).get("stream")
    except tomllib.TOMLDecodeError as error:
        raise BadParameter("plan", repr(str(path)), f"not TOML: {error}", "see docs/streams.md#the-plan-key") from None
    if not isinstance(found, Mapping):
        hint = 'write stream = {every = "day", steps = 1024, at_most = 3, apart = 7}'
        raise BadParameter("plan", repr(str(path)), "it has no key `stream`", hint)
    wrong = [f"stream.{key} is no parameter of a stream" for key in found if key not in PLAN_KEYS]
    wrong += [
        f"stream.{key} is {value!r}"
        for key, value in found.items()
        if key in PLAN_KEYS and (not isinstance(value, PLAN_KEYS[key]) or isinstance(value, bool))
    ]
    if wrong:
        raise BadParameter("plan", repr(str(path)), "; ".join(wrong), f"its keys are {', '.join(PLAN_KEYS)}")
    return dict(found)
