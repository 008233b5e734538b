"""Find out in a test what a crash, an exception or a retry does to work that is to happen exactly once.

    from retrysafe import testing

    def test_charge():
        testing.check(connect, testing.behind_proxy(connect, lambda lease: client.post(
            "/charges", json=ORDER, headers={"Retrysafe-Lease": lease}).status_code), count_charges)

connect() returns a connection of the owner of the schema, in a database that only this test uses: faults are triggers in
it. Programs without the proxy pass a function that is called with a key, such as lambda key: pay(conn(), key, 4200).

Two more tests are about retries alone: check_two_at_once, and check_completed, whose key was completed before the call.
All raise an AssertionError, for pytest and for unittest.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import closing, contextmanager, suppress
from typing import Any, Callable, Iterator, List, Union

import retrysafe

__all__ = ["check", "check_two_at_once", "check_completed", "behind_proxy"]

_LOCK = 5261001  # an advisory lock, which keeps an attempt from completing its key
_PAUSE = f"PERFORM pg_advisory_xact_lock_shared({_LOCK})"

# Where a fault is: in complete, after the work has written; and in COMMIT, whose connection breaks before it has happened.
_FAULTS = {
    "no fault": "",
    "an exception in complete": "CREATE TRIGGER retrysafe_fault BEFORE UPDATE",
    "a crash before COMMIT": "CREATE CONSTRAINT TRIGGER retrysafe_fault AFTER UPDATE",
}


def check(connect: Callable[[], Any], call: Callable[[str], Any], effects: Callable[[], int], *, succeeds: bool = True,
          schema: str = "retrysafe") -> None:
    """Call call(key) under each fault, and again as a retry does. Raise an AssertionError that lists what went wrong.

    call      does the operation under a key, and returns its answer. It raises an exception if there is none
    effects   returns how many effects there are, such as the number of rows in the table of charges
    succeeds  whether the operation succeeds without a fault. With False it must leave nothing, however often it is called
    """
    wrong: List[str] = []
    for fault, trigger in _FAULTS.items():
        key, before = str(uuid.uuid4()), effects()
        first, error = None, None
        with _fault(connect, schema, trigger):
            try:
                first = call(key)
            except AssertionError as e:  # of behind_proxy
                wrong.append(f"{fault}: {e}")
                continue
            except Exception as e:
                error = e
        made = effects() - before
        said = f"{type(error).__name__}: {error}" if error else "an answer"
        if error and made:
            wrong.append(f"{fault}: the call failed, and its effect stayed, so that a retry makes it again ({said})")
        elif not error and made != 1:
            wrong.append(f"{fault}: the call was answered, and {made} effects were made")
        again, retry_error = None, None
        try:
            again = call(key)
        except Exception as e:
            retry_error = e
        made = effects() - before
        if succeeds and retry_error:
            wrong.append(f"{fault}: the retry failed ({type(retry_error).__name__}: {retry_error})")
        if made != int(succeeds):
            wrong.append(f"{fault}: {made} effects after the retry, not {int(succeeds)}")
        if not error and not retry_error and first != again:
            wrong.append(f"{fault}: the retry got another answer: {again!r}, not {first!r}")
    if wrong:
        raise AssertionError("\n".join(wrong))


def check_two_at_once(connect: Callable[[], Any], call: Callable[[str], Any], effects: Callable[[], int], *,
                      schema: str = "retrysafe") -> None:
    """Call call(key) twice at once, and a third time. There must be one effect and one answer. One of the two calls may
    raise an exception, as the loser does with InFlight.

    The second call begins when the first has done its work and is about to complete its key, or has ended.
    """
    key, before = str(uuid.uuid4()), effects()
    answers: List[Any] = []
    errors: List[str] = []

    def one() -> None:
        try:
            answers.append(call(key))
        except Exception as e:
            errors.append(f"{type(e).__name__}: {e}")

    first, second = threading.Thread(target=one), threading.Thread(target=one)
    with closing(connect()) as conn, _fault(connect, schema, "CREATE TRIGGER retrysafe_fault BEFORE UPDATE", _PAUSE):
        conn.autocommit = True
        with conn.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_lock({_LOCK})")
            first.start()
            while first.is_alive():
                cursor.execute(f"SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = {_LOCK} AND NOT granted")
                if cursor.rowcount:
                    break
                first.join(0.01)
            second.start()
            second.join(0.5)  # one that waits for the first does not end before
            cursor.execute(f"SELECT pg_advisory_unlock({_LOCK})")
            first.join()
            second.join()
    if not answers:
        raise AssertionError(f"two calls at once: both failed ({'; '.join(errors)})")
    answers.append(call(key))
    made = effects() - before
    if made != 1:
        raise AssertionError(f"two calls at once and a retry: {made} effects, not 1")
    if any(answer != answers[0] for answer in answers):
        raise AssertionError(f"two calls at once and a retry got different answers: {answers!r}")


def check_completed(
    connect: Callable[[], Any], scope: Union[str, bytes], key: Union[str, bytes], call: Callable[[], Any],
    effects: Callable[[], Any], *, request: Any = None, answer: Any = b'{"stored": "by a test"}', schema: str = "retrysafe",
) -> None:
    """Complete a key by hand, and find out whether call() hands out that answer and leaves the tables alone.

    scope, key, request  what the program passes to once in call
    call                 does the operation, and returns the bytes of its answer
    effects              returns what the work would change, such as the number of rows, or the rows
    """
    with closing(connect()) as conn:
        conn.autocommit = False
        op = retrysafe.claim(conn, scope, key, request, schema=schema)
        if op.done:
            raise AssertionError("the key has been completed before: use a new one in each run")
        retrysafe.hold(conn, op.lease, schema=schema)
        stored = retrysafe.complete(conn, op.lease, answer, schema=schema)
        conn.commit()
    before = effects()
    try:
        got = call()
    except Exception as e:
        raise AssertionError(f"a completed key: the call failed ({type(e).__name__}: {e})") from e
    if effects() != before:
        raise AssertionError("a completed key: the work ran again; does the program use this scope and key?")
    if got != stored:
        raise AssertionError(f"a completed key: the call returned {got!r}, not the stored answer {stored!r}")


def behind_proxy(connect: Callable[[], Any], handle: Callable[[str], int], *, schema: str = "retrysafe") -> Callable[[str], Any]:
    """Return a function for check that does what the proxy does on a route with complete: upstream. handle(lease) sends a
    request with the header Retrysafe-Lease to the service, and returns the status of its answer."""

    def call(key: str) -> bytes:
        with closing(connect()) as conn:
            op = retrysafe.claim(conn, "retrysafe.testing", key, take_over=True, schema=schema)
            if op.done:
                return op.answer
            status, error = 0, None
            try:
                status = handle(op.lease)
            except Exception as e:
                error = e
            with suppress(retrysafe.InFlight):
                done = retrysafe.claim(conn, "retrysafe.testing", key, schema=schema)
                with suppress(Exception):  # a framework repeats a COMMIT that was not answered: it must do nothing
                    handle(op.lease)
                return done.answer
            if 200 <= status < 400:
                raise AssertionError(f"the service answered {status} and had not completed the key")
            retrysafe.release(conn, op.lease, schema=schema)
            conn.commit()
            raise error or RuntimeError(f"the service answered {status}")

    return call


@contextmanager
def _fault(connect: Callable[[], Any], schema: str, trigger: str, what: str = "") -> Iterator[None]:
    name = '"' + schema.replace('"', '""') + '"'
    with closing(connect()) as conn:
        conn.autocommit = True
        with conn.cursor() as cursor:
            if trigger:
                deferred = "CONSTRAINT" in trigger
                what = what or ("PERFORM pg_terminate_backend(pg_backend_pid())" if deferred else "RAISE 'a fault of the test'")
                cursor.execute(
                    f"CREATE OR REPLACE FUNCTION {name}.test_fault() RETURNS trigger LANGUAGE plpgsql AS $$"
                    f" BEGIN {what}; RETURN NEW; END $$; {trigger} ON {name}.claims {'INITIALLY DEFERRED' if deferred else ''}"
                    f" FOR EACH ROW WHEN (NEW.state IN (3, 4)) EXECUTE FUNCTION {name}.test_fault()")
            try:
                yield
            finally:
                if trigger:
                    cursor.execute(f"DROP TRIGGER retrysafe_fault ON {name}.claims; DROP FUNCTION {name}.test_fault()")
