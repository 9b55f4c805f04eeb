"""``--speculative-config`` and what ``explain`` says of speculators."""

from __future__ import annotations

from .conftest import Cli

REFERENCE = ("--backend", "reference")


def test_explain_lists_what_could_be_asked_for(cli: Cli, tiny: str) -> None:
    result = cli("explain", tiny, *REFERENCE)
    assert "speculator: none: --speculative-config names none\n" in result.out
    assert "  usable       ngram (modelhost-ngram 0.1.0): not asked for\n" in result.out


def test_explain_says_which_one_was_asked_for(cli: Cli, tiny: str) -> None:
    result = cli("explain", tiny, *REFERENCE, "--speculative-config", '{"method": "ngram"}')
    assert "speculator: ngram (modelhost-ngram 0.1.0)\n" in result.out


def test_an_answer_is_the_same_with_a_speculator(cli: Cli, tiny: str) -> None:
    options = ("run", tiny, "abcabcabc", *REFERENCE, "--temperature", "0", "--max-tokens", "20", "--raw")
    ahead = cli(*options, "--speculative-config", '{"method": "ngram", "prompt_lookup_min": 1}')
    assert (ahead.code, ahead.out) == (0, cli(*options).out)


def test_values_that_are_refused(cli: Cli, tiny: str) -> None:
    for text, problem in (("[1]", "is not a JSON object"), ("{", "is not JSON")):
        result = cli("explain", tiny, "--speculative-config", text)
        assert result.code == 2
        assert problem in " ".join(result.err.replace("│", " ").split())
    result = cli("run", tiny, "a", *REFERENCE, "--speculative-config", '{"method": "ngrm"}')
    assert result.code == 1
    assert "no installed plugin provides speculator 'ngrm'" in result.err
