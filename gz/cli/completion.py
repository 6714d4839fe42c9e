"""gz completion: what a shell needs to complete commands, flags and their values, made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from gz.cli.output import Output, common_flags

_HELP = """\
examples:
  eval "$(gz completion bash)"        # in ~/.bashrc
  eval "$(gz completion zsh)"         # in ~/.zshrc, after compinit
  gz completion fish > ~/.config/fish/completions/gz.fish"""

# The word before the cursor decides: values of a flag, flags, commands; files where nothing of it fits.
_BASH = """\
_gz() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} i=$COMP_CWORD prev command= w words=
  [[ $cur == = ]] && cur=
  prev=${{COMP_WORDS[i-1]}}
  [[ $prev == = ]] && prev=${{COMP_WORDS[i-2]}}
  [[ ${{COMP_WORDS[i]}} == = ]] && prev=${{COMP_WORDS[i-1]}}
  for w in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $w in -*) ;; *) command=$w; break ;; esac
  done
  case "$command $prev" in
{values}
    *) case "$cur $command" in
{flags}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _gz gz
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def register(commands: Any, whole: Callable[[], argparse.ArgumentParser]) -> None:
    """`whole`: makes the parser of all commands."""
    parser = commands.add_parser(
        "completion",
        help="print the completions of a shell",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=list(_SCRIPTS), help="for which shell")
    common_flags(parser)
    parser.set_defaults(run=lambda args, out: _completion(args, out, whole()))


def _completion(args: argparse.Namespace, out: Output, whole: argparse.ArgumentParser) -> int:
    script = _SCRIPTS[args.shell](whole)
    out.tell({"shell": args.shell, "script": script})
    out.print_as_it_is(script)
    return 0


# ---- what there is ----


def _commands(whole: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """By name, the help and the parser of each command."""
    found: Any = next(a for a in whole._actions if isinstance(a.choices, dict))
    helps = {a.dest: a.help or "" for a in found._get_subactions()}
    return {name: (helps[name], parser) for name, parser in found.choices.items()}


def _flags(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in parser._actions if a.option_strings and a.help != argparse.SUPPRESS]


def _places(parser: argparse.ArgumentParser) -> list[str]:
    """What may stand in the place of an argument without a flag, where that is not a file."""
    given = (a for a in parser._actions if not a.option_strings and not isinstance(a.choices, dict))
    return [str(c) for a in given for c in a.choices or ()]


# ---- as scripts ----


def _bash(whole: argparse.ArgumentParser) -> str:
    values, flags = [], []
    commands = _commands(whole)
    for name, (_, parser) in commands.items():
        for a in _flags(parser):
            words = " ".join(map(str, a.choices)) if a.choices else ""
            if a.nargs != 0:  # it takes a value: one of these, or a file
                values += [f"    '{name} {s}') words='{words}' ;;" for s in a.option_strings]
        listed = " ".join(s for a in _flags(parser) for s in a.option_strings)
        flags += [
            f"    -*' {name}') words='{listed}' ;;",
            f"    *' {name}') words='{' '.join(_places(parser))}' ;;",
        ]
    top = " ".join(s for a in _flags(whole) for s in a.option_strings)
    flags += [f"    -*' ') words='{top}' ;;", f"    *' ') words='{' '.join(commands)}' ;;"]
    return _BASH.format(values="\n".join(values), flags="\n".join(flags))


def _fish(whole: argparse.ArgumentParser) -> str:
    lines = [
        f"complete -c gz -f -n __fish_use_subcommand -a {name} -d {_quoted(text)}"
        for name, (text, _) in _commands(whole).items()
    ]
    for name, (_, parser) in _commands(whole).items():
        when = f"complete -c gz -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{when} -f -a {_quoted(' '.join(p))}" for p in [_places(parser)] if p]
        for a in _flags(parser):
            names = " ".join(f"-l {s[2:]}" if s.startswith("--") else f"-s {s[1:]}" for s in a.option_strings)
            takes = "" if a.nargs == 0 else " -r"
            takes += f" -f -a {_quoted(' '.join(map(str, a.choices)))}" if a.choices else ""
            lines.append(f"{when} {names}{takes} -d {_quoted(' '.join((a.help or '').split()))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS = {"bash": _bash, "zsh": lambda whole: _ZSH + _bash(whole), "fish": _fish}
