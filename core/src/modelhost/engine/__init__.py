"""The engine: request, scheduler, KV cache, runner, sampler, output."""
