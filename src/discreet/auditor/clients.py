"""Clients that add their own noise as targets of an audit: in this process, or as a command that answers JSON lines.

**Theory of operation.** A *player* (`MechanismPlayer`, `DevicePlayer`, `CommandPlayer`) acts as one new device after
another: it reports a `History`, that is, a value on each of some occasions, and returns what left the device. A `Game` is
two histories and the ε that is claimed between them:

- `report_once`: one report of one value or another;
- `retry`: one occasion, asked for again and again, which must cost one report;
- `repeat`: one value on many occasions, the averaging attack: what a mean of reports reveals is limited by the budget, or by
  permanent noise;
- `recall`: two histories with the same pattern of equal values over time, as memoised noise promises it;
- `change_one`: histories of fresh noise that differ in one of several reports, which must cost one report: it shows clients
  that tell the truth later, or in what two reports say together.

`audit_client` plays both histories, reduces each play to numbers, and hands them to `audit`, which selects an event on some
plays and certifies it on others.

**The best event.** Reports of a set oracle are y with probability γ·base(y)·X^[x ∈ y], so {x ∈ y, x' ∉ y} is the event with
the largest ratio, X, and the most likely such event. The first number of a play is the sum over its reports of
[x ∈ y] − [x' ∈ y], which for fresh noise is the log-likelihood ratio of the two histories divided by ln X: its upper tail
is the best test of any size (Neyman and Pearson). The other numbers are what a fault would show in: how long messages are,
how many random bytes were taken, how many reports differ, what is refused, the fields of the first report, and the
difference and the exclusive or of the two last ones. `client_checks` adds what no report may depend on at all.

**False alarms.** All of these are functions of one play, and plays are of independent devices, so `audit`'s confidence
holds as it does for any mechanism: a correct client is refuted with probability at most 1 − `confidence`.

**Supports.** Noise may be private and still wrong: a biased hash spoils estimates, not ε. `measure_supports` bounds how
often reports support the true value and another one, to compare with what the mechanism states.
"""

import json
import shlex
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count, product
from math import inf, prod
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic
from typing import Any

import numpy as np

from discreet._numbers import Number, check_int, check_probability
from discreet.accounting.pure import pure
from discreet.auditor.attack import Progress, audit
from discreet.auditor.claims import Pair
from discreet.auditor.evidence import clopper_pearson_lower, clopper_pearson_upper
from discreet.auditor.finding import Finding
from discreet.auditor.outputs import ColumnNames, Outputs, concatenate
from discreet.auditor.parse_output import hash_text
from discreet.auditor.sampling import MIN_OUTPUTS, Columns, RepeatsByDrawing
from discreet.errors import BadParameter, BudgetExceeded, DiscreetError
from discreet.local.client import Client
from discreet.local.collection import Collection, Lifetime
from discreet.local.draws import Draws
from discreet.local.longitudinal import unpack_bits
from discreet.local.mechanism import AnyMechanism, State, draw_report, is_memoising
from discreet.local.numeric import OneBitMean, RoundedBit
from discreet.local.oracles import FixedHashed, Report, SetOracle
from discreet.local.rappor import Rappor
from discreet.local.store import BILLION, SECRET_BYTES, MemoryStore
from discreet.local.wire import BadMessage, Form, Wire
from discreet.noise import SYSTEM, Bits

# -- histories and games ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """What one device reports: a value on each occasion, in order. An occasion that comes again is a retry."""

    values: tuple[Any, ...]
    occasions: tuple[int, ...]

    def __repr__(self) -> str:
        if len(self.values) == 1:
            return f"a report of {self.values[0]!r}"
        if len(set(self.occasions)) == 1:
            return f"a report of {self.values[0]!r}, asked for {len(self.values)} times"
        if len(set(self.values)) == 1:
            return f"{len(self.values)} reports of {self.values[0]!r}"
        return f"reports of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True, slots=True)
class Game:
    """Two histories of a device, and the ε that is claimed between them."""

    name: str
    left: History
    right: History
    epsilon: Fraction | float


@dataclass(frozen=True, slots=True)
class Message:
    """What left the device on one occasion: a report and the length of its message, or a refusal."""

    report: Report = ()
    length: int = 0
    nonce: str = ""
    taken: int = 0  # random bytes, where the player can see them
    refused: bool = False
    text: str = ""  # the message itself, where there is one
    fault: str = ""  # why no client may send it


class Player:
    """Acts as one new device after another."""

    mechanism: AnyMechanism
    lifetime: Lifetime | None = None

    @abstractmethod
    def play(self, history: History, n: int) -> Iterator[list[Message]]:
        """Report a history n times, each time as a new device."""

    def index(self, value: Any) -> Any:
        """Return the number, or the bytes, by which the mechanism knows a value."""
        return value

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold what playing needs."""
        yield


def report_once(player: Player, left: Any, right: Any) -> Game:
    """One report of either value."""
    return Game("one report", *_make_histories([left], [right], [0]), pure(player.mechanism.event()))


def retry(player: Player, left: Any, right: Any, times: int = 8) -> Game:
    """One occasion that is asked for again and again: it must cost one report."""
    occasions = [0] * check_int(times, "times", 2)
    histories = _make_histories([left] * times, [right] * times, occasions)
    return Game("retries", *histories, pure(player.mechanism.event()))


def repeat(player: Player, left: Any, right: Any, reports: int = 32) -> Game:
    """The averaging attack: one value on many occasions."""
    check_int(reports, "reports", 2)
    histories = _make_histories([left] * reports, [right] * reports, range(reports))
    return Game("averaging", *histories, claim_for_life(player, histories[0]))


def recall(player: Player, left: Sequence[Any], right: Sequence[Any]) -> Game:
    """Two histories whose values are equal at the same pairs of times, on every device.

    Raises:
        BadParameter: their patterns differ, so that memoised noise promises nothing.
    """
    histories = _make_histories(left, right, range(len(left)))
    _check_patterns(player, *histories)
    return Game("memo", *histories, claim_for_life(player, histories[0]))


def change_one(player: Player, left: Any, right: Any, place: int, reports: int) -> Game:
    """Some reports of one value, of which one may be of another: fresh noise promises ε of one report.

    Raises:
        BadParameter: the noise is permanent, which promises nothing for histories with other patterns.
    """
    if is_memoising(player.mechanism):
        reason = "its noise is permanent, and one changed value is another pattern"
        raise BadParameter("mechanism", type(player.mechanism).__name__, reason, "use recall")
    values = [left] * check_int(reports, "reports", place + 1)
    histories = _make_histories(values, [*values[:place], right, *values[place + 1 :]], range(reports))
    return Game(f"report {place + 1} of {reports}", *histories, pure(player.mechanism.event()))


def claim_for_life(player: Player, history: History) -> Fraction | float:
    """Return the ε that a collection, or a mechanism on its own, promises for a history.

    For permanent noise that is ε of a state for each value, between histories with the same pattern.
    """
    reports, states = len(history.values), len(set(history.values))
    if player.lifetime is not None:
        life = player.lifetime
        times = {"once": 1, "state": states, "report": reports}[life.per]
        return Fraction(min(times * life.cost, life.limit), BILLION)
    mechanism = player.mechanism
    if not is_memoising(mechanism):
        return reports * pure(mechanism.event())
    fresh = mechanism.instantaneous_event()
    return min(states * pure(mechanism.permanent_event()), inf if fresh is None else reports * pure(fresh))


def list_games(player: Player, left: Any, right: Any, reports: int = 32) -> list[Game]:
    """Return the games that suit a client, for one pair of values."""
    games = [report_once(player, left, right), repeat(player, left, right, reports)]
    if not isinstance(player, MechanismPlayer):
        games.insert(1, retry(player, left, right))
    if is_memoising(player.mechanism):
        games.append(recall(player, [left, right, left, left], [right, left, right, right]))
        return games
    most = min(reports, count_allowed(player.lifetime))
    places = sorted({(0, 2), (1, 2), (most // 2, most // 2 + 1), (most - 1, most)})
    return [*games, *(change_one(player, left, right, place, of) for place, of in places if 1 < of <= most)]


def count_allowed(lifetime: Lifetime | None) -> int:
    """Return how many reports of changing values the account of a device can pay for."""
    if lifetime is None:
        return MAX_ALLOWED
    if lifetime.per == "once":
        return 1
    return min(MAX_ALLOWED, lifetime.limit // max(1, lifetime.cost))


MAX_ALLOWED = 10_000
"""More reports than this of one device are not asked for."""


MAX_DEVICES = 4096


def _make_histories(left: Sequence[Any], right: Sequence[Any], occasions: Sequence[int]) -> tuple[History, History]:
    if not len(left) == len(right) > 0:
        raise BadParameter("right", f"of {len(right)} reports", f"left has {len(left)}", "give equally many, at least one")
    return History(tuple(left), tuple(occasions)), History(tuple(right), tuple(occasions))


def _check_patterns(player: Player, left: History, right: History) -> None:
    """Refuse histories whose states are equal at different pairs of times, on some device."""
    mechanism = player.mechanism
    if not is_memoising(mechanism):
        return
    if prod(mechanism.device_moduli) > MAX_DEVICES:
        reason = "too many kinds of devices to compare the patterns of their states"
        raise BadParameter("mechanism", type(mechanism).__name__, reason, "audit it with fewer cohorts, or use repeat")
    for device in product(*map(range, mechanism.device_moduli)):
        one, two = (
            _pattern([mechanism.encode(player.index(value), device) for value in history.values])
            for history in (left, right)
        )
        if one != two:
            raise BadParameter(
                "right", repr(right), "its states are not equal at the same times as those of left",
                "give histories with the same pattern of changes",
            )  # fmt: skip


def _pattern(states: Sequence[State]) -> list[int]:
    return [states.index(state) for state in states]


# -- players ----------------------------------------------------------------------------------------------------------------


class StreamDraws:
    """Bytes of the keystream in blocks, with a count of those that were taken."""

    def __init__(self, bits: Bits | None = None) -> None:
        self._bits, self._rest, self._place, self.taken = SYSTEM if bits is None else bits, b"", 0, 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if self._place + count > len(self._rest):
            self._rest = self._rest[self._place :] + self._bits.words(max(1024, count // 8 + 1)).tobytes()
            self._place = 0
        start, self._place = self._place, self._place + count
        self.taken += count
        return self._rest[start : self._place]


DrawReport = Callable[[AnyMechanism, Any, Draws, bytes, str], tuple[State, Report]]


@dataclass
class MechanismPlayer(Player):
    """A mechanism on its own: no messages, no account. `draw` is what a client calls for one report."""

    mechanism: AnyMechanism
    draw: DrawReport = draw_report
    draws: StreamDraws = field(default_factory=StreamDraws)

    def play(self, history: History, n: int) -> Iterator[list[Message]]:
        """See `Player`. An occasion that comes again repeats its report."""
        for _ in range(n):
            secret, sent = self.draws.take(SECRET_BYTES), dict[int, Message]()
            for value, occasion in zip(history.values, history.occasions, strict=True):
                if occasion not in sent:
                    before = self.draws.taken
                    _, report = self.draw(self.mechanism, value, self.draws, secret, "audit")
                    sent[occasion] = Message(report, len(report), taken=self.draws.taken - before)
            yield [sent[occasion] for occasion in history.occasions]


class DevicePlayer(Player):
    """A `Client`, or a subclass, with a new store for each device."""

    def __init__(self, collection: Collection, kind: type[Client] = Client) -> None:
        self.collection, self.mechanism, self.lifetime = collection, collection.mechanism, collection.lifetime
        self.draws, self.wire = StreamDraws(), Wire(collection)
        self.client = kind(collection, MemoryStore(), draws=self.draws)
        self.cbor_client = kind(collection, MemoryStore(), Form.CBOR, draws=self.draws)

    def index(self, value: Any) -> Any:
        """See `Player`."""
        return self.collection.domain.index(value)

    def play(self, history: History, n: int) -> Iterator[list[Message]]:
        """See `Player`."""
        for _ in range(n):
            self.client.store = MemoryStore(self.draws.take(SECRET_BYTES))
            yield [
                self._report(value, f"occasion {place}")
                for value, place in zip(history.values, history.occasions, strict=True)
            ]

    def report_twice(self, value: Any) -> Message:
        """Report a value as a new device, in JSON and then in CBOR."""
        self.client.store = self.cbor_client.store = MemoryStore(self.draws.take(SECRET_BYTES))
        text = self.client.report(value, "occasion").decode("latin-1")
        code = self.cbor_client.report(value, "occasion").hex()
        return read_message(self.wire, text, cbor=self.cbor_client.wire, code=code)

    def _report(self, value: Any, occasion: str) -> Message:
        before = self.draws.taken
        try:
            message = self.client.report(value, occasion)
        except BudgetExceeded:
            return Message(refused=True, taken=self.draws.taken - before)
        return read_message(self.wire, message.decode("latin-1"), taken=self.draws.taken - before)


LINES_PER_PROCESS = 100_000
"""A process keeps the state of its devices; after so many reports it is ended, and another is started."""
LINES_AT_ONCE = 2_000


class CommandPlayer(Player):
    """A client in another process, such as `node client/discreet-local.js collection.json`.

    The process reads a line of JSON for each report, {"value": …, "device": "…", "occasion": "…"}, and answers each with a
    line: {"json": message, "report": [integers]}, with "cbor": message in hexadecimal if it writes that too, or {"error":
    reason} for what it refuses. `{collection}` in the command is replaced by the path of a file with the collection; a
    command without it gets that path at its end.
    """

    def __init__(self, collection: Collection, command: str | Sequence[str], limit: float = 60.0) -> None:
        self.collection, self.mechanism, self.lifetime = collection, collection.mechanism, collection.lifetime
        self.command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self.command:
            raise BadParameter("command", "empty", "there is nothing to run", "write node client/discreet-local.js")
        self.wire, self.cbor = Wire(collection), Wire(collection, Form.CBOR)
        self.limit, self._devices, self._asked = limit, count(), 0
        self._process: subprocess.Popen[str] | None = None
        self._folder: Path | None = None
        self._answers: Queue[str | None] = Queue()

    def index(self, value: Any) -> Any:
        """See `Player`."""
        return self.collection.domain.index(value)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the collection in a file, and end the process afterwards. What is open stays so."""
        if self._folder is not None:
            yield
            return
        with TemporaryDirectory(prefix="discreet-audit-") as folder:
            self._folder = Path(folder)
            (self._folder / "collection.json").write_bytes(self.collection.to_json())
            try:
                yield
            finally:
                self._stop()
                self._folder = None

    def play(self, history: History, n: int) -> Iterator[list[Message]]:
        """See `Player`."""
        reports = len(history.values)
        size = max(1, LINES_AT_ONCE // reports)
        for start in range(0, n, size):
            asked = [line for _ in range(min(size, n - start)) for line in self._write_device(history)]
            answers = self._exchange(asked)
            yield from (answers[first : first + reports] for first in range(0, len(answers), reports))

    def _write_device(self, history: History) -> Iterator[str]:
        device = f"device {next(self._devices)}"
        for value, place in zip(history.values, history.occasions, strict=True):
            yield json.dumps({"value": value, "device": device, "occasion": f"occasion {place}"}) + "\n"

    def _exchange(self, lines: list[str]) -> list[Message]:
        process = self._start()
        self._asked += len(lines)
        writer = Thread(target=_write_lines, args=(process.stdin, lines), daemon=True)
        writer.start()
        found = []
        for _ in lines:
            try:
                answer = self._answers.get(timeout=self.limit)
            except Empty:
                raise self._refuse(f"did not answer within {self.limit:g} s") from None
            if answer is None:
                raise self._refuse("ended before it answered")
            found.append(self._read_answer(answer))
        writer.join()
        return found

    def _read_answer(self, line: str) -> Message:
        try:
            answer = json.loads(line)
            if "error" in answer:
                return Message(refused=True)
            text, code = str(answer.get("json", "")), answer.get("cbor")
            report = tuple(int(number) for number in answer["report"])
            if not text:
                return Message(report, len(report))
            found = read_message(self.wire, text, cbor=self.cbor, code=None if code is None else str(code))
            if found.report != report:
                return replace(found, fault=found.fault or "its JSON holds another report than it says")
            return found
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._refuse(f"answered {line.strip()[:60]!r}, no line of JSON with a report") from None

    def _refuse(self, reason: str) -> BadParameter:
        self._stop()
        return BadParameter("command", repr(shlex.join(self.command)), reason, "run it by hand with one line of JSON")

    def _start(self) -> "subprocess.Popen[str]":
        if self._folder is None:
            raise BadParameter("player", "closed", "its process is not held", "play within `with player.open():`")
        if self._process is not None and self._process.poll() is None and self._asked < LINES_PER_PROCESS:
            return self._process
        self._stop()
        path = str(self._folder / "collection.json")
        words = [word.replace("{collection}", path) for word in self.command]
        words += [] if words != self.command else [path]
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1 << 16
            )
        except OSError as failed:
            raise BadParameter("command", repr(words[0]), failed.strerror or "cannot be run", "name a program") from None
        self._asked, self._answers = 0, Queue()
        Thread(target=_read_lines, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError, ValueError):  # the process ended; its missing answers say so
                        pipe.close()
        self._process = None


def _write_lines(pipe: Any, lines: list[str]) -> None:
    with suppress(OSError, ValueError):  # the process ended; its missing answers say so
        pipe.write("".join(lines))
        pipe.flush()


def _read_lines(pipe: Any, answers: "Queue[str | None]") -> None:
    with suppress(ValueError):  # the pipe was closed
        for line in pipe:
            answers.put(line)
    answers.put(None)


def read_message(wire: Wire, text: str, *, cbor: Wire | None = None, code: str | None = None, taken: int = 0) -> Message:
    """Read what a client sent, and say why no client may send it: it is no message of the collection, or its CBOR (`code`,
    in hexadecimal) holds something else."""
    fields, length = json.loads(text), len(text.encode("utf-8"))
    found = Message(tuple(int(each) for each in fields["y"]), length, str(fields["n"]), taken, text=text)
    try:
        sent = wire.read(text.encode("utf-8"))
        fault = ""
        if cbor is not None and code is not None and cbor.read(bytes.fromhex(code)) != sent:
            fault = "its CBOR holds another report or nonce than its JSON"
    except BadMessage as wrong:
        fault = f"no client of the collection writes it: {wrong}"
    except ValueError:
        fault = "its CBOR is not written in hexadecimal"
    return replace(found, fault=fault)


# -- plays as numbers -------------------------------------------------------------------------------------------------------


def _read_hex(digits: str) -> int:
    try:
        return int(digits or "0", 16)
    except ValueError:
        return 0


FIELDS_SHOWN = 8
"""So many fields of the first report are columns."""
SUPPORT = "the support of the first history less that of the second"
NAMES = (
    SUPPORT, "the length of the messages", "the random bytes taken", "the number of different reports",
    "the number of refusals", "the number of fields", "the first nonce", "the difference of the last two reports",
    "the sum of the last two reports", "the exclusive or of the last two reports",
    *(f"field {place}" for place in range(FIELDS_SHOWN)),
)  # fmt: skip


@dataclass(frozen=True)
class GameSampler(RepeatsByDrawing):
    """Plays as outputs of an audit."""

    player: Player
    game: Game
    is_fast: bool = False

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """See `Sampler`."""
        parts, done = list[Outputs](), 0
        while done < n and (done < MIN_OUTPUTS or monotonic() <= until):
            size = min(n - done, MIN_OUTPUTS if done < MIN_OUTPUTS else 500)
            parts.append(self._tabulate(list(self.player.play(data, size))))
            done += size
        outputs = concatenate(parts)
        return outputs if columns is None else outputs.keep_columns(columns)

    def _tabulate(self, plays: list[list[Message]]) -> Outputs:
        game = self.game
        values = [
            (self.player.index(one), self.player.index(two))
            for one, two in zip(game.left.values, game.right.values, strict=True)
        ]
        numbers = np.full((len(plays), len(NAMES)), np.nan)
        digests, kinds = np.empty(len(plays), np.int64), np.empty(len(plays), np.int64)
        labels: dict[int, str] = {}
        for row, play in enumerate(plays):
            first = play[0]
            numbers[row, : len(NAMES) - FIELDS_SHOWN] = (
                self._weigh(play, values), sum(each.length for each in play), sum(each.taken for each in play),
                len({each.report for each in play}), sum(each.refused for each in play),
                sum(len(each.report) for each in play), _read_hex(first.nonce[:12]), *self._join(play),
            )  # fmt: skip
            shown = first.report[:FIELDS_SHOWN]
            start = len(NAMES) - FIELDS_SHOWN
            numbers[row, start : start + len(shown)] = shown
            digests[row] = hash(tuple((each.report, each.length, each.taken, each.refused) for each in play))
            refused = sum(each.refused for each in play)
            label = f"{len(play)} reports" if not refused else f"{len(play)} reports, {refused} of them refused"
            kinds[row] = hash_text(label)
            labels[int(kinds[row])] = label
        return Outputs(kinds, digests, ColumnNames(NAMES, ()), numbers, labels)

    def _join(self, play: list[Message]) -> tuple[float, float, float]:
        """What the last fields of the last two reports say together: their difference and sum, modulo what they stay below,
        and their exclusive or."""
        last = [each.report[-1] for each in play[-2:] if each.report]
        if len(last) < 2:
            return (0.0, 0.0, 0.0)
        below = max(1, self.player.mechanism.fields[-1].below)
        return float((last[1] - last[0]) % below), float((last[1] + last[0]) % below), float(abs(last[1] ^ last[0]))

    def _weigh(self, play: list[Message], values: list[tuple[Any, Any]]) -> float:
        """Add up how much more the reports support the first history than the second."""
        mechanism, total = self.player.mechanism, 0.0
        for message, (left, right) in zip(play, values, strict=True):
            if message.refused:
                continue
            try:
                total += weigh_report(mechanism, message.report, left) - weigh_report(mechanism, message.report, right)
            except (IndexError, ValueError):  # no report of this mechanism; other columns show it
                continue
        return total


def weigh_report(mechanism: AnyMechanism, report: Report, value: Any) -> float:
    """Return how much a report supports a value: whether its set contains it, how many bits of its Bloom filter are 1.

    >>> from discreet.local.oracles import Direct
    >>> weigh_report(Direct(3, Fraction(2)), (1,), 1), weigh_report(Direct(3, Fraction(2)), (1,), 2)
    (1.0, 0.0)
    """
    supports = getattr(mechanism, "supports", None)
    if supports is not None:
        return float(supports(report, value))
    if isinstance(mechanism, Rappor):
        bits = unpack_bits(report[1:], mechanism.size)
        return float(sum(bits[place] for place in mechanism.filter(value, report[0])))
    if isinstance(mechanism, OneBitMean | RoundedBit):
        return float(report[-1] * value)
    return 0.0


def audit_client(
    player: Player,
    game: Game,
    *,
    confidence: Number = 0.999,
    samples: int | None = None,
    seconds: float | None = None,
    sharp: bool = False,
    progress: Progress | None = None,
) -> Finding:
    """Attack a client in a game, and certify a lower bound on its ε.

    A correct client is refuted with probability at most 1 − `confidence`.

    >>> from discreet.local.oracles import Direct
    >>> player = MechanismPlayer(Direct(4, Fraction(3)))
    >>> found = audit_client(player, report_once(player, 0, 1), samples=4_000)
    >>> found.violation, round(found.claimed_epsilon, 4)
    (False, 1.0986)
    """
    with player.open():
        return audit(
            GameSampler(player, game), game.epsilon, [Pair(game.left, game.right)], confidence=confidence, samples=samples,
            seconds=seconds, sharp=sharp, progress=progress,
        )  # fmt: skip


# -- supports ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SupportInterval:
    """How often reports support a value: what is stated, and certified bounds on what is."""

    value: Any
    stated: Fraction
    lower: float
    upper: float

    @property
    def violation(self) -> bool:
        """Whether the stated probability is outside the bounds."""
        return not self.lower <= self.stated <= self.upper


def measure_supports(
    player: Player, value: Any, other: Any, *, samples: int = 20_000, confidence: Number = 0.999
) -> list[SupportInterval]:
    """Bound how often reports of a value support it, and how often they support another one.

    All bounds hold together with this confidence. Public hash functions treat pairs of values differently by construction,
    so of these only the first is compared.

    >>> from discreet.local.oracles import Direct
    >>> [each.violation for each in measure_supports(MechanismPlayer(Direct(4, Fraction(3))), 0, 1, samples=2_000)]
    [False, False]
    """
    mechanism = player.mechanism
    if not isinstance(mechanism, SetOracle):
        raise BadParameter("mechanism", type(mechanism).__name__, "it states no supports", "audit a set oracle")
    n = check_int(samples, "samples", 1)
    stated = [(value, mechanism.truth_support)]
    if not isinstance(mechanism, FixedHashed):
        stated.append((other, mechanism.other_support))
    alpha = float(1 - check_probability(confidence, "confidence")) / (2 * len(stated))
    times = [0] * len(stated)
    indices = [player.index(each) for each, _ in stated]
    with player.open():
        for (message,) in player.play(History((value,), (0,)), n):
            for place, index in enumerate(indices):
                try:
                    times[place] += mechanism.supports(message.report, index)
                except (IndexError, DiscreetError):
                    continue
    return [
        SupportInterval(each, share, clopper_pearson_lower(k, n, alpha), clopper_pearson_upper(k, n, alpha))
        for (each, share), k in zip(stated, times, strict=True)
    ]
