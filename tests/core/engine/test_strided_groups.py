"""KV groups that keep one entry for several tokens."""

from __future__ import annotations

import pytest

from modelhost.api import ConfigError
from modelhost.api.backend import CacheLayout
from modelhost.engine.kv_cache import KVCacheManager, KVGroup, kv_groups
from modelhost.engine.request import Request
from modelhost.engine.sampling_params import SamplingParams
from modelhost.graph.cache import CacheSpec

SPECS = [CacheSpec(1, 6, 6, latent=True, stride=stride) for stride in (2, 8, 2)]


def test_bytes_of_a_group() -> None:
    small, large = kv_groups(SPECS, "float32")
    assert (small.name, small.stride, small.bytes_per_token) == ("strided_2", 2, 2 * 24)
    assert [small.bytes_per_block(4), large.bytes_per_block(4)] == [2 * 48, 24]
    assert [group.tokens_per_block(4) for group in (small, large)] == [4, 8]
    assert [group.blocks_per_sequence(21, 21, 4) for group in (small, large)] == [6, 3]


def test_a_block_size_that_does_not_fit() -> None:
    assert KVGroup("strided_12", stride=12).tokens_per_block(4) == 12
    with pytest.raises(ConfigError) as raised:
        KVGroup("strided_12", stride=12).tokens_per_block(8)
    assert str(raised.value) == (
        "block_size 8 does not fit the model, which keeps one cache entry for every 12 tokens: one must divide the "
        "other; choose for example --block-size 12"
    )


def _request(name: str, tokens: list[int]) -> Request:
    return Request(name, tokens, SamplingParams(), None)


def test_blocks_of_a_sequence() -> None:
    """With blocks of 4 tokens, an entry of 8 tokens has a block of its own."""
    groups = kv_groups([CacheSpec(1, 6, 6), *SPECS], "float32")
    manager = KVCacheManager(groups, CacheLayout(4, {group.name: 9 for group in groups}))
    tokens = list(range(18))
    manager.start(_request("a", tokens))
    assert manager.allocate("a", 0, 18)
    assert [len(manager.block_table(group.name, "a")) for group in groups] == [5, 5, 3]
    manager.commit("a", 18)
    assert manager.start(_request("b", [*tokens[:13], 0, 0])) == 12
    shared = {group.name: manager.block_table(group.name, "b") for group in groups}
    assert [len(table) for table in shared.values()] == [3, 3, 1]
    assert all(table == manager.block_table(name, "a")[: len(table)] for name, table in shared.items())
    assert manager.allocate("b", 12, 3)
    assert [len(manager.block_table(group.name, "b")) for group in groups] == [4, 4, 2]
    assert not set(manager.block_table("strided_8", "b")[1:]) & set(manager.block_table("strided_8", "a"))
