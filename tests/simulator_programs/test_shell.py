from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.behaviour import Behaviour
from fixtures.simulator.hardware import Hardware
from fixtures.simulator.nodes.files import Files
from fixtures.simulator.nodes.host import Host
from fixtures.simulator.nodes.shell import Shell, Streams
from fixtures.simulator.nodes.tools import Tools
from fixtures.simulator.nodes.view import ContainerView


def view() -> ContainerView:
    files = Files({"/etc/hostname": b"p\n", "/dev/nvidia0": b"", "/dev/nvidia1": b"", "/dev/nvidiactl": b"", "/data/empty": b""})
    return ContainerView(
        pod={"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {}},
        container={"name": "c"},
        hardware=Hardware(node="a"),
        behaviour=Behaviour(),
        uid=1000,
        gid=0,
        hostname="p",
        pod_ip="10.1.2.3",
        host_ip="10.0.0.1",
        kernel="6.8.0",
        boot_id="b",
        devices=(),
        hcas=(),
        env={},
        files=files,
        host=Host("a"),
    )


def sh(script: str, flags: str = "", **env: str) -> tuple[str, int]:
    seen = view()
    out = bytearray()
    shell = Shell(Tools(seen).find, seen.files, env)
    code = asyncio.run(asyncio.wait_for(shell.run(script, Streams(out.extend, out.extend), flags), 5))
    return out.decode(), code


@pytest.mark.parametrize(
    ("script", "output", "code"),
    [
        ("echo a; echo b\necho c", "a\nb\nc\n", 0),
        ("true && echo yes || echo no", "yes\n", 0),
        ("false && echo yes || echo no", "no\n", 0),
        ("false; echo $?", "1\n", 0),
        ("x='a  b'; echo $x; echo \"$x\"; echo '$x'", "a b\na  b\n$x\n", 0),
        ('echo "$(echo inner; echo more)" end', "inner\nmore end\n", 0),
        ("X=1 env", "X=1\n", 0),
        ("export Y=2; env", "Y=2\n", 0),
        ("Z=3; env; echo ${Z}x ${NO:-default} ${Z:+set}", "3x default set\n", 0),
        ("if [ -e /dev/nvidia0 ]; then echo dev; else echo none; fi", "dev\n", 0),
        ("if false; then echo a; elif true; then echo b; fi", "b\n", 0),
        ("for i in 1 2 3; do if [ $i -eq 2 ]; then continue; fi; echo $i; done", "1\n3\n", 0),
        ("i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done; echo $i", "3\n", 0),
        ("ls -1 /dev/nvidia* 2>/dev/null | wc -l", "3\n", 0),
        ("ls /nowhere 2>&1; echo $?", "ls: cannot access '/nowhere': No such file or directory\n2\n", 0),
        ("cat /etc/hostname; uname -r; id -u; hostname", "p\n6.8.0\n1000\np\n", 0),
        ("echo hidden >/dev/null; echo gone 1>&2", "gone\n", 0),
        ("printf '%s=%d\\n' a 1 b 2", "a=1\nb=2\n", 0),
        ("exit 7; echo never", "", 7),
        ("exec echo done; echo never", "done\n", 0),
        ("set -e; false; echo never", "", 1),
        ("set -e; if false; then :; fi; false || true; echo here", "here\n", 0),
        ("set -u; echo $MISSING", "sh: 1: MISSING: parameter not set\n", 2),
        ("nosuch --flag", "sh: 1: nosuch: not found\n", 127),
        ("# comment\necho a # trailing", "a\n", 0),
        ("! false; echo $?", "0\n", 0),
        ("(exit 3); echo $?", "3\n", 0),
        ("{ echo a; echo b; } | grep -c .", "2\n", 0),
        ("echo abc > /tmp/f; echo def >> /tmp/f; cat /tmp/f", "abc\ndef\n", 0),
        ("x=/a/b.txt; echo ${x##*/} ${x%.txt} ${#x}", "b.txt /a/b 8\n", 0),
        ("sleep 0.01 & wait; echo after", "after\n", 0),
        ("command -v echo; command -v nosuch; echo $?", "/usr/bin/echo\n127\n", 0),
        ("[ 1 -eq x ]", "sh: 1: [: Illegal number: 1\n", 2),
        ("[ -z '' ] && [ a = a ] && [ ! -f /dev/nvidia0 ] && test -d /dev", "", 0),
    ],
)
def test_scripts(script: str, output: str, code: int) -> None:
    assert sh(script) == (output, code)


def test_flags_of_the_command_line() -> None:
    assert sh("false; echo never", "ec") == ("", 1)


@pytest.mark.parametrize("script", ["if true", "for x in; do", "echo 'open", "echo $(", "cat <<E", "| a", "fi", "echo ${x y}"])
def test_what_is_not_shell_is_a_syntax_error(script: str) -> None:
    output, code = sh(script)
    assert code == 2
    assert "Syntax error" in output or "Bad substitution" in output


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="abx $\"'`(){};&|<>\n=[]!#-0123", max_size=30))
def test_wild_scripts_end_with_a_status(script: str) -> None:
    try:
        _, code = sh(script)
    except TimeoutError:
        return  # a loop that waits is a program too
    assert 0 <= code <= 255
