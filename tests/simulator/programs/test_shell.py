import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import Hardware
from fixtures.simulator.nodes.container.context import ContainerView
from fixtures.simulator.nodes.machine.files import Files
from fixtures.simulator.nodes.machine.host import Host
from fixtures.simulator.nodes.programs.posix import posix_programs
from fixtures.simulator.nodes.shell.interpreter import Shell, Streams


def view() -> ContainerView:
    files = Files({"/etc/hostname": b"p\n", "/dev/nvidia0": b"", "/dev/nvidia1": b"", "/dev/nvidiactl": b"", "/data/empty": b""})
    return ContainerView(
        pod={"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {}},
        container={"name": "c"},
        hardware=Hardware(node="a"),
        behaviour=Behaviour(),
        uid=1000,
        hostname="p",
        pod_ip="10.1.2.3",
        devices=(),
        hcas=(),
        env={},
        files=files,
        host=Host("a"),
    )


def sh(script: str, **env: str) -> tuple[str, int]:
    seen = view()
    out = bytearray()
    shell = Shell(lambda name: programs.get(name), seen.files, env)
    programs = posix_programs(seen, lambda name: programs.get(name))
    code = asyncio.run(asyncio.wait_for(shell.run(script, Streams(out.extend, out.extend)), 5))
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
        ("Z=3; env; echo $Z $NO", "3\n", 0),
        ("Z='a b'; for word in $Z '' c; do echo [$word]; done", "[a]\n[b]\n[]\n[c]\n", 0),
        ("if [ -f /etc/hostname ]; then echo dev; fi; if false; then echo none; fi", "dev\n", 0),
        ("if false; then echo a; else echo b; fi; if true; then echo c; else echo d; fi", "b\nc\n", 0),
        ("for i in 1 2 3; do if [ $i -ne 2 ]; then echo $i; fi; done", "1\n3\n", 0),
        ("until [ -f /tmp/go ]; do echo once > /tmp/go; done; cat /tmp/go", "once\n", 0),
        ("i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done; echo $i $((i % 2))", "3 1\n", 0),
        ('for f in /dev/nvidia* "/dev/*"; do echo "$f $(cat $f 2>/dev/null)"; done | grep -c /dev', "4\n", 0),
        ("ls -1 /dev/nvidia* 2>/dev/null | grep -c nvidia", "3\n", 0),
        ("ls /nowhere 2>&1; echo $?", "ls: cannot access '/nowhere': No such file or directory\n2\n", 0),
        ("cat /etc/hostname; id -u; hostname", "p\n1000\np\n", 0),
        ("echo hidden >/dev/null; echo gone 1>&2", "gone\n", 0),
        ("exit 7; echo never", "", 7),
        ("nosuch --flag", "sh: 1: nosuch: not found\n", 127),
        ("# comment\necho a # trailing", "a\n", 0),
        ("echo abc > /tmp/f; cat /tmp/f; echo def > /tmp/f; cat /tmp/f", "abc\ndef\n", 0),
        ("[ 1 -eq x ]", "sh: 1: [: Illegal number: 1\n", 2),
        ("[ a = a ] && [ -f /etc/hostname ] && test 2 -gt 1", "", 0),
    ],
)
def test_scripts(script: str, output: str, code: int) -> None:
    assert sh(script) == (output, code)


@pytest.mark.parametrize(
    "script",
    [
        "if true",
        "for x in; do",
        "echo 'open",
        "echo $(",
        "cat <<E",
        "| a",
        "fi",
        "echo ${x y}",
        "(a)",
        "a &",
        "cat < f",
        "`a`",
        "echo ${x:-y}",
        'echo "${x}"',
        "if true; then a; else b; else c; fi",
        "! true",
        "{ a; }",
        "a >> f",
        "echo a\\ b",
        "case x in",
    ],
)
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
