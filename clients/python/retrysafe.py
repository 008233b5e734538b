"""Run an operation exactly once, in the PostgreSQL database that your tables are in.

    def pay(conn, order, amount):
        with retrysafe.once(conn, "payments", order, {"order": order, "amount": amount}) as op:
            if not op.done:
                with op.conn.cursor() as cursor:
                    cursor.execute("INSERT INTO charges (order_id, amount) VALUES (%s, %s)", (order, amount))
                op.complete({"order": order, "status": "paid"})
        return op.answer

The charge and the answer commit in one transaction. Every later call with the same key gets the same bytes and charges
nothing, whatever was killed in between. README.md has the rest.

This file needs nothing but the driver of the connections that it is given: psycopg 3 or psycopg2. Encryption needs the
package cryptography.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import inspect
import json
import os
import random
import re
import sys
import time
import uuid
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import (
    Any, AsyncContextManager, AsyncIterator, Callable, ContextManager, Coroutine, Dict, Iterator, List, Mapping, Optional,
    Sequence, Tuple, Type, TypeVar, Union,
)

__version__ = "0.1.0"
__all__ = [
    "once", "run", "idempotent", "claim", "Operation", "fingerprint", "content_key",
    "Encryption", "hold", "complete", "fail", "step", "save_step", "child_key", "extend", "release",
    "Error", "InFlight", "Mismatch", "Abandoned", "Retryable", "Unknown", "OutcomeUnknown", "AnswerGone", "Misuse", "Failed",
    "LeaseLost", "InvalidLease", "NoSuchClaim", "AnswerConflict", "NoTransaction", "InvalidArgument",
    "Unreadable",
]

Seconds = Union[int, float, timedelta]
Connect = Callable[[], Any]
Observe = Callable[[str], Any]

_IDLE, _ACTIVE, _IN_ERROR, _CLOSED = 0, 1, 3, 4  # transaction_status: the numbers are libpq's, and the same in both drivers
_RETRYABLE = ("40001", "40P01")  # serialization failure, deadlock
_TRIES = 10
_ASK_FOR = 15.0  # seconds in which the record is asked what became of a COMMIT
_in_use: Dict[int, object] = {}  # the connections that have a claim or a block, by id


class Error(Exception):
    """Error is the base of the errors of this module."""

    sqlstate: Optional[str] = None  # of the database, if it raised the error


class InFlight(Error):
    """InFlight is raised while another attempt runs. The lease of that attempt ends in retry_after seconds at most."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"another attempt at this operation is running: try again in {retry_after:.1f} s")
        self.retry_after = retry_after


class Mismatch(Error):
    """Mismatch is raised if the key was first used for a different request."""


class Abandoned(Error):
    """Abandoned is raised, with take_over=False, if an earlier attempt began and did not end, or raised an exception
    other than Retryable."""


class Retryable(Error):
    """Retryable, raised inside of once, says that nothing happened, neither in the transaction nor elsewhere: the key is
    released, also with take_over=False."""


class Unknown(Error):
    """Unknown, raised inside of once, says that it is not known what happened, such as after a call to another system
    whose answer was lost. The work is rolled back and the key is left abandoned, never released: the next call takes it
    over, or raises Abandoned with take_over=False."""


class OutcomeUnknown(Unknown):
    """OutcomeUnknown is raised if the answer to COMMIT was lost and the database could not be asked what became of it.
    Repeat the call with the same key: it gets the stored answer, or runs the work if nothing was committed."""


class AnswerGone(Error):
    """AnswerGone is raised if the operation has completed but its answer is not kept any more."""


class Misuse(Error):
    """Misuse is raised if the calls of this module are made in an order that cannot be exactly once."""


class Failed(Error):
    """Failed, raised inside of once, rolls back the work and stores its answer as a final failure, which every later
    call gets. run and idempotent raise it for a stored failure, with b"" once its answer is not kept any more."""

    def __init__(self, answer: Any, code: int = 422, content_type: str = "application/json") -> None:
        super().__init__(f"the operation has failed for good, with code {code}")
        self.answer, self.code, self.content_type = _bytes(answer), code, content_type


class LeaseLost(Error):
    """LeaseLost is raised if another attempt has taken the key over, or this one has ended. Roll back."""


class InvalidLease(Error):
    """InvalidLease is raised for a text that is not a lease token."""


class NoSuchClaim(Error):
    """NoSuchClaim is raised for a key that was never claimed in this database, or whose record has expired."""


class AnswerConflict(Error):
    """AnswerConflict is raised if the attempt has already completed its key with another answer."""


class NoTransaction(Error):
    """NoTransaction is raised by hold, complete, fail and save_step outside of a transaction."""


class InvalidArgument(Error):
    """InvalidArgument is raised for an argument that cannot be used. The message says which, and why."""


class Unreadable(Error):
    """Unreadable is raised for an answer or a step that cannot be decrypted: the key is missing, it was changed, or there
    is no encryption. Nothing is lost: with the key it is readable again."""


_ERRORS: Dict[Optional[str], Type[Error]] = {
    "RS001": LeaseLost, "RS002": InvalidLease, "RS003": NoSuchClaim,
    "RS004": AnswerConflict, "RS005": NoTransaction, "RS006": InvalidArgument, "RS008": NoTransaction,
}


_MARKER = b"\xf5retrysafe\x01"  # begins all that is encrypted; the last byte is the version of the format


class Encryption:
    """Encryption encrypts answers and the results of steps before they reach the database, with a keyset that
    "retrysafe keyset new" has made. Go programs and the proxy read them with the same keyset, and the other way round.

    keyset     the text of the file. use replaces it while it is in use
    plaintext  what becomes of content that is not encrypted: "refuse" raises Unreadable, "accept" reads it, and "write"
               reads it and encrypts nothing yet, for the first step of switching encryption on

    It needs the package cryptography. Keys, scopes, codes and names of steps are not encrypted.
    """

    def __init__(self, keyset: Union[str, bytes], plaintext: str = "refuse") -> None:
        if plaintext not in ("refuse", "accept", "write"):
            raise InvalidArgument("plaintext must be refuse, accept or write")
        self.plaintext = plaintext
        self.use(keyset)

    def __repr__(self) -> str:  # shows no keys
        return f"<retrysafe.Encryption primary={self._keyset[0]} keys={sorted(self._keyset[1])}>"

    def use(self, keyset: Union[str, bytes]) -> None:
        """Replace the keyset, for everything that is encrypted or decrypted from now on."""
        self._keyset = _read_keyset(keyset)

    def _encrypt(self, content: bytes, place: bytes) -> bytes:
        primary, keys = self._keyset
        nonce = os.urandom(24)
        aead = _derived(keys[primary], nonce[:12])
        return b"\x01" + primary.to_bytes(4, "big") + nonce + bytes(aead.encrypt(nonce[12:], content, place))

    def _decrypt(self, sealed: bytes, place: bytes) -> bytes:
        encrypted = sealed[len(_MARKER):]
        key_id = int.from_bytes(encrypted[1:5], "big")
        key = self._keyset[1].get(key_id)
        if encrypted[:1] == b"\x01" and key and len(encrypted) > 29:
            with suppress(Exception):  # InvalidTag, whose text says nothing
                aead = _derived(key, encrypted[5:17])
                return bytes(aead.decrypt(encrypted[17:29], encrypted[29:], place))
        raise Unreadable(f"what is stored cannot be decrypted (it names key {key_id}): if the keyset lacks that key, put it back; "
                         "otherwise it was changed, or belongs elsewhere")

    def _seal(self, digest: bytes, kind: bytes, content: bytes) -> bytes:
        if self.plaintext == "write":
            return content
        return _MARKER + self._encrypt(content, _MARKER + digest + kind)

    def _unseal(self, digest: bytes, kind: bytes, content: bytes) -> bytes:
        if _is_sealed(content):
            opened = self._decrypt(content, _MARKER + digest + kind)
            if not opened:
                raise Unreadable("what is stored was changed: empty content is never encrypted")
            return opened
        if content and self.plaintext == "refuse":
            raise Unreadable("what is stored is not encrypted: it is of before encryption was switched on, was written by "
                             "another program, or was made up; plaintext='accept' reads it")
        return content

    def _seal_answer(
        self, digest: bytes, failed: bool, code: int, content_type: str, headers: Sequence[str], body: bytes,
    ) -> bytes:
        """Encrypt an answer with its content type and headers, which the database then stores as none."""
        meta = _meta(content_type, headers)
        kind = b"a" + _flags(failed, True, True, code)
        return self._seal(digest, kind, _length(len(meta)) + meta + body)

    def _open_answer(
        self, digest: bytes, failed: bool, code: int, meta: bytes, body: bytes,
    ) -> Tuple[str, List[str], bytes]:
        flags = _flags(failed, bool(meta), bool(body), code)
        if meta and body and _is_sealed(meta) != _is_sealed(body):  # of a service, which encrypts both in the body
            if not _is_sealed(body):
                raise Unreadable("a part of the answer is encrypted and the other is not: it was changed")
            meta, body = _split(self._unseal(digest, b"a" + flags, body))
        else:
            meta, body = self._unseal(digest, b"m" + flags, meta), self._unseal(digest, b"b" + flags, body)
        kind, lines = "", []
        for line in _as_text(meta).split("\n")[1:] if meta.startswith(b"http/1\n") else []:
            if line.startswith("Content-Type: "):
                kind = line[14:]
            elif ": " in line[1:] and line[0] not in ">@":
                lines.append(line)
        return kind, lines, body


def _is_sealed(content: Optional[bytes]) -> bool:
    return content is not None and bytes(content[:len(_MARKER)]) == _MARKER


def _needed(encryption: Optional[Encryption]) -> Encryption:
    if encryption is None:
        raise Unreadable("what is stored is encrypted: pass encryption=retrysafe.Encryption(keyset)")
    return encryption


def _read_keyset(text: Union[str, bytes]) -> Tuple[int, Dict[int, bytes]]:
    """Read the JSON of a keyset of Tink, in cleartext. Errors have nothing of it."""
    keys: Dict[int, bytes] = {}
    try:
        keyset = json.loads(text)
        primary = int(keyset["primaryKeyId"])
        for key in keyset["key"]:
            if key["status"] == "ENABLED":
                data = key["keyData"]
                fields = _fields(base64.b64decode(data["value"]))
                if (data["typeUrl"] != "type.googleapis.com/google.crypto.tink.XAesGcmKey" or len(fields[3]) != 32
                        or key["outputPrefixType"] != "TINK" or _fields(fields[2]) != {1: 12}):
                    raise ValueError
                keys[int(key["keyId"])] = fields[3]
        keys[primary]
    except (ValueError, KeyError, TypeError, IndexError):
        keys = {}
    if not keys:
        raise InvalidArgument("the keyset is not one that retrysafe keyset new has made, in cleartext: its keys are XAES-256-GCM")
    return primary, keys


def _fields(message: bytes) -> Dict[int, Any]:
    """Read a message of protobuf whose fields are numbers and bytes."""
    fields: Dict[int, Any] = {}
    while message:
        tag, message = _number(message)
        value, message = _number(message)
        if tag & 7 == 2:
            fields[tag >> 3], message = message[:value], message[value:]
        else:
            fields[tag >> 3] = value
    return fields


def _number(data: bytes) -> Tuple[int, bytes]:
    n = shift = 0
    for i, byte in enumerate(data):
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return n, data[i + 1:]
    raise ValueError("cut off")


def _length(n: int) -> bytes:
    """Return a length as a varint."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def _split(joined: bytes) -> Tuple[bytes, bytes]:
    n, rest = _number(joined)
    return rest[:n], rest[n:]


def _derived(key: bytes, salt: bytes) -> Any:
    """Return AES-GCM with the key of one message, as XAES-256-GCM derives it: https://c2sp.org/XAES-256-GCM."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    aes = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    zero = int.from_bytes(aes.update(bytes(16)), "big")
    k1 = (zero << 1 ^ (0x87 if zero >> 127 else 0)) & (1 << 128) - 1
    blocks = (int.from_bytes(bytes([0, n, 0x58, 0]) + salt, "big") ^ k1 for n in (1, 2))
    return AESGCM(b"".join(aes.update(block.to_bytes(16, "big")) for block in blocks))


def _digest(scope: bytes, key: bytes) -> bytes:
    joined = _length(len(scope)) + scope + _length(len(key)) + key
    return hashlib.sha256(joined).digest()[:16]


def _lease_digest(lease: str) -> bytes:
    """Return the digest of the key that a lease token is of."""
    if not re.fullmatch(r"v1\.[A-Za-z0-9_-]{54}", str(lease)):
        raise InvalidLease("this is not a lease token: pass the header Retrysafe-Lease as it came, or op.lease")
    return base64.urlsafe_b64decode(lease[3:] + "==")[:16]


def _flags(failed: bool, has_meta: bool, has_body: bool, code: int) -> bytes:
    return bytes([failed | has_meta << 2 | has_body << 3]) + code.to_bytes(4, "big", signed=True)


_NOT_STORED = re.compile(
    r"connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|date|age|via|warning|content-length"
    r"|set-cookie|content-type|idempotent[^a-z0-9]replayed|idempotency[^a-z0-9]status|retrysafe[^a-z0-9].*")


def _meta(content_type: str, headers: Sequence[str]) -> bytes:
    """Return what describes an answer over HTTP, with the rules of the SQL function http_meta."""
    if re.search(r"[\x00-\x1f\x7f]", content_type):
        raise InvalidArgument("the content type has a control character")
    text = f"http/1\nContent-Type: {content_type}\n" if content_type else "http/1\nContent-Type\n"
    for line in headers:
        if not re.match(r"[-A-Za-z0-9!#$%&'*+.^_`|~]+:", line) or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", line):
            raise InvalidArgument("an element of headers is not a header line, such as Location: /charges/17")
        name, value = line.split(":", 1)
        if _NOT_STORED.fullmatch(name.lower()):
            raise InvalidArgument(f"the header {name} cannot be stored: leave it out, or pass content_type")
        text += "-".join(word[:1].upper() + word[1:].lower() for word in name.split("-")) + ": " + value.strip(" \t") + "\n"
    meta = text.encode()
    if len(meta) > 65536:
        raise InvalidArgument(f"content type and headers have {len(meta)} bytes, and the limit is 65536")
    return meta


def _as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


# The rules are coroutines, which this module runs on synchronous connections and retrysafe.aio on those of asyncio. On a
# synchronous connection a coroutine blocks where it would suspend, so that _run gets its result with one call.

_T = TypeVar("_T")
_A = TypeVar("_A", bound="_Attempt")


def _run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    try:
        coroutine.send(None)
        coroutine.throw(Misuse("a coroutine was passed to a call on a synchronous connection: use retrysafe.aio"))
    except StopIteration as e:
        result: _T = e.value
        return result
    raise AssertionError


async def _result(value: Any) -> Any:
    """Return what a call of a connection has returned, or what a coroutine returns."""
    return await value if inspect.isawaitable(value) else value


async def _pause(conn: Any, seconds: float) -> None:
    if _is_async(conn):
        import asyncio

        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)


class _Attempt:
    """_Attempt is what Operation and its counterpart in retrysafe.aio share."""

    def __init__(self, conn: Any, schema: str) -> None:
        self._conn, self._schema = conn, schema
        self._answer: Optional[bytes] = None
        self._released = False
        self._claim: Dict[str, Any] = {}  # the arguments of claim
        self._began = False  # whether the work may have done something
        self._has_steps = False  # of earlier attempts
        self._held_by: Optional[str] = None  # the transaction that must end the attempt
        self._ended_last = False  # whether nothing of the program comes between the end of the attempt and COMMIT
        self._connect: Connect = lambda: None
        self._child_secret: Optional[bytes] = None
        self._encryption: Optional[Encryption] = None
        self._observe: Optional[Observe] = None
        self.lease = ""  # the right to complete the key: keep it out of logs; empty if replayed
        self.attempt = 0  # 1 is the first
        self.done = False  # whether there is an answer, of this attempt or of an earlier one
        self.replayed = False  # whether the answer is that of an earlier attempt
        self.failed = False  # whether it is a final failure
        self.code = 0
        self.content_type = ""
        self.headers: List[str] = []  # Name: value

    def __repr__(self) -> str:  # shows neither the lease nor the answer
        return f"<retrysafe.Operation attempt={self.attempt} done={self.done} replayed={self.replayed}>"

    @property
    def conn(self) -> Any:
        """The driver's connection, for the work. It raises Misuse if the work must not run, because op.replayed."""
        if self.replayed:
            raise Misuse("an earlier attempt has completed this operation: do the work only if not op.done")
        return self._conn

    @property
    def answer(self) -> bytes:
        """The answer: the same bytes for the first call and for each later one."""
        if not self.done:
            raise Misuse("the operation has no answer yet: call op.complete first")
        if self._answer is None:
            raise AnswerGone("the operation has completed, and its answer is not kept any more")
        return self._answer

    def json(self) -> Any:
        """Return the answer, decoded."""
        return json.loads(self.answer)

    def release(self) -> None:
        """Give the key up when the block ends, with what the work has written rolled back: nothing happened."""
        self._released = True

    async def _end(
        self, verb: str, answer: Any, code: int, kind: str, headers: Sequence[str], keep: Optional[Seconds],
    ) -> None:
        body, ended_by = await _end(self.conn, self._schema, verb, self.lease, answer, code, kind, headers, keep,
                                    self._encryption)
        if ended_by != self._held_by:  # what the work wrote before may be gone
            raise Misuse("the block has ended its transaction itself: leave COMMIT and ROLLBACK to once")
        self._answer = body
        self.done, self.failed, self.code, self.content_type = True, verb == "fail", code, kind
        self.headers = list(headers)

    async def _extend(self, lease: Seconds) -> None:
        self._refuse_if_done("extend")  # the record is locked until COMMIT: the other connection would wait for this one
        if _status(self.conn) == _IDLE or not await self._has_written():
            await _result(self._conn.rollback())
            await _alone(self._conn, self._schema, "extend", lease=self.lease, lease_for=_interval(lease))
            if self._held_by:
                await self._hold()
            return
        async with self._other() as other:
            await _alone(other, self._schema, "extend", lease=self.lease, lease_for=_interval(lease))

    def _refuse_if_done(self, verb: str) -> None:
        if self.done and not self.replayed:
            raise Misuse(f"the block has ended the operation: call op.{verb} before op.complete or op.fail")

    async def _step(self, name: str, work: Callable[[], Any]) -> bytes:
        self._refuse_if_done("step")
        if await self._has_written():
            raise Misuse("a step is a transaction of its own: call op.step before the block writes")
        saved = await _step(self._conn, self.lease, name, self._schema, self._encryption)
        if saved is not None:
            return saved
        await _result(self._conn.rollback())  # the transaction of the step commits, and need not complete the key
        self._held_by = None
        try:
            async with _transaction(self._conn):
                result = _bytes(await _result(work()))
                await _save_step(self._conn, self.lease, name, result, self._schema, self._encryption)
        except BaseException:
            with suppress(Exception):
                await self._hold()
            raise
        await self._hold()
        return result

    async def _hold(self) -> None:
        self._held_by = await _hold(self._conn, self.lease, self._schema)

    async def _has_written(self) -> bool:
        """Report whether the transaction has written anything but the hold. What it writes to, it has locked."""
        return await _finds(
            self.conn, "SELECT FROM pg_locks JOIN pg_class ON pg_class.oid = relation AND relnamespace <> to_regnamespace(%s)"
            " WHERE locktype = 'relation' AND pid = pg_backend_pid() AND mode <> 'AccessShareLock' LIMIT 1",
            _quoted(self._schema))

    async def _child_key(self, name: str) -> str:
        call = _alone if _status(self.conn) == _IDLE else _call
        (key,) = await call(self.conn, self._schema, "child_key", lease=self.lease, name=name)
        return _child(key, self._child_secret)

    @asynccontextmanager
    async def _other(self) -> AsyncIterator[Any]:
        """Open another connection for a block."""
        other = self._driver(await _result(self._connect()))
        try:
            yield other
        finally:
            await _result(other.close())

    def _tell(self, event: str) -> None:
        if self._observe:
            with suppress(Exception):
                self._observe(event)

    @staticmethod
    def _driver(conn: Any) -> Any:
        raise NotImplementedError

    def _take(self, row: Tuple[Any, ...]) -> str:
        """Take over what claim has returned, and return its verdict."""
        verdict, lease, attempt, code, content_type, headers, body, failed, meta, steps, _ = row
        if verdict == "acquired":
            self.lease, self.attempt, self._has_steps = lease, attempt, bool(steps)
        elif verdict == "done":
            self.done, self.failed, self.attempt, self.code = True, failed, attempt, code
            self.content_type, self.headers = content_type or "", headers or []
            self._answer = None if body is None else bytes(body)
            if body is not None and (_is_sealed(body) or _is_sealed(meta) or self._encryption):
                digest = _digest(self._claim["scope"], self._claim["id"])
                self.content_type, self.headers, self._answer = _needed(self._encryption)._open_answer(
                    digest, failed, code, bytes(meta or b""), bytes(body))
        return str(verdict)

    async def _give_up(self, conn: Any, cause: Optional[BaseException] = None) -> None:
        """Release the key after the work was rolled back, or end its lease, so that it is abandoned: after Unknown, and
        with take_over=False after every exception that does not say that nothing happened, because the work may have had
        an effect outside of the transaction."""
        if isinstance(cause, Unknown):
            keep = True
        elif self._released or isinstance(cause, Retryable):
            keep = False
        else:
            keep = self._began and not self._claim["take_over"]
        with suppress(Exception):  # the lease runs out in any case
            if _status(conn) in (_ACTIVE, _CLOSED):
                # The connection broke, or a task was cancelled in a statement. Newer versions of psycopg have cancelled it
                # on the server; older ones leave the connection in a state in which nothing can be done with it. The
                # server may miss that, and keep the row locked until the statement has ended.
                if not conn.closed:
                    conn.cancel()
                    await _result(conn.close())
                async with self._other() as other:
                    await _set_autocommit(other, False)
                    await _finds(other, "SELECT set_config('lock_timeout', %s, true)", "5s")
                    await self._give_up(other, cause)
            elif keep:
                await _alone(conn, self._schema, "extend", lease=self.lease, lease_for=timedelta(0))
            else:
                await _alone(conn, self._schema, "release", lease=self.lease)

    async def _undo_claim(self) -> None:
        """Release the key if it was claimed and the answer was lost: otherwise it would be in flight, and then abandoned,
        although the block never began. The same owner gets the same lease again."""
        with suppress(Exception):
            async with self._other() as other:
                row = await _alone(other, self._schema, "claim", **{**self._claim, "take_over": False})
                if row[0] == "acquired":
                    await _alone(other, self._schema, "release", lease=row[1])

    async def _is_held(self) -> bool:
        """Report whether the open transaction is the one that has ended the attempt."""
        return await _finds(self._conn, "SELECT WHERE pg_current_xact_id_if_assigned()::text = %s", self._held_by)

    async def _was_rolled_back(self) -> bool:
        """Ask what became of a transaction that a framework has ended without an error."""
        if self._conn.closed:
            async with self._other() as other:
                return await self._is_aborted(other)
        return await self._is_aborted(self._conn)

    async def _is_aborted(self, conn: Any) -> bool:
        try:
            return await _finds(conn, "SELECT WHERE pg_xact_status(%s::xid8) = 'aborted'", self._held_by)
        finally:
            if not conn.autocommit:
                await _result(conn.rollback())

    async def _was_committed(self) -> bool:
        """Ask the record what became of a COMMIT whose answer was lost. A claim of the same owner gets the answer that
        was committed, or the same lease if nothing was. It waits for a transaction that still has the row."""
        with suppress(Exception):
            await _result(self._conn.close())
        limit = time.monotonic() + _ASK_FOR
        while True:
            with suppress(Exception):
                async with self._other() as other:
                    row = await _alone(other, self._schema, "claim", **{**self._claim, "take_over": False})
                    if row[0] == "done":
                        return bool(self._take(row))
                    if row[0] == "acquired":
                        if row[1] == self.lease:
                            await self._give_up(other)
                            return False
                        with suppress(Exception):
                            await _alone(other, self._schema, "release", lease=row[1])
                        break  # the key was released or has expired since
            if time.monotonic() > limit:
                break
            await _pause(self._conn, random.uniform(0.1, 0.5))
        raise OutcomeUnknown(
            "the answer to COMMIT was lost, and the record does not say what became of it: repeat the call with the same key")


class Operation(_Attempt):
    """Operation is one attempt at an operation, or the answer of an earlier one: see once and claim."""

    def complete(
        self, answer: Any, code: int = 200, content_type: str = "application/json",
        headers: Sequence[str] = (), keep: Optional[Seconds] = None,
    ) -> None:
        """Store the answer (bytes, a str, or anything that becomes JSON) in the transaction of the work. It is kept as
        long as the call of once says, or for keep seconds."""
        _run(self._end("complete", answer, code, content_type, headers, keep))

    def fail(
        self, answer: Any, code: int = 422, content_type: str = "application/json",
        headers: Sequence[str] = (), keep: Optional[Seconds] = None,
    ) -> None:
        """Store a final failure, which commits with what the work has written. Raise Failed to have that rolled back."""
        _run(self._end("fail", answer, code, content_type, headers, keep))

    def extend(self, lease: Seconds) -> None:
        """Make the lease run for so many seconds from now. Once the block has written, it opens another connection,
        because an extension counts from its COMMIT."""
        _run(self._extend(lease))

    def step(self, name: str, work: Callable[[], Any]) -> bytes:
        """Return the saved result of a part of the work, or run that part and commit its result together with what it
        has written. After a crash, the next attempt gets the saved results. A step that calls another system sends
        child_key(name) as the idempotency key. Steps come before the block writes."""
        return _run(self._step(name, work))

    def child_key(self, name: str) -> str:
        """Return the idempotency key for a call to another system: the same in each attempt at this operation. In a
        transaction it commits nothing: what the block or the step has written so far stays part of it."""
        return _run(self._child_key(name))

    @staticmethod
    def _driver(conn: Any) -> Any:
        return _driver(conn)


def claim(
    conn: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any = None, *,
    lease: Seconds = 30, keep: Seconds = 86400, take_over: bool = False, wait: float = 0,
    connect: Optional[Connect] = None, schema: str = "retrysafe", child_secret: Union[str, bytes, None] = None,
    tags: Optional[Mapping[str, str]] = None, encryption: Optional[Encryption] = None, observe: Optional[Observe] = None,
) -> Operation:
    """Claim a key in a transaction of its own, for work that is not in a block of once: do the work and pass op.lease to
    complete, or call release. The arguments are those of once, and take_over is off: work that is not in the
    transaction of complete may have been done by the attempt that died."""
    return _run(_claim_alone(
        Operation, conn, scope, key, request, lease=lease, keep=keep, take_over=take_over, wait=wait, connect=connect,
        schema=schema, child_secret=child_secret, tags=tags, encryption=encryption, observe=observe))


async def _claim_alone(
    kind: Type[_A], conn: Any, scope: Any, key: Any, request: Any, *, take_over: bool = False, **options: Any,
) -> _A:
    driver = kind._driver(conn)
    with _exclusive(driver):
        return await _claim(kind, driver, scope, key, request, take_over=take_over, **options)


async def _claim(
    kind: Type[_A], driver: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any, *,
    lease: Seconds = 30, keep: Seconds = 86400, take_over: bool, wait: float = 0,
    connect: Optional[Connect] = None, schema: str = "retrysafe", child_secret: Union[str, bytes, None] = None,
    tags: Optional[Mapping[str, str]] = None, encryption: Optional[Encryption] = None, observe: Optional[Observe] = None,
) -> _A:
    if _status(driver) != _IDLE:
        raise Misuse("the connection is in a transaction, and the claim would be rolled back with it: "
                     "COMMIT first, or use another connection")
    op = kind(driver, schema)
    op._connect, op._child_secret, op._encryption = connect or _another(driver), _secret(child_secret), encryption
    op._observe = observe
    op._claim = {
        "scope": _text("scope", scope), "id": _text("key", key), "fingerprint": fingerprint(request),
        "lease_for": _interval(lease), "keep": _interval(keep), "take_over": take_over, "owner": str(uuid.uuid4()),
        "tags": None if tags is None else json.dumps(dict(tags)),
    }
    limit, pause = time.monotonic() + wait, 0.05
    while True:
        try:
            row = await _alone(driver, schema, "claim", **op._claim)
        except BaseException as e:
            if (_sqlstate(e) or "08").startswith(("08", "57P0")):  # the connection broke, or the task was cancelled
                await op._undo_claim()
            raise
        verdict = op._take(row)
        if verdict in ("acquired", "done"):
            op.replayed = op.done
            op._tell("replayed" if op.done else "claimed")
            return op
        if verdict != "in_flight" or time.monotonic() >= limit:
            op._tell(verdict)
        if verdict == "mismatch":
            raise Mismatch("the key was first used for a different request: use a new key for a new operation")
        if verdict == "abandoned":
            raise Abandoned("an earlier attempt began and did not end: find out what it has done, or pass take_over=True "
                            "if running the work again is safe")
        left = row[-1].total_seconds()
        if time.monotonic() >= limit:
            raise InFlight(left)
        await _pause(driver, min(pause * random.uniform(0.5, 1), max(limit - time.monotonic(), 0)))
        pause = min(2 * pause, 1)


def once(
    conn: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any = None, *,
    lease: Seconds = 30, keep: Seconds = 86400, take_over: bool = True, wait: float = 0,
    transaction: Optional[Callable[[], ContextManager[Any]]] = None,
    connect: Optional[Connect] = None, schema: str = "retrysafe", child_secret: Union[str, bytes, None] = None,
    tags: Optional[Mapping[str, str]] = None, encryption: Optional[Encryption] = None, observe: Optional[Observe] = None,
) -> ContextManager[Operation]:
    """Run the block in one transaction with the completion of its key, or hand out the answer that is stored.

    The key is claimed in a transaction of its own. The block checks op.done, does its work through op.conn, and calls
    op.complete or op.fail; the transaction commits at its end. An exception rolls it back and releases the key. With
    take_over=False, and if the exception is Unknown, it leaves the key abandoned.

    conn         a connection of psycopg 3 or psycopg2, or of Django or SQLAlchemy on one of them; in no transaction, and
                 used by nothing else until the block has ended
    scope, key   what names the operation: the caller or kind of operation, and the key within it
    request      what the operation is: bytes, a str, or anything that becomes JSON. The same key with another request
                 raises Mismatch. See fingerprint
    lease        for how many seconds other calls get InFlight if this process dies
    keep         for how many seconds later calls get the answer
    take_over    whether to run the work if an earlier attempt began and did not end. It is safe for work that is in the
                 transaction. With False the work begins once, unless op.release or Retryable says that nothing happened:
                 after a crash and after any other exception, later calls raise Abandoned
    wait         for how many seconds to wait for an attempt that runs, before InFlight is raised
    transaction  a function that returns the context manager of the transaction, if a framework must know of it:
                 django.db.transaction.atomic, or begin of a SQLAlchemy connection or session
    connect      a function that returns another connection, used if conn breaks, and by op.extend
    schema       the schema of Retrysafe
    child_secret at least 16 bytes, or a str in UTF-8: with it the key cannot be guessed from what op.child_key returns.
                 It stays the same for as long as an operation may be resumed. None: no secret
    tags         up to 4 names and values by which people find the key, such as {"order": "1234"}. Records keep them in
                 the clear, and a record that is there keeps its own: no secrets
    encryption   encrypts the answer and the results of steps before they reach the database: see Encryption. None: they
                 are stored as they are
    observe      a function for counters. It is called with "claimed" when an attempt begins, "replayed" when a stored
                 answer is handed out, "in_flight", "mismatch" and "abandoned" when the error of that name is raised, and
                 "lost" when LeaseLost has ended the block. What it raises is ignored
    """
    return _Blocking(_once(
        Operation, conn, scope, key, request, transaction, lease=lease, keep=keep, take_over=take_over, wait=wait,
        connect=connect, schema=schema, child_secret=child_secret, tags=tags, encryption=encryption, observe=observe))


class _Blocking(ContextManager[_T]):
    """_Blocking runs an asynchronous block on a synchronous connection."""

    def __init__(self, block: AsyncContextManager[_T]) -> None:
        self._block = block

    def __enter__(self) -> _T:
        return _run(self._block.__aenter__())

    def __exit__(self, *exception: Any) -> Optional[bool]:
        return _run(self._block.__aexit__(*exception))


@asynccontextmanager
async def _once(
    kind: Type[_A], conn: Any, scope: Any, key: Any, request: Any, transaction: Optional[Callable[[], Any]] = None, *,
    take_over: bool = True, **options: Any,
) -> AsyncIterator[_A]:
    driver = kind._driver(conn)
    with _exclusive(driver):
        op = await _claim(kind, driver, scope, key, request, take_over=take_over, **options)
        if not op.done:
            own = functools.partial(_transaction, driver)
            try:
                try:
                    async with _committed(op, transaction or own, asks=transaction is not None):  # which has called hold
                        op._began = True
                        yield op
                except Failed as failure:
                    async with _committed(op, own):
                        await op._end("fail", failure.answer, failure.code, failure.content_type, (), None)
                        op._ended_last = True
            except BaseException as e:
                if isinstance(e, LeaseLost):
                    op._tell("lost")
                await op._give_up(driver, e)
                if not isinstance(e, _Released):
                    raise
            return
    yield op


def run(
    conn: Any, scope: Union[str, bytes], key: Union[str, bytes], request: Any, work: Callable[[Operation], Any],
    **options: Any,
) -> bytes:
    """Run work(op) in a block of once and return the stored answer, which is what work returns. It runs again if the
    database refuses the transaction with 40001 or 40P01, or if the lease was lost. Failed is raised for a failure that
    was stored. options are those of once."""
    return _run(_repeat(Operation, conn, scope, key, request, work, options))


async def _repeat(
    kind: Type[_Attempt], conn: Any, scope: Any, key: Any, request: Any, work: Callable[[Any], Any], options: Dict[str, Any],
) -> bytes:
    for more in reversed(range(_TRIES)):
        try:
            async with _once(kind, conn, scope, key, request, **options) as op:
                if not op.done:
                    answer = await _result(work(op))
                    if not op.done:
                        await op._end("complete", answer, 200, "application/json", (), None)
                        op._ended_last = True
            break
        except Exception as e:
            again = isinstance(e, LeaseLost) or _sqlstate(e) in _RETRYABLE
            if not more or not again or isinstance(e, Unknown) or not options.get("take_over", True):
                raise
            await _pause(kind._driver(conn), random.uniform(0, 0.05))
    if op.failed:  # also if its answer is not kept any more: AnswerGone would be taken for a success
        raise Failed(op._answer or b"", op.code, op.content_type)
    return op.answer


def idempotent(
    scope: Union[str, bytes], key: Union[str, Callable[..., Union[str, bytes]]],
    request: Optional[Callable[..., Any]] = None, **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., bytes]]:
    """Decorate a function pay(op, order, amount), which is then called as pay(conn, order, amount), as by run. key is the
    name of the parameter that has the key, or a function of all arguments that returns it. request is a function of all
    arguments; without one, they are the request themselves."""

    def decorate(function: Callable[..., Any]) -> Callable[..., bytes]:
        identify = _identify(function, key, request)

        @functools.wraps(function)
        def call(conn: Any, *args: Any, **kwargs: Any) -> bytes:
            return run(conn, scope, *identify(conn, *args, **kwargs), lambda op: function(op, *args, **kwargs), **options)

        return call

    return decorate


def _identify(function: Callable[..., Any], key: Any, request: Optional[Callable[..., Any]]) -> Callable[..., Tuple[Any, Any]]:
    """Return a function that returns the key and the request of a call of an idempotent function."""
    signature = inspect.signature(function)
    if not callable(key) and key not in signature.parameters:
        raise TypeError(f"idempotent: {function.__name__} has no parameter {key!r} that could be the key")

    def identify(*args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = dict(list(bound.arguments.items())[1:])
        return key(**named) if callable(key) else named[key], request(**named) if request else named

    return identify


def fingerprint(request: Any) -> bytes:
    """Return the SHA-256 of a request: of bytes, of a str in UTF-8, or of the JSON of anything else, with sorted keys,
    without spaces, in UTF-8. None has no fingerprint: then one key stands for one request, whatever it is."""
    return b"" if request is None else hashlib.sha256(_bytes(request, sort_keys=True)).digest()


def content_key(*parts: Any, secret: Union[str, bytes, None] = None) -> str:
    """Return a key that is derived from what is asked: from values that become JSON, such as ("order", customer, items).

    Warning: two equal orders have the same key. The second one is taken for a retry: its caller gets the answer of the
    first, and nothing runs. Pass something that distinguishes two orders and is the same in each retry of one, such as the
    number of the cart, and keep the key as short as the retries last. A key that the caller chooses is better: it alone
    knows whether it repeats an order or places another one.

    secret  at least 16 bytes, or a str in UTF-8: without it, a reader of the key can test guesses of the parts
    """
    if not parts:
        raise InvalidArgument("content_key needs the parts of what is asked")
    content = _bytes(parts, sort_keys=True)
    if secret is None:
        return hashlib.sha256(content).hexdigest()
    return hmac.new(_secret(secret) or b"", content, hashlib.sha256).hexdigest()


def hold(conn: Any, lease: str, *, schema: str = "retrysafe") -> str:
    """Make COMMIT of the transaction that is open on conn fail unless it has completed, failed or released the key: call
    it first. It returns the transaction's ID."""
    return _run(_hold(_driver(conn), lease, schema))


async def _hold(driver: Any, lease: str, schema: str) -> str:
    return str((await _call(_in_transaction(driver, "hold"), schema, "hold", lease=lease))[0])


def complete(
    conn: Any, lease: str, answer: Any, code: int = 200, content_type: str = "application/json",
    headers: Sequence[str] = (), keep: Optional[Seconds] = None, *, schema: str = "retrysafe",
    encryption: Optional[Encryption] = None,
) -> bytes:
    """Complete the key of a lease in the transaction that is open on conn, and return the bytes of the answer. conn is
    a connection or a cursor. It raises LeaseLost if another attempt has taken the key over: roll back."""
    return _run(_end(_driver(conn), schema, "complete", lease, answer, code, content_type, headers, keep, encryption))[0]


def fail(
    conn: Any, lease: str, answer: Any, code: int = 422, content_type: str = "application/json",
    headers: Sequence[str] = (), keep: Optional[Seconds] = None, *, schema: str = "retrysafe",
    encryption: Optional[Encryption] = None,
) -> bytes:
    """Store a final failure, as complete stores a success."""
    return _run(_end(_driver(conn), schema, "fail", lease, answer, code, content_type, headers, keep, encryption))[0]


def step(
    conn: Any, lease: str, name: str, *, schema: str = "retrysafe", encryption: Optional[Encryption] = None,
) -> Optional[bytes]:
    """Return what an attempt has saved under the name, or None."""
    return _run(_step(_driver(conn), lease, name, schema, encryption))


async def _step(driver: Any, lease: str, name: str, schema: str, encryption: Optional[Encryption]) -> Optional[bytes]:
    (saved,) = await _call(driver, schema, "step", lease=lease, name=name)
    if saved is None or not (encryption or _is_sealed(saved)):
        return None if saved is None else bytes(saved)
    return _needed(encryption)._unseal(_lease_digest(lease), b"s" + name.encode(), bytes(saved))


def save_step(
    conn: Any, lease: str, name: str, data: Any, *, schema: str = "retrysafe", encryption: Optional[Encryption] = None,
) -> None:
    """Save the result of a step in the transaction that is open on conn. The first result of a name stays."""
    _run(_save_step(_driver(conn), lease, name, data, schema, encryption))


async def _save_step(
    driver: Any, lease: str, name: str, data: Any, schema: str, encryption: Optional[Encryption],
) -> None:
    content = _bytes(data)
    if encryption and content:
        content = encryption._seal(_lease_digest(lease), b"s" + name.encode(), content)
    await _call(_in_transaction(driver, "save_step"), schema, "save_step", lease=lease, name=name, data=content)


def child_key(
    conn: Any, lease: str, name: str, *, schema: str = "retrysafe", child_secret: Union[str, bytes, None] = None,
) -> str:
    """Return the idempotency key for a call to another system: the same in each attempt at the operation, with the same
    child_secret: see once."""
    return _run(_child_key(_driver(conn), lease, name, schema, child_secret))


async def _child_key(driver: Any, lease: str, name: str, schema: str, child_secret: Union[str, bytes, None]) -> str:
    secret = _secret(child_secret)
    return _child((await _call(driver, schema, "child_key", lease=lease, name=name))[0], secret)


def extend(conn: Any, lease: str, lease_for: Seconds, *, schema: str = "retrysafe") -> None:
    """Make the lease run for so many seconds from now. It counts when it is committed."""
    _run(_call(_driver(conn), schema, "extend", lease=lease, lease_for=_interval(lease_for)))


def release(conn: Any, lease: str, *, schema: str = "retrysafe") -> None:
    """Give the key up, because nothing happened. It counts when it is committed."""
    _run(_call(_driver(conn), schema, "release", lease=lease))


@contextmanager
def _exclusive(conn: Any) -> Iterator[None]:
    """Keep a connection for one claim or block. Another one on it would commit what this one has written."""
    mine = object()
    if _in_use.setdefault(id(conn), mine) is not mine:  # one step, also for threads
        raise Misuse("the connection is used by another claim or block of once: each thread needs a connection of its own")
    try:
        yield
    finally:
        del _in_use[id(conn)]


class _Released(Exception):
    """_Released rolls a block back because of op.release."""


@asynccontextmanager
async def _committed(op: _Attempt, transaction: Callable[[], Any], asks: bool = False) -> AsyncIterator[None]:
    """Run a block in a transaction that ends the attempt, and find out whether it was committed if the answer to COMMIT
    is lost, and with asks in any case: a framework may roll back without an error."""
    committing = False
    try:
        async with _entered(transaction()):
            await op._hold()
            yield
            if op._released:
                raise _Released
            if not op.done:
                raise Misuse("the block has ended without op.complete, op.fail or op.release: nothing was committed")
            status = _status(op._conn)
            if status == _IDLE:
                raise Misuse("the block has ended its transaction itself: leave COMMIT and ROLLBACK to once")
            if status == _IN_ERROR:  # COMMIT would roll back and report success
                raise Misuse("a statement of the block has failed and its exception was caught: nothing was committed")
            if not op._ended_last and not await op._is_held():  # a ROLLBACK after op.complete, and then another statement
                raise Misuse("the block has ended its transaction itself: leave COMMIT and ROLLBACK to once")
            committing = True
    except BaseException as e:
        answer_is_known = not committing or _status(op._conn) == _IDLE
        if answer_is_known or not isinstance(e, Exception) or not await op._was_committed():
            op.done = False
            raise
    else:
        if _status(op._conn) not in (_IDLE, _CLOSED):
            raise Misuse("once was called inside of a transaction, which has not committed yet: call it outside")
        if not committing or asks and await op._was_rolled_back():
            op.done = False
            raise Misuse("the transaction was rolled back, and no exception came of it: nothing was committed. Look for code "
                         "that has asked for that, such as set_rollback of Django or an inner atomic(savepoint=False)")


@asynccontextmanager
async def _entered(manager: Any) -> AsyncIterator[None]:
    """Run a block in a context manager of either kind."""
    if hasattr(manager, "__aenter__"):
        async with manager:
            yield
    else:
        with manager:
            yield


@asynccontextmanager
async def _transaction(conn: Any) -> AsyncIterator[None]:
    """Run a block in a transaction, which the driver begins with the first statement."""
    autocommit = conn.autocommit
    if autocommit:
        await _set_autocommit(conn, False)
    try:
        yield
        await _result(conn.commit())
    except BaseException:
        with suppress(Exception):
            await _result(conn.rollback())
        raise
    finally:
        with suppress(Exception):  # of a broken connection
            await _set_autocommit(conn, autocommit)


async def _set_autocommit(conn: Any, value: bool) -> None:
    if _is_async(conn):
        await conn.set_autocommit(value)
    else:
        conn.autocommit = value


async def _alone(conn: Any, schema: str, function: str, **arguments: Any) -> Tuple[Any, ...]:
    """Call a function in a transaction of its own, again if the database refuses it."""
    for more in reversed(range(_TRIES)):
        try:
            row = await _call(conn, schema, function, **arguments)
            if not conn.autocommit:
                await _result(conn.commit())
            return row
        except BaseException as e:
            if not conn.autocommit:
                with suppress(Exception):
                    await _result(conn.rollback())
            if not more or _sqlstate(e) not in _RETRYABLE:
                raise
            await _pause(conn, random.uniform(0, 0.05))
    raise AssertionError


_TYPES = {
    "scope": "bytea", "id": "bytea", "fingerprint": "bytea", "lease_for": "interval", "keep": "interval",
    "take_over": "boolean", "owner": "uuid", "lease": "text", "name": "text", "data": "bytea", "body": "bytea",
    "code": "integer", "content_type": "text", "headers": "text[]", "tags": "jsonb",
}


async def _call(conn: Any, schema: str, function: str, **arguments: Any) -> Tuple[Any, ...]:
    """Call a function of the schema. Errors do not have the text of the statement, because psycopg2 writes the lease
    into it."""
    given = {name: value for name, value in arguments.items() if value is not None or name == "lease"}
    columns = {
        "claim": "verdict, lease, attempt, code, content_type, headers, body, failed, meta, step_names, lease_left",
        "step": "*", "child_key": "*",
    }.get(function, "pg_current_xact_id_if_assigned()::text")
    sql = "SELECT {} FROM {}.{}({})".format(
        columns, _quoted(schema).replace("%", "%%"), function,
        ", ".join(f"{name} => %s::{_TYPES[name]}" for name in given))
    psycopg3 = hasattr(conn, "pgconn")
    plain = {"row_factory": _rows} if psycopg3 else {"cursor_factory": sys.modules["psycopg2.extensions"].cursor}
    try:
        cursor = conn.cursor(**plain)
        try:
            await _execute(cursor, sql, list(given.values()))
            return tuple(await _result(cursor.fetchone()))
        finally:
            await _result(cursor.close())
    except Exception as e:
        diag, code = getattr(e, "diag", None), _sqlstate(e)
        if diag is None or diag.message_primary is None or not (code in _ERRORS or diag.statement_position):
            raise
        error = _ERRORS.get(code, Error)("; ".join(filter(None, [diag.message_primary, diag.message_hint])))
        error.sqlstate = code
    raise error


async def _execute(cursor: Any, sql: str, values: Sequence[Any]) -> None:
    # A prepared statement would belong to one connection of the server, which PgBouncer changes.
    await _result(cursor.execute(sql, values, **({"prepare": False} if hasattr(cursor.connection, "pgconn") else {})))


async def _finds(conn: Any, sql: str, value: Any) -> bool:
    """Report whether a query finds a row."""
    cursor = conn.cursor()
    try:
        await _execute(cursor, sql, [value])
        return bool(cursor.rowcount)
    finally:
        await _result(cursor.close())


def _quoted(schema: str) -> str:
    return '"' + schema.replace('"', '""') + '"'


def _rows(cursor: Any) -> Callable[[Sequence[Any]], Sequence[Any]]:
    return tuple


def _sqlstate(e: BaseException) -> Optional[str]:
    """Return the SQLSTATE of an error of the drivers, of SQLAlchemy, or of Django."""
    for of in (e, getattr(e, "orig", None), e.__cause__):
        code = getattr(of, "sqlstate", None) or getattr(of, "pgcode", None)
        if code:
            return str(code)
    return None


def _driver(conn: Any) -> Any:
    """Return the driver's connection behind a cursor, or behind a connection of Django or SQLAlchemy."""
    kind = type(conn).__name__
    for _ in range(4):
        if hasattr(conn, "ensure_connection"):  # Django connects late
            conn.ensure_connection()
        inner = getattr(conn, "driver_connection", None)  # of SQLAlchemy, which passes on all other attributes
        if inner is None and (hasattr(conn, "pgconn") or hasattr(conn, "pgconn_ptr")):
            if _is_async(conn):
                break
            return conn
        inner = inner or getattr(conn, "connection", None)
        conn = inner() if inspect.ismethod(inner) else inner
    raise TypeError(f"{kind} is not a connection or cursor of psycopg 3 or psycopg2 (for asynchronous ones there is retrysafe.aio)")


def _is_async(conn: Any) -> bool:
    return inspect.iscoroutinefunction(conn.commit)


def _in_transaction(driver: Any, verb: str) -> Any:
    if driver.autocommit and _status(driver) == _IDLE:
        raise NoTransaction(f"{verb} was called outside of a transaction: BEGIN first, or turn autocommit off")
    return driver


def _another(conn: Any) -> Connect:
    """Return a function that opens another connection like conn, which may be closed by then."""
    if hasattr(conn, "pgconn"):
        module = sys.modules["psycopg"]
        connect, parameters = (module.AsyncConnection if _is_async(conn) else module).connect, conn.info.get_parameters()
    else:
        connect, parameters = sys.modules["psycopg2"].connect, dict(conn.info.dsn_parameters)
    parameters.update(password=conn.info.password, connect_timeout=parameters.get("connect_timeout") or 5)
    return lambda: connect(**parameters)


def _status(conn: Any) -> int:
    return _CLOSED if conn.closed else int(conn.info.transaction_status)


async def _end(
    driver: Any, schema: str, verb: str, lease: str, answer: Any, code: int, content_type: str,
    headers: Sequence[str], keep: Optional[Seconds], encryption: Optional[Encryption],
) -> Tuple[bytes, str]:
    """Complete or fail a key, and return the bytes of the answer and the transaction's ID."""
    body, lines = _bytes(answer), list(headers)
    stored = body
    if encryption and encryption.plaintext != "write":
        stored = encryption._seal_answer(_lease_digest(lease), verb == "fail", code, content_type, lines, body)
        content_type, lines = "", []  # they are in what was encrypted
    row = await _call(
        _in_transaction(driver, verb), schema, verb, lease=lease, body=stored, code=code, content_type=content_type,
        headers=lines, keep=None if keep is None else _interval(keep))
    return body, row[0]


def _bytes(value: Any, sort_keys: bool = False) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    return str(value).encode()


def _text(name: str, value: Union[str, bytes]) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a str or bytes, not {type(value).__name__}")
    return value.encode() if isinstance(value, str) else value


def _secret(secret: Union[str, bytes, None]) -> Optional[bytes]:
    if secret is None:
        return None
    secret = _text("child_secret", secret)
    if len(secret) < 16:
        raise InvalidArgument(f"child_secret has {len(secret)} bytes, and needs 16 or more: make one with secrets.token_bytes(32), "
                              "and keep it")
    return secret


def _child(key: str, secret: Optional[bytes]) -> str:
    return key if secret is None else hmac.new(secret, key.encode(), hashlib.sha256).hexdigest()[:len(key)]


def _interval(seconds: Seconds) -> timedelta:
    return seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
