"""No two streams are ever the same: not in forked children, not in threads, not after re-keying."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet import noise
from discreet.noise import bits
from discreet.noise.bits import SYSTEM, Keystream
from discreet.testing import seeded_bits


def _words(queue: "multiprocessing.Queue[list[int]]") -> None:
    queue.put(SYSTEM.words(64).tolist())


def test_forked_children_and_parent_draw_different_words() -> None:
    SYSTEM.words(1)  # the parent is keyed before it forks
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    children = [fork.Process(target=_words, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    streams = [queue.get(timeout=30) for _ in children]
    for child in children:
        child.join()
    streams.append(SYSTEM.words(64).tolist())
    assert len({word for stream in streams for word in stream}) == 3 * 64


def test_a_fork_while_another_thread_holds_the_lock_does_not_hang() -> None:
    assert isinstance(SYSTEM, Keystream)
    with SYSTEM._lock:
        child = os.fork()
        if child == 0:
            SYSTEM.words(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_a_new_process_id_alone_re_keys(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """The mutant of a fork whose hooks did not run: same state, other pid."""
    stream = Keystream(iter([bytes(48), bytes(range(48))]).__next__, tainted=True)
    first = stream.words(4).tolist()
    monkeypatch.setattr(bits.os, "getpid", lambda: -1)
    assert stream.words(4).tolist() != first
    again = Keystream(iter([bytes(48), bytes(range(48))]).__next__, tainted=True)
    assert again.words(4).tolist() == first  # with one key, two streams do repeat each other


def test_threads_never_see_the_same_word() -> None:
    with ThreadPoolExecutor(8) as pool:
        streams = list(pool.map(lambda _: SYSTEM.words(20_000), range(16)))
    words = np.concatenate(streams)
    assert np.unique(words).size == words.size


# -- long arrays, on several threads ----------------------------------------------------------------------------------------

LONG = 5 * bits.SPAN_SIZE + 3
SAMPLERS = {
    "discrete Laplace": lambda source: noise.discrete_laplace(1 << 30, LONG, source),
    "rounded Gaussian": lambda source: noise.rounded_gaussian(1 << 30, LONG, source),
    "discrete Gaussian": lambda source: noise.discrete_gaussian(1 << 30, LONG, source),
    "uniform below": lambda source: noise.uniform_below(1 << 62, LONG, source),
}


@pytest.mark.parametrize("size", [bits.SPAN_SIZE + 1, 2 * bits.SPAN_SIZE, 2 * bits.SPAN_SIZE + 1, LONG, 10**7])
def test_spans_cover_an_array_once_and_are_equally_long(size: int) -> None:
    spans = bits.cut_spans(size)
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == size
    lengths = {span.stop - span.start for span in spans}
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= bits.SPAN_SIZE
    assert len(spans) % 2 == 0


def spans_repeat(draws: NDArray[np.int64]) -> bool:
    """Say whether two spans share much of what they drew first, in any order."""
    spans = [draws[span][:1000] for span in bits.cut_spans(draws.size)]
    return any(np.intersect1d(a, b).size > a.size // 2 for a, b in combinations(spans, 2))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_spans_of_a_long_array_share_no_keystream(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "count_processors", lambda: 3)
    for source in (None, seeded_bits(3)):
        assert not spans_repeat(SAMPLERS[sampler](source))


def test_a_keystream_that_threads_share_by_its_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: every split has the key of the whole."""
    monkeypatch.setattr(Keystream, "split", lambda self: Keystream(lambda: bytes(48), tainted=self.tainted))
    assert spans_repeat(SAMPLERS["rounded Gaussian"](None))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_seeded_draws_are_the_same_on_any_number_of_processors(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []
    for processors in (1, 2, 7):
        monkeypatch.setattr(bits, "count_processors", lambda n=processors: n)
        draws.append(SAMPLERS[sampler](seeded_bits(9)))
    assert (draws[0] == draws[1]).all()
    assert (draws[0] == draws[2]).all()


def test_streams_that_are_split_off_differ_from_their_source_and_each_other() -> None:
    for source in (SYSTEM, seeded_bits(4)):
        assert isinstance(source, Keystream)
        streams = [source.split() for _ in range(4)]
        assert all(stream.tainted == source.tainted for stream in streams)
        words = np.concatenate([stream.words(1000) for stream in [source, *streams, streams[0].split()]])
        assert np.unique(words).size == 6000
    again = seeded_bits(4)
    assert isinstance(again, Keystream)
    assert (again.split().words(5) == streams[0].words(1005)[1000:]).sum() == 0  # the same stream, further on
    assert (seeded_bits(4).split().words(5) == seeded_bits(4).split().words(5)).all()  # type: ignore[attr-defined]


def test_a_split_stream_gets_new_keys_too() -> None:
    """The first 64 MiB or 4096 requests have one key; seeded streams go on the same way."""
    first, second = (seeded_bits(5).split() for _ in range(2))  # type: ignore[attr-defined]
    for _ in range(bits.REKEY_CALLS + 3):
        assert first.words(1) == second.words(1)
    first._reset()
    assert first.words(1) != second.words(1)


def test_a_forked_child_draws_long_arrays_of_its_own() -> None:
    noise.rounded_gaussian(1 << 30, LONG)  # threads have run before the fork
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    starts = [span.start for span in bits.cut_spans(LONG)]
    child = fork.Process(target=lambda: queue.put(noise.rounded_gaussian(1 << 30, LONG)[starts].tolist()))
    child.start()
    others = queue.get(timeout=60)
    child.join()
    assert not set(others) & set(noise.rounded_gaussian(1 << 30, LONG)[starts].tolist())


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    def fill(out: NDArray[np.int64], source: bits.Bits, workspace: bits.Workspace) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        bits.draw_array(LONG, fill, np.int64, SYSTEM)


def test_where_no_thread_can_start_the_caller_draws_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "count_processors", lambda: 4)
    expected = noise.rounded_gaussian(7, LONG, seeded_bits(2))

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert (noise.rounded_gaussian(7, LONG, seeded_bits(2)) == expected).all()


def test_a_short_array_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "count_processors", lambda: 1 / 0)
    assert noise.rounded_gaussian(5, bits.SPAN_SIZE).size == bits.SPAN_SIZE
    with pytest.raises(ZeroDivisionError):
        noise.rounded_gaussian(5, bits.SPAN_SIZE + 1)


def test_keys_are_replaced_after_bounded_output_and_bounded_calls() -> None:
    keys = []

    def seed() -> bytes:
        keys.append(len(keys))
        return os.urandom(48)

    stream = Keystream(seed, tainted=True)
    for _ in range(bits.REKEY_CALLS + 1):
        stream.words(1)
    assert len(keys) == 2
    stream.words(2 * bits.REKEY_BYTES // 8)
    assert len(keys) == 3  # the second key had been used for one word already


def test_system_bits_are_clean_and_seeded_bits_are_tainted() -> None:
    assert not SYSTEM.tainted
    assert seeded_bits(1).tainted
    assert (seeded_bits(1).words(9) == seeded_bits(1).words(9)).all()
    assert (seeded_bits(1).words(9) != seeded_bits(2).words(9)).any()


def test_words_are_the_aes_256_counter_keystream() -> None:
    """FIPS 197, appendix C.3: the block 00112233…ff under the key 00 01 … 1f is 8ea2b7ca516745bfeafc49904b496089."""
    key, block = bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff")
    words = Keystream(lambda: key + block, tainted=True).words(2)
    assert words.tobytes().hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_empty_requests_are_empty() -> None:
    assert noise.discrete_laplace(3, 0).size == noise.rounded_gaussian(3, 0).size == SYSTEM.words(0).size == 0


# -- arrays that are used again ---------------------------------------------------------------------------------------------


class FreshWords:
    """A stream that hands out a new array at every call, so that no workspace keeps its words."""

    tainted = True

    def __init__(self, stream: bits.Bits) -> None:
        self.words = stream.words


BLOCKS = {
    "rounded Gaussian": lambda source: noise.rounded_gaussian(1 << 30, bits.SPAN_SIZE, source),
    "discrete Gaussian": lambda source: noise.discrete_gaussian(1 << 30, bits.SPAN_SIZE, source),
    "discrete Gaussian by table": lambda source: noise.discrete_gaussian(200, bits.SPAN_SIZE, source),
    "binomial": lambda source: noise.binomial(10_000, bits.SPAN_SIZE, source),
    "uniform below": lambda source: noise.uniform_below((1 << 62) + 1, 2 * bits.CHUNK_SIZE, source),
    "coins": lambda source: noise.bernoulli(0.3, 2 * bits.CHUNK_SIZE, source),
}


@pytest.mark.parametrize("sampler", BLOCKS)
def test_a_workspace_changes_no_draw(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block after block, the arrays of a workspace give what new arrays give: no word is used twice, none is lost."""
    draw = BLOCKS[sampler]
    expected = draw(FreshWords(seeded_bits(3)))
    assert (draw(seeded_bits(3)) == expected).all()
    original, first = bits.Workspace.words, list[bits.Words]()

    def repeat(workspace: bits.Workspace, size: int, source: bits.Bits, name: str = "words") -> bits.Words:
        if not first:
            first.append(original(workspace, size, source, name).copy())
        return first[0][:size].copy()

    monkeypatch.setattr(bits.Workspace, "words", repeat)  # the mutant: every block has the words of the first
    assert (draw(seeded_bits(3)) != expected).any()
