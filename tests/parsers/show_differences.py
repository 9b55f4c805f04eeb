"""Prints the cases whose result is not the expected one, as entries of a difference table.

    python tests/parsers/show_differences.py KIND [NAME ...] [--text]

With --text the output and vLLM's results are added as comments. Write a reason over each entry before keeping it.
"""

from __future__ import annotations

import json
import sys

from golden_cases import Case, cases, comparable, expected, recorded

from modelhost.api.parsing import Parsed, parse


def main(kind: str, *arguments: str) -> None:
    names = [argument for argument in arguments if not argument.startswith("--")]
    wrong = [case for case in cases() if case.kind == kind and (not names or case.file in names)]
    wrong = [case for case in wrong if comparable(parse(case.parser(), case.text)) != expected(case)]
    for file in sorted({case.file for case in wrong}):
        print(f"# differences/{kind}/{file}.toml")
        _print_file([case for case in wrong if case.file == file], "--text" in arguments)


def _print_file(wrong: list[Case], text: bool) -> None:
    results = {case.name: parse(case.parser(), case.text) for case in wrong}
    streamed = [
        case.name
        for case in wrong
        if comparable(results[case.name]) == recorded(case.data["expect_stream"], streamed=True)
    ]
    if text:
        for case in wrong:
            print(f"# {case.name} ({case.data['stream_class']}): {case.text!r}")
            print(f"#   vLLM: {json.dumps(case.data['expect'], ensure_ascii=False)}")
            if case.name not in streamed:
                print(f"#   ours: {results[case.name]}")
    if streamed:
        print(f'[[difference]]\nreason = ""\nas_streamed = {json.dumps(streamed)}\n')
    if len(streamed) < len(wrong):
        print('[[difference]]\nreason = ""')
    for case in wrong:
        if case.name not in streamed:
            _print_result(case.name, results[case.name])
    print()


def _print_result(name: str, result: Parsed) -> None:
    print(f"[difference.results.{json.dumps(name)}]")
    for key in ("reasoning", "content"):
        if getattr(result, key):
            print(f"{key} = {_toml(getattr(result, key))}")
    if result.calls:
        calls = ", ".join(f"[{_toml(call.name)}, {_toml(call.arguments)}]" for call in result.calls)
        print(f"calls = [{calls}]")


def _toml(text: str) -> str:
    return f"'{text}'" if text.isprintable() and "'" not in text else json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
