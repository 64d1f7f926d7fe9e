"""`holdfast completion`: what a shell needs to complete our commands and options, made from the parsers."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.cli.arguments import Commands
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen

SHELLS = ("bash", "zsh", "fish")

_DESCRIPTION = """\
Print a script that completes commands, options and their values in a shell.

It is for the shell's own start-up file, or the folder that it reads completions from."""
_EXAMPLE = """holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast"""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "completion", run, operands="SHELL", description=_DESCRIPTION, example=_EXAMPLE, prints_data=False
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print the script."""
    from holdfast.cli import build_parser

    words = list(find_words(build_parser()))
    script = {"bash": format_bash, "zsh": format_zsh, "fish": format_fish}[arguments.shell](words)
    screen.content(script.rstrip("\n").encode())
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class Word:
    """What may be typed after the words of `command`, what it means, and the values that may follow it."""

    command: tuple[str, ...]
    text: str
    meaning: str
    values: tuple[str, ...] = ()
    takes_value: bool = False

    @property
    def is_option(self) -> bool:
        """Whether it is an option, and no command."""
        return self.text.startswith("-")


def find_words(parser: argparse.ArgumentParser, command: tuple[str, ...] = ()) -> Iterator[Word]:
    """Yield every word that the command line knows, in the order of its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            meanings = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                yield Word(command, name, meanings.get(name, ""))
                yield from find_words(below, (*command, name))
            continue
        values = tuple(str(choice) for choice in action.choices or ())
        for option in action.option_strings:
            meaning = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
            yield Word(command, option, meaning.replace("%%", "%"), values, action.nargs != 0)
        if not action.option_strings:
            yield from (Word(command, value, "") for value in values)


def format_bash(words: list[Word]) -> str:
    """Return the script for bash."""
    values = {word.text: " ".join(word.values) for word in words if word.is_option and word.values}
    takers = {word.text for word in words if word.takes_value and not word.values}
    commands = list(dict.fromkeys(word.command for word in words))
    return _BASH.format(
        first=" ".join(command[0] for command in commands if len(command) == 1),
        groups="|".join(sorted({command[0] for command in commands if len(command) > 1})),
        takers="|".join(sorted(takers)),
        values="\n".join(
            f'    {option}) COMPREPLY=($(compgen -W "{text}" -- "$current")); return ;;'
            for option, text in sorted(values.items())
        ),
        words="\n".join(
            f'    "{" ".join(command)}") words="{_after(command, words)}" ;;' for command in commands
        ),
    )


def _after(command: tuple[str, ...], words: list[Word]) -> str:
    return " ".join(word.text for word in words if word.command == command)


def format_zsh(words: list[Word]) -> str:
    """Return the script for zsh, which understands bash's."""
    return f"#compdef holdfast\nautoload -U +X bashcompinit && bashcompinit\n\n{format_bash(words)}{_ZSH_END}"


def format_fish(words: list[Word]) -> str:
    """Return the script for fish."""
    lines = ["# Completions of holdfast for fish.", "complete -c holdfast -f"]
    lines += [
        " ".join(["complete -c holdfast", *_fish_place(word, words), *_fish_word(word)]) for word in words
    ]
    return "\n".join(lines) + "\n"


def _fish_place(word: Word, words: list[Word]) -> Iterator[str]:
    """Yield when a word is offered: after its command, and before any command below that."""
    below = dict.fromkeys(each.text for each in words if each.command == word.command and not each.is_option)
    seen = " ; and ".join(f"__fish_seen_subcommand_from {name}" for name in word.command)
    not_below = "" if word.is_option or not below else f"not __fish_seen_subcommand_from {' '.join(below)}"
    condition = " ; and ".join(filter(None, (seen, not_below)))
    if condition:
        yield f"-n '{condition}'"


def _fish_word(word: Word) -> Iterator[str]:
    if not word.is_option:
        yield f"-a {word.text}"
    else:
        yield f"-l {word.text[2:]}" if word.text.startswith("--") else f"-s {word.text[1:]}"
    if word.values:
        yield f"-x -a '{' '.join(word.values)}'"
    elif word.takes_value:
        yield "-r -F"
    if word.meaning:
        meaning = " ".join(word.meaning.split()).replace("\\", "\\\\").replace("'", "\\'")
        yield f"-d '{meaning}'"


_BASH = """\
# Completions of holdfast for bash.
_holdfast() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="" command="" words="" word i
  COMPREPLY=()
  [ "$COMP_CWORD" -gt 0 ] && before="${{COMP_WORDS[COMP_CWORD-1]}}"
  case "$before" in
{values}
    {takers}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "$word" in
      --) return ;;
      -*) continue ;;
    esac
    case " {first} " in
      *" $word "*) [ -z "$command" ] && command="$word" && continue ;;
    esac
    case "$command" in
      {groups}) command="$command $word" ;;
    esac
  done
  case "$command" in
{words}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _holdfast holdfast
"""

# Found in $fpath, the script is first read when a completion is wanted: it has to give that one, too.
_ZSH_END = """\
[[ $funcstack[1] == _holdfast ]] && _bash_complete -o filenames -F _holdfast
true
"""
