"""Consume a queue so that each message has its effect once: SQS with boto3, Kafka with confluent_kafka.

    def charge(op, message):
        with op.conn.cursor() as cursor:
            cursor.execute("INSERT INTO charges (order_id) VALUES (%s)", [message["Body"]])

    queues.sqs(boto3.client("sqs"), queue_url, connect, charge, scope="billing", dead_letters=dead_url)

A message is acknowledged after its key has ended, never before. Its key is the attribute or the header Idempotency-Key,
and otherwise the message's ID in SQS, and topic, partition and offset in Kafka. Each loop works on one message at a
time and has one connection to the database; start more loops in threads or processes.

| what happens in the block of retrysafe.once | the message |
|---|---|
| it commits, or had been committed before | ack: it is removed |
| Failed, Mismatch, or the message has no key | dead: it goes to the dead letters |
| InFlight, LeaseLost, OutcomeUnknown, or the database fails before the work | later: it is delivered again |
| it has ended the process, or Unknown was raised, in each of max_attempts attempts | dead, without another attempt |
| Abandoned, or any other exception of the work | later, and dead after max_deliveries deliveries |
"""

from __future__ import annotations

import importlib
import math
import threading
import time
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import retrysafe

__all__ = ["sqs", "kafka"]

KEY = "Idempotency-Key"
REASON = "x-retrysafe-reason"

Report = Callable[[str, str, Any], Any]
Handle = Callable[[retrysafe.Operation, Any], Any]
Key = Callable[[Any], str]
Verdict = Tuple[str, str, float]  # what becomes of the message, why, and in how many seconds it is delivered again


def sqs(
    client: Any, queue_url: str, connect: retrysafe.Connect, handle: Handle, *, scope: str,
    dead_letters: Optional[str] = None, key: Optional[Key] = None, visibility: int = 30, poll: int = 20,
    max_deliveries: int = 1000, max_attempts: int = 10, min_delay: float = 1, max_delay: float = 60,
    stop: Optional[threading.Event] = None, report: Optional[Report] = None, **options: Any,
) -> None:
    """Consume a queue of SQS until stop is set.

    client          of boto3; its errors end the loop
    connect         returns a connection to the database. A broken one is replaced
    handle          does the work of a message, handle(op, message), in a block of retrysafe.once, which stores what it
                    returns
    scope           the consumer's name: consumers of one queue with different names each process every message
    dead_letters    the URL of a queue. None: the queue has a redrive policy, which gives messages up
    key             returns the key of a message
    visibility      for how many seconds SQS hides a message; extended every third of it while the work runs
    poll            for how many seconds to wait for a message
    max_deliveries  after so many deliveries, a message whose work raises an exception is dead
    max_attempts    after so many attempts without a known outcome, a message is dead: its work may be what ends the
                    process. A message with saved steps, whose other attempts count too, gets max_deliveries attempts. 0: no
                    limit
    report          is called as report("ack", "processed", message): "ack", "later" or "dead", and why
    options         of retrysafe.once
    """
    if dead_letters is None:
        attributes = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["RedrivePolicy"])
        if "RedrivePolicy" not in attributes.get("Attributes", {}):
            raise retrysafe.InvalidArgument("the queue has no redrive policy: pass dead_letters, the URL of a queue")
    work = _Work(connect, handle, scope, max_deliveries, max_attempts, min_delay, max_delay, report, options)
    with work:
        while not (stop and stop.is_set()):
            received = client.receive_message(
                QueueUrl=queue_url, MaxNumberOfMessages=1, WaitTimeSeconds=poll, VisibilityTimeout=visibility,
                AttributeNames=["All"], MessageAttributeNames=["All"])
            for message in received.get("Messages", []):
                which = {"QueueUrl": queue_url, "ReceiptHandle": message["ReceiptHandle"]}

                def extend() -> None:
                    client.change_message_visibility(**which, VisibilityTimeout=visibility)

                with _repeated(visibility / 3, extend):
                    action, reason, delay = work.verdict(
                        message, key or _key_in_sqs, message["Body"],
                        int(message["Attributes"]["ApproximateReceiveCount"]))
                if action == "dead" and dead_letters:
                    _send_dead(client, dead_letters, message, reason)
                if action == "ack" or action == "dead" and dead_letters:
                    client.delete_message(**which)
                else:
                    client.change_message_visibility(**which, VisibilityTimeout=min(math.ceil(delay), 43200))


def _send_dead(client: Any, queue_url: str, message: Any, reason: str) -> None:
    attributes = {
        name: {k: v for k, v in value.items() if k in ("DataType", "StringValue", "BinaryValue")}
        for name, value in message.get("MessageAttributes", {}).items()
    }
    letter: Dict[str, Any] = {"QueueUrl": queue_url, "MessageBody": message["Body"], "MessageAttributes": attributes}
    if queue_url.endswith(".fifo"):  # messages of other queues may have a group too, and must have no deduplication ID
        letter["MessageGroupId"] = message["Attributes"].get("MessageGroupId", message["MessageId"])
        letter["MessageDeduplicationId"] = message["MessageId"]
    if REASON in attributes or len(attributes) < 10:  # SQS accepts no more
        with_reason = {**attributes, REASON: {"DataType": "String", "StringValue": reason}}
        try:
            client.send_message(**{**letter, "MessageAttributes": with_reason})
            return
        except Exception as e:
            if not getattr(e, "response", None):  # which an error has that SQS has answered with
                raise
    client.send_message(**letter)  # it was too large with the reason, or has no room for one


def _key_in_sqs(message: Any) -> str:
    attributes = message.get("MessageAttributes", {})
    return _key([(name, value.get("StringValue")) for name, value in attributes.items()], message["MessageId"])


def _key_in_kafka(message: Any) -> str:
    return _key(message.headers() or [], f"{message.topic()}/{message.partition()}/{message.offset()}")


def _key(headers: Iterable[Tuple[str, Any]], otherwise: str) -> str:
    """Return the value of the header Idempotency-Key, or else the key that the message has itself. As in Go the case of
    the name does not matter, because producers spell it differently, and two values are no key."""
    values = [value for name, value in headers if name.lower() == KEY.lower() and value]
    if len(values) > 1:
        raise ValueError("two keys")
    key = values[0] if values else otherwise
    return key.decode() if isinstance(key, bytes) else str(key)


@contextmanager
def _repeated(every: float, call: Callable[[], Any]) -> Iterator[None]:
    """Repeat a call in a thread while a block runs."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every):
            with suppress(Exception):  # the message may be delivered to another consumer, which finds its key in flight
                call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(every)  # a call that hangs holds nothing up: it only hides the message for longer


def kafka(
    config: Mapping[str, Any], topics: Sequence[str], connect: retrysafe.Connect, handle: Handle, *, scope: str,
    dead_letters: str,
    key: Optional[Key] = None, max_deliveries: int = 1000, max_attempts: int = 10, min_delay: float = 1,
    max_delay: float = 60, stop: Optional[threading.Event] = None, report: Optional[Report] = None, **options: Any,
) -> None:
    """Consume topics of Kafka until stop is set, each partition in order. The arguments are those of sqs, and

    config        of confluent_kafka.Consumer, with bootstrap.servers and group.id. The offset of a message is stored
                  after its key has ended, and librdkafka commits stored offsets in the background
    dead_letters  the name of a topic, which must exist, and accept messages as large as those of topics. A message that
                  is too large with the header x-retrysafe-reason is sent without it. For messages of more than 1 MB,
                  config needs message.max.bytes

    A message that is to be delivered again holds up its partition, and no other. Work takes less than
    max.poll.interval.ms (5 minutes): a consumer that is slower leaves the group.
    """
    driver: Any = importlib.import_module("confluent_kafka")
    KafkaException, TopicPartition = driver.KafkaException, driver.TopicPartition
    consumer = driver.Consumer(
        {"auto.offset.reset": "earliest", **config, "enable.auto.commit": True, "enable.auto.offset.store": False})
    producer = driver.Producer({
        name: value for name, value in config.items() if name in _PRODUCING or name.split(".")[0] in _CONNECTING})
    paused: Dict[Tuple[str, int], float] = {}  # until when
    deliveries: Dict[Tuple[str, int], Tuple[int, int]] = {}  # of messages that are delivered again: offset and count

    def send(message: Any, headers: List[Any]) -> Any:
        failures: List[Any] = []
        try:
            producer.produce(dead_letters, message.value(), message.key(), headers=headers,
                             on_delivery=lambda error, _: failures.append(error) if error else None)
        except KafkaException as e:
            return e.args[0]
        if producer.flush(30) and not failures:
            failures.append("the dead letter was not delivered")
        return failures[0] if failures else None

    def dead(message: Any, reason: str) -> None:
        headers = message.headers() or []
        failure = send(message, [*headers, (REASON, reason.encode())])
        if isinstance(failure, driver.KafkaError) and failure.code() == driver.KafkaError.MSG_SIZE_TOO_LARGE:
            failure = send(message, headers)  # it was too large with the reason
        if failure:
            raise KafkaException(failure)

    work = _Work(connect, handle, scope, max_deliveries, max_attempts, min_delay, max_delay, report, options)
    try:
        with work:
            # A partition that is assigned is not paused. With cooperative-sticky those that stay here are, and are not named.
            consumer.subscribe(list(topics), on_assign=lambda _, partitions: [
                paused.pop((partition.topic, partition.partition), None) for partition in partitions])
            while not (stop and stop.is_set()):
                for place in [place for place, until in paused.items() if until <= time.monotonic()]:
                    del paused[place]
                    with suppress(KafkaException):  # the partition may be that of another member by now
                        consumer.resume([TopicPartition(*place)])
                message = consumer.poll(0.1)
                if message is None:
                    continue
                if message.error():
                    raise KafkaException(message.error())
                place, offset = (message.topic(), message.partition()), message.offset()
                before = deliveries.pop(place, (offset, 0))
                count = before[1] + 1 if before[0] == offset else 1
                action, reason, delay = work.verdict(
                    message, key or _key_in_kafka, message.value() or b"", count)
                if action == "dead":
                    dead(message, reason)
                # An exception: the partition is that of another member by now, which gets the message.
                with suppress(KafkaException):
                    if action == "later":
                        deliveries[place] = offset, count
                        paused[place] = time.monotonic() + delay
                        consumer.pause([TopicPartition(*place)])
                        consumer.seek(TopicPartition(*place, offset))
                    else:
                        consumer.store_offsets(message)
    finally:
        consumer.close()


# The settings of a consumer that the producer of dead letters needs too: those with which it connects, by the first word of
# their names or by their names, and how large a message may be.
_CONNECTING = ("bootstrap", "security", "sasl", "ssl", "client", "socket", "broker")
_PRODUCING = ("enable.ssl.certificate.verification", "metadata.broker.list", "oauth_cb", "message.max.bytes")


class _Work:
    """_Work does the work of messages, one at a time, on a connection of its own."""

    def __init__(
        self, connect: retrysafe.Connect, handle: Handle, scope: str, max_deliveries: int, max_attempts: int,
        min_delay: float, max_delay: float, report: Optional[Report], options: Dict[str, Any],
    ) -> None:
        self._connect, self._handle, self._scope, self._options = connect, handle, scope, options
        self._max_deliveries, self._max_attempts = max_deliveries, max_attempts
        self._min_delay, self._max_delay, self._report = min_delay, max_delay, report
        self._conn: Any = None

    def __enter__(self) -> _Work:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        with suppress(Exception):
            if conn:
                conn.close()

    def verdict(self, message: Any, key: Key, body: Any, delivery: int) -> Verdict:
        """Do the work of a message, and say what becomes of it."""
        action, reason, delay = self._verdict(message, key, body, delivery)
        if self._report:
            self._report(action, reason, message)
        return action, reason, delay

    def _verdict(self, message: Any, key: Key, body: Any, delivery: int) -> Verdict:
        try:
            the_key = key(message)
            if not 1 <= len(the_key.encode()) <= 1024:
                raise ValueError
        except Exception:
            return "dead", "no_key", 0
        delay = min(self._max_delay, self._min_delay * 2 ** min(delivery - 1, 30))
        ran = is_poison = False

        def work(op: retrysafe.Operation) -> Any:
            nonlocal ran, is_poison
            limit = max(self._max_attempts, self._max_deliveries) if op._has_steps else self._max_attempts
            is_poison = 0 < self._max_attempts and limit < op.attempt
            if is_poison:
                raise retrysafe.Failed("too many attempts without a known outcome")
            ran = True
            return self._handle(op, message)

        try:
            if self._conn is None:
                self._conn = self._connect()
            retrysafe.run(self._conn, self._scope, the_key, body, work, **self._options)
        except retrysafe.InFlight as e:
            return "later", "in_flight", min(e.retry_after, self._max_delay)
        except (retrysafe.LeaseLost, retrysafe.OutcomeUnknown) as e:
            self._close()
            return "later", type(e).__name__, delay
        except retrysafe.Failed:
            return "dead", "poison" if is_poison else "failed", 0
        except retrysafe.Mismatch:
            return "dead", "mismatch", 0
        except retrysafe.AnswerGone:
            return "ack", "duplicate", 0
        except Exception as e:
            is_away = self._conn is None or self._conn.closed
            if is_away:
                self._close()
            if not ran and not isinstance(e, retrysafe.Abandoned):
                if is_away or retrysafe._sqlstate(e) and not isinstance(e, retrysafe.InvalidArgument):
                    return "later", "store_down", delay
                raise  # a mistake of the program, such as an option that does not exist
            return "dead" if delivery >= self._max_deliveries else "later", type(e).__name__, delay
        return "ack", "processed" if ran else "duplicate", 0
