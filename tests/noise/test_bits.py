"""No two streams are ever the same: not in forked children, not in threads, not after re-keying."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

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
