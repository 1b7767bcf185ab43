import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import Hardware
from fixtures.simulator.nodes.devices import ContainerView
from fixtures.simulator.nodes.machine.host import Files, Host
from fixtures.simulator.nodes.programs.posix import posix_programs
from fixtures.simulator.nodes.shell import Shell, Streams
from tests.tables import each_row


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


@each_row
def test_scripts(script: str, output: str, code: int) -> None:
    assert sh(script) == (output, code)


@each_row
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
