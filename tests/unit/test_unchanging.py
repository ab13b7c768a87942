"""What a process keeps of objects that never change: bounded, asked for once, and nothing of what was replaced or deleted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

from hypothesis import given
from hypothesis import strategies as st

from cdc_views.storage.unchanging import SMALL, Unchanging

_URLS = st.sampled_from([f"s3://lake/{n}" for n in range(6)])
_STEPS = st.one_of(
    st.tuples(st.just("write"), _URLS, st.integers(0, 40)), st.tuples(st.sampled_from(["forget", "read"]), _URLS, st.just(0))
)


@given(st.lists(_STEPS, max_size=60))
def test_it_tells_what_the_store_has_and_keeps_no_more_than_it_may(steps: list[tuple[str, str, int]]) -> None:
    store, kept = dict[str, bytes](), Unchanging(most_bytes=100)
    for number, (step, url, size) in enumerate(steps):
        if step == "write":
            store[url] = bytes([number]) * size
            kept.keep(url, store[url])
        elif step == "forget":
            store.pop(url, None)
            kept.forget(url)
        elif url in store:
            assert kept.content(url, partial(store.__getitem__, url)) == store[url]
        held = {url: kept.content(url, bytes) for url in store if kept.has(url)}
        assert all(content == store[url] for url, content in held.items())
        assert sum(map(len, held.values())) <= 100
        assert all(kept.size(url) is None for url in {step[1] for step in steps} - store.keys())


def test_a_large_object_has_its_size_kept_alone() -> None:
    kept = Unchanging()
    kept.keep("s3://lake/a", bytes(SMALL + 1))
    assert kept.size("s3://lake/a") == SMALL + 1
    assert not kept.has("s3://lake/a")


def test_two_threads_ask_once() -> None:
    kept, asked, may_answer = Unchanging(), list[str](), Event()

    def read() -> bytes:
        asked.append("s3://lake/a")
        may_answer.wait(10)
        return b"content"

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(kept.content, "s3://lake/a", read) for _ in range(2)]
        may_answer.set()
        assert [answer.result() for answer in answers] == [b"content"] * 2
    assert asked == ["s3://lake/a"]
