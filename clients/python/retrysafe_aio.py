"""The calls of retrysafe for asyncio, on an AsyncConnection of psycopg 3.

    async def pay(conn, order, amount):
        async with aio.once(conn, "payments", order, {"order": order, "amount": amount}) as op:
            if not op.done:
                await op.conn.execute("INSERT INTO charges (order_id, amount) VALUES (%s, %s)", (order, amount))
                await op.complete({"order": order, "status": "paid"})
        return op.answer

The rules, the arguments and the errors are those of the functions with the same names in retrysafe. A task that is
cancelled in a block rolls it back, as any exception does.
"""

from __future__ import annotations

import functools
from typing import Any, AsyncContextManager, Awaitable, Callable, Optional, Sequence, Union

import retrysafe
from retrysafe import Encryption, Seconds

__all__ = [
    "once", "run", "idempotent", "claim", "Operation", "hold", "complete", "fail", "step", "save_step", "child_key",
    "extend", "release",
]


class Operation(retrysafe._Attempt):
    """Operation is one attempt at an operation, or the answer of an earlier one: see once and claim."""

    async def complete(
        self, answer: Any, code: int = 200, content_type: str = "application/json",
        headers: Sequence[str] = (), keep: Optional[Seconds] = None,
    ) -> None:
        """Store the answer in the transaction of the work: see retrysafe.Operation.complete."""
        await self._end("complete", answer, code, content_type, headers, keep)

    async def fail(
        self, answer: Any, code: int = 422, content_type: str = "application/json",
        headers: Sequence[str] = (), keep: Optional[Seconds] = None,
    ) -> None:
        """Store a final failure, which commits with what the work has written."""
        await self._end("fail", answer, code, content_type, headers, keep)

    async def extend(self, lease: Seconds) -> None:
        """Make the lease run for so many seconds from now: see retrysafe.Operation.extend."""
        await self._extend(lease)

    async def step(self, name: str, work: Callable[[], Any]) -> bytes:
        """Return the saved result of a part of the work, or run that part, a function or a coroutine function: see
        retrysafe.Operation.step."""
        return await self._step(name, work)

    async def child_key(self, name: str) -> str:
        """Return the idempotency key for a call to another system: see retrysafe.Operation.child_key."""
        return await self._child_key(name)

    @staticmethod
    def _driver(conn: Any) -> Any:
        return _driver(conn)


def _driver(conn: Any) -> Any:
    """Return the driver's connection, which may be behind a cursor."""
    driver = conn if hasattr(conn, "pgconn") else getattr(conn, "connection", None)
    if not hasattr(driver, "pgconn") or not retrysafe._is_async(driver):
        raise TypeError(f"{type(conn).__name__} is not an AsyncConnection or an AsyncCursor of psycopg 3")
    return driver


async def claim(
    conn: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any = None, **options: Any,
) -> Operation:
    """Claim a key in a transaction of its own: see retrysafe.claim. The option connect is a coroutine function."""
    return await retrysafe._claim_alone(Operation, conn, scope, key, request, **options)


def once(
    conn: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any = None, **options: Any,
) -> AsyncContextManager[Operation]:
    """Run the block in one transaction with the completion of its key, or hand out the answer that is stored: see
    retrysafe.once. The option connect is a coroutine function, and transaction may return a manager of either kind."""
    return retrysafe._once(Operation, conn, scope, key, request, **options)


async def run(
    conn: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any, work: Callable[[Operation], Any],
    **options: Any,
) -> bytes:
    """Run work(op), a function or a coroutine function, in a block of once: see retrysafe.run."""
    return await retrysafe._repeat(Operation, conn, scope, key, request, work, options)


def idempotent(
    scope: Union[str, bytes], key: Union[str, Callable[..., Union[str, bytes]]],
    request: Optional[Callable[..., Any]] = None, **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[bytes]]]:
    """Decorate a coroutine function pay(op, order, amount), which is then called as pay(conn, order, amount): see
    retrysafe.idempotent."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Awaitable[bytes]]:
        identify = retrysafe._identify(function, key, request)

        @functools.wraps(function)
        async def call(conn: Any, *args: Any, **kwargs: Any) -> bytes:
            return await run(
                conn, scope, *identify(conn, *args, **kwargs), lambda op: function(op, *args, **kwargs), **options)

        return call

    return decorate


async def hold(conn: Any, lease: str, *, schema: str = "retrysafe") -> str:
    """Make COMMIT fail unless the key was completed, failed or released: see retrysafe.hold."""
    return await retrysafe._hold(_driver(conn), lease, schema)


async def complete(
    conn: Any, lease: str, answer: Any, code: int = 200, content_type: str = "application/json",
    headers: Sequence[str] = (), keep: Optional[Seconds] = None, *, schema: str = "retrysafe",
    encryption: Optional[Encryption] = None,
) -> bytes:
    """Complete the key of a lease in the transaction that is open on conn: see retrysafe.complete."""
    body, _ = await retrysafe._end(
        _driver(conn), schema, "complete", lease, answer, code, content_type, headers, keep, encryption)
    return body


async def fail(
    conn: Any, lease: str, answer: Any, code: int = 422, content_type: str = "application/json",
    headers: Sequence[str] = (), keep: Optional[Seconds] = None, *, schema: str = "retrysafe",
    encryption: Optional[Encryption] = None,
) -> bytes:
    """Store a final failure, as complete stores a success."""
    body, _ = await retrysafe._end(
        _driver(conn), schema, "fail", lease, answer, code, content_type, headers, keep, encryption)
    return body


async def step(
    conn: Any, lease: str, name: str, *, schema: str = "retrysafe", encryption: Optional[Encryption] = None,
) -> Optional[bytes]:
    """Return what an attempt has saved under the name, or None."""
    return await retrysafe._step(_driver(conn), lease, name, schema, encryption)


async def save_step(
    conn: Any, lease: str, name: str, data: Any, *, schema: str = "retrysafe", encryption: Optional[Encryption] = None,
) -> None:
    """Save the result of a step in the transaction that is open on conn. The first result of a name stays."""
    await retrysafe._save_step(_driver(conn), lease, name, data, schema, encryption)


async def child_key(
    conn: Any, lease: str, name: str, *, schema: str = "retrysafe", child_secret: Union[str, bytes, None] = None,
) -> str:
    """Return the idempotency key for a call to another system: see retrysafe.child_key."""
    return await retrysafe._child_key(_driver(conn), lease, name, schema, child_secret)


async def extend(conn: Any, lease: str, lease_for: Seconds, *, schema: str = "retrysafe") -> None:
    """Make the lease run for so many seconds from now. It counts when it is committed."""
    await retrysafe._call(_driver(conn), schema, "extend", lease=lease, lease_for=retrysafe._interval(lease_for))


async def release(conn: Any, lease: str, *, schema: str = "retrysafe") -> None:
    """Give the key up, because nothing happened. It counts when it is committed."""
    await retrysafe._call(_driver(conn), schema, "release", lease=lease)
