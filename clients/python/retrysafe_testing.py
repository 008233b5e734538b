"""Find out in a test what a crash, an exception or a retry does to work that is to happen exactly once.

    from retrysafe import testing

    def test_charge():
        testing.check(connect, testing.behind_proxy(connect, lambda lease: client.post(
            "/charges", json=ORDER, headers={"Retrysafe-Lease": lease}).status_code), count_charges)

connect() returns a connection of the owner of the schema, in a database that only this test uses: faults are triggers in
it. Programs without the proxy pass a function that is called with a key, such as lambda key: pay(conn(), key, 4200).
"""

from __future__ import annotations

import uuid
from contextlib import closing, contextmanager, suppress
from typing import Any, Callable, Iterator, List

import retrysafe

__all__ = ["check", "behind_proxy"]

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
def _fault(connect: Callable[[], Any], schema: str, trigger: str) -> Iterator[None]:
    name = '"' + schema.replace('"', '""') + '"'
    with closing(connect()) as conn:
        conn.autocommit = True
        with conn.cursor() as cursor:
            if trigger:
                deferred = "CONSTRAINT" in trigger
                what = "PERFORM pg_terminate_backend(pg_backend_pid())" if deferred else "RAISE 'a fault of the test'"
                cursor.execute(
                    f"CREATE OR REPLACE FUNCTION {name}.test_fault() RETURNS trigger LANGUAGE plpgsql AS $$"
                    f" BEGIN {what}; RETURN NEW; END $$; {trigger} ON {name}.claims {'INITIALLY DEFERRED' if deferred else ''}"
                    f" FOR EACH ROW WHEN (NEW.state IN (3, 4)) EXECUTE FUNCTION {name}.test_fault()")
            try:
                yield
            finally:
                if trigger:
                    cursor.execute(f"DROP TRIGGER retrysafe_fault ON {name}.claims; DROP FUNCTION {name}.test_fault()")
