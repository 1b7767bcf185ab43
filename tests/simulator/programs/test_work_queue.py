import asyncio
import contextlib

from fixtures.simulator.client.workqueue import WorkQueue
from tests.watching import PATIENCE


def test_the_earliest_mark_stands_and_each_key_is_worked_on_once_for_all_marks() -> None:
    done: list[str] = []

    async def scenario() -> None:
        async def work(key: str) -> None:
            done.append(key)
            if key == "soon":
                through.set()

        through = asyncio.Event()
        queue: WorkQueue[str] = WorkQueue(work, seconds=30.0)
        queue.mark("later")
        queue.mark("soon", 25.0)
        queue.mark("soon", 0.05)
        queue.mark("soon")
        queue.mark("now", 0.0)
        await asyncio.wait_for(through.wait(), PATIENCE)
        await queue.close()

    asyncio.run(scenario())
    assert done == ["now", "soon"]


def test_a_key_that_is_marked_while_it_is_worked_on_is_worked_on_again_and_one_that_fails_too() -> None:
    at_work, most, tries = 0, 0, {"failing": 0, "marked": 0}

    async def scenario() -> None:
        async def work(key: str) -> None:
            nonlocal at_work, most
            at_work, most = at_work + 1, max(most, at_work + 1)
            tries[key] += 1
            if key == "marked" and tries[key] == 1:
                queue.mark(key)
            await asyncio.sleep(0.01)
            at_work -= 1
            if sum(tries.values()) == 4:
                through.set()
            if key == "failing" and tries[key] == 1:
                raise OSError("the API in trouble")

        through = asyncio.Event()
        queue: WorkQueue[str] = WorkQueue(work, width=1)
        running = asyncio.create_task(queue.run())
        for key in tries:
            queue.mark(key)
        await asyncio.wait_for(through.wait(), PATIENCE)
        await asyncio.sleep(0.1)  # a third time would be one too many
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert tries == {"failing": 2, "marked": 2}
    assert most == 1
