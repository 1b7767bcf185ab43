"""The completion scripts, asked as the shells ask them."""

import contextlib
import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.cli.commands import COMMANDS
from conformance.cli.main import main
from conformance.cli.pages import SHELLS, script
from tests.tables import each_row

pytestmark = pytest.mark.test_all

ASK = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; {function}; printf "%s\\n" "${{COMPREPLY[@]}}"'

ZSHRC = """
autoload -Uz compinit && compinit -u -D
eval "$(<$SCRIPT)"
compadd() {
  if (( ! ${@[(I)-[OAD]*]} )); then  # with these, zsh asks itself something and offers nothing
    local -a matching
    builtin compadd -O matching "$@"
    print -rl -- $matching >>$OFFERED
  fi
  builtin compadd "$@"
}
zle-line-init() { BUFFER=$ASK; CURSOR=$#BUFFER; zle list-choices; exit }
zle -N zle-line-init
"""
"""An interactive zsh that finds a line already typed, notes what it offers for it, and ends."""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "gpu-conformance.bash"
    path.write_text(script("bash"))
    return path


def completed(path: Path, *words: str, cwd: Path | None = None) -> list[str]:
    """What bash would offer after these words."""
    registered = "source {0}; complete -p gpu-conformance"
    listed = subprocess.run(["bash", "-c", registered.format(path)], capture_output=True, text=True, check=True).stdout.split()
    function = listed[listed.index("-F") + 1]
    done = subprocess.run(
        ["bash", "-c", ASK.format(function=function), "bash", str(path), "gpu-conformance", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@each_row
def test_bash_offers_what_the_parser_takes(bash_script: Path, words: list[str], offered: list[str]) -> None:
    assert completed(bash_script, *words) == offered


def zsh_offers(line: str, folder: Path) -> list[str]:
    (folder / ".zshrc").write_text(ZSHRC)
    (folder / "script").write_text(script("zsh"))
    given = {"ZDOTDIR": str(folder), "SCRIPT": str(folder / "script"), "OFFERED": str(folder / "offered"), "ASK": line, "TERM": "dumb"}
    ours, its = pty.openpty()
    command = ["timeout", "--foreground", "60", "zsh", "-i"]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env={**os.environ, **given}):
        os.close(its)
        with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # so ends a terminal that nobody holds any more
            while terminal.read(4096):  # what nobody reads fills the terminal, and zsh waits
                pass
    offered = folder / "offered"
    return sorted(filter(None, offered.read_text().splitlines())) if offered.exists() else []


def fish_offers(line: str, folder: Path) -> list[str]:
    (folder / "script").write_text(script("fish"))
    asked = ["fish", "--no-config", "-c", "source $argv[1]; complete --do-complete $argv[2]", str(folder / "script"), line]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=folder)
    assert done.stderr == ""
    return sorted(row.partition("\t")[0] for row in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("do", ["docs", "doctor"]),
        ("doctor --kub", ["--kubeconfig"]),
        ("doctor --simulate mig-m", ["mig-mixed"]),
        ("doctor --access ", ["dry-run", "hardware", "read", "workload"]),
        ("chaos recover --chaos-f", ["--chaos-folder"]),
        ("run --no-such", []),
        ("", sorted(COMMANDS)),
    ],
)
@pytest.mark.parametrize(("shell", "offers"), [("zsh", zsh_offers), ("fish", fish_offers)])
def test_zsh_and_fish_offer_what_the_parser_takes(
    shell: str, offers: Callable[[str, Path], list[str]], line: str, offered: list[str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert offers(f"gpu-conformance {line}", tmp_path) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_can_read_its_script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in text] == []
    if (program := shutil.which(shell)) is None:
        return  # a machine without this shell: that the script names every command is all that can be seen
    (tmp_path / "script").write_text(text)
    flag = "--no-execute" if shell == "fish" else "-n"
    assert subprocess.run([program, flag, str(tmp_path / "script")], capture_output=True, text=True).stderr == ""


def test_an_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "tcsh" in line
