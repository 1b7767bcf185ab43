"""What etcd's compaction does to the simulated store, for tests of clients that fall behind."""

from fixtures.simulator.server.store.store import Store


def compact(store: Store) -> None:
    """Forget all history: watches from before and pages under way get 410."""
    store.compacted = store.version
    store.unread.clear()
    for collection in store._collections.values():
        collection.history.clear()
