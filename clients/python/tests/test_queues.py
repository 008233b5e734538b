"""The loops of retrysafe.queues, with boto3 and confluent_kafka, against servers that integration/clientlibs starts."""

import collections
import contextlib
import os
import threading
import unittest
import uuid
from unittest import mock

import boto3
import botocore.exceptions
import botocore.loaders
import botocore.session
import confluent_kafka
import confluent_kafka.admin
import psycopg

import retrysafe
import retrysafe_queues as queues
from tests.kit import DATABASE, Case


class Crash(BaseException):
    """Crash stands for the end of the process: nothing in the loop may catch it."""


class Queues(Case):
    """Queues has a handler that does what the body of a message says."""

    def setUp(self):
        super().setUp()
        self.seen, self.reports, self.stop = collections.Counter(), [], threading.Event()

    def handle(self, op, message):
        body = self.body(message)
        self.seen[body] += 1
        op.conn.execute("INSERT INTO charges VALUES (%s)", [body])
        if body == "busy" and self.seen[body] < 3:
            raise ValueError("busy")
        if body == "broken":
            raise ValueError("broken")
        if body == "refused":
            raise retrysafe.Failed("refused")
        if body == "crash" and self.seen[body] == 1:
            raise Crash

    def report(self, action, reason, message):
        self.reports.append((self.body(message), action, reason))
        self.left -= action != "later"
        if not self.left:
            self.stop.set()

    def until(self, ended, loop, *args, **options):
        """Run a loop until so many messages have ended."""
        self.left = ended
        self.stop.clear()
        loop(*args, lambda: psycopg.connect(DATABASE), options.pop("handle", self.handle), scope=self.id(), stop=self.stop,
             min_delay=0, report=self.report, **options)

    def outcome(self, body):
        return [report[1:] for report in self.reports if report[0] == body]

    def check(self, dead):
        """Compare what has become of the messages of the test."""
        self.assertEqual(sorted(self.outcome("one")), [("ack", "duplicate"), ("ack", "processed")])
        self.assertEqual(self.outcome("busy"), [("later", "ValueError")] * 2 + [("ack", "processed")])
        self.assertEqual(self.outcome("broken"), [("later", "ValueError")] * 3 + [("dead", "ValueError")])
        self.assertEqual(self.outcome("refused"), [("dead", "failed")])
        self.assertEqual(self.outcome("other"), [("dead", "mismatch")])
        self.assertEqual(self.outcome("keyless"), [("dead", "no_key")])
        self.assertEqual(
            [self.charges(body) for body in ("one", "busy", "broken", "refused", "other", "keyless")], [1, 1, 0, 0, 0, 0])
        self.assertEqual(sorted(dead), [
            ("broken", "ValueError"), ("keyless", "no_key"), ("other", "mismatch"), ("refused", "failed")])

    MESSAGES = [("one", "1"), ("one", "1"), ("other", "1"), ("busy", "2"), ("broken", "3"), ("refused", "4"),
                ("keyless", "x" * 2000)]


class JSON(botocore.loaders.Loader):
    """JSON has boto3 speak the protocol of newer versions of boto3 (1.28.70), which is that of the server of the tests."""

    def load_service_model(self, service, *args, **options):
        model = super().load_service_model(service, *args, **options)
        if service == "sqs" and model.get("metadata", {}).get("protocol") == "query":
            model = self.without_xml(model)
            model["metadata"].update(protocol="json", jsonVersion="1.0", targetPrefix="AmazonSQS")
        return model

    def without_xml(self, part):
        if isinstance(part, list):
            return [self.without_xml(p) for p in part]
        if not isinstance(part, dict):
            return part
        return {name: self.without_xml(p) for name, p in part.items()
                if not (name == "locationName" and isinstance(p, str)) and name not in ("flattened", "resultWrapper")}


class SQS(Queues):
    def setUp(self):
        super().setUp()
        session = botocore.session.get_session()
        session.register_component("data_loader", JSON(include_default_search_paths=True))
        self.client = boto3.Session(botocore_session=session).client(
            "sqs", endpoint_url=os.environ["RETRYSAFE_TEST_SQS"], region_name="us-east-1", aws_access_key_id="test",
            aws_secret_access_key="test")
        self.addCleanup(self.client.close)
        self.queue, self.dead = (
            self.client.create_queue(QueueName=f"q-{uuid.uuid4()}")["QueueUrl"] for _ in range(2))

    def body(self, message):
        return message["Body"]

    def send(self, body, key):
        attributes = {"Idempotency-Key": {"DataType": "String", "StringValue": key}} if key else {}
        self.client.send_message(QueueUrl=self.queue, MessageBody=body, MessageAttributes=attributes)

    def consume(self, ended, **options):
        self.until(ended, queues.sqs, options.pop("client", self.client), self.queue, dead_letters=self.dead, poll=1, **options)

    def received(self, url, wait=0):
        return self.client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=wait, MessageAttributeNames=["All"]).get("Messages", [])

    # Seen to fail with dead messages deleted without a copy, and with the body left out of the call of run.
    def test_what_becomes_of_messages(self):
        for body, key in self.MESSAGES:
            self.send(body, key)
        self.consume(len(self.MESSAGES), max_deliveries=4)
        self.check([(m["Body"], m["MessageAttributes"][queues.REASON]["StringValue"]) for m in self.received(self.dead)])
        self.assertEqual(self.received(self.queue), [])

    # The message comes again when it is visible. Seen to fail with the message deleted before its work: the second loop
    # waits for ever.
    def test_a_crash(self):
        self.send("crash", None)
        self.assertRaises(Crash, self.consume, 1, visibility=1)
        self.consume(1)
        self.assertEqual((self.seen["crash"], self.charges("crash")), (2, 1))

    # Without the redrive policy, nothing would give messages up.
    def test_a_queue_without_dead_letters(self):
        with self.assertRaisesRegex(retrysafe.InvalidArgument, "redrive policy"):
            queues.sqs(self.client, self.queue, None, None, scope="test")

    # While the work runs, no other consumer gets the message. Seen to fail with _repeated left out.
    def test_long_work(self):
        others = []

        def handle(op, message):
            others.extend(self.received(self.queue, wait=2))
            self.handle(op, message)

        self.send("one", None)
        self.consume(1, visibility=1, handle=handle)
        self.assertEqual((others, self.charges("one")), ([], 1))

    # A call to SQS may hang for minutes on a connection that was cut off. Seen to fail with join without a timeout: the loop
    # waited for the call, and so did stop.
    def test_a_call_that_hangs(self):
        hangs, over, late = threading.Event(), threading.Event(), []

        def hang(**_):
            hangs.set()
            if not over.wait(10):
                late.append("the call")

        def handle(op, message):
            hangs.wait(10)
            self.handle(op, message)

        client = mock.Mock(wraps=self.client, change_message_visibility=hang)
        self.send("one", None)
        self.consume(1, client=client, visibility=1, handle=handle)
        over.set()
        self.assertEqual((hangs.is_set(), late, self.charges("one")), (True, [], 1))

    # Nothing is dead because the database is away. Seen to fail with is_away left out of _verdict.
    def test_the_database_is_away(self):
        refused = [psycopg.OperationalError("no route")] * 3

        def connect():
            if refused:
                raise refused.pop()
            return psycopg.connect(DATABASE)

        self.send("one", None)
        self.left = 1
        queues.sqs(self.client, self.queue, connect, self.handle, scope=self.id(), dead_letters=self.dead, poll=1, min_delay=0,
                   max_deliveries=1, stop=self.stop, report=self.report)
        self.assertEqual(self.outcome("one"), [("later", "store_down")] * 3 + [("ack", "processed")])

    # A message whose work ends the process, because it takes all the memory, would do so for ever: the queue of a loop with
    # dead_letters gives nothing up, and a partition of Kafka stays where it is.
    # Seen to fail without is_poison: the work ran once more; and with _has_steps left out: that of the other message did not.
    def test_work_that_ends_the_process(self):
        conn = self.opened(psycopg.connect(DATABASE))
        for body in ("one", "two"):
            key = f"{self.id()} {body}"
            for _ in range(2):
                op = retrysafe.claim(conn, self.id(), key, body, take_over=True)
                if body == "two":
                    retrysafe.save_step(conn, op.lease, "step", "done")
                    conn.commit()
                self.expire(key)
        self.send("two", f"{self.id()} two")
        self.consume(1, max_attempts=2)
        self.assertEqual((self.outcome("two"), self.charges("two")), ([("ack", "processed")], 1))
        for _ in range(2):
            self.send("one", f"{self.id()} one")
        self.consume(2, max_attempts=2)
        self.assertEqual((self.outcome("one"), self.seen["one"]), ([("dead", "poison"), ("dead", "failed")], 0))
        letters = self.received(self.dead)
        self.assertEqual(sorted(m["MessageAttributes"][queues.REASON]["StringValue"] for m in letters), ["failed", "poison"])

    # The loop ended after the key had failed and before the message was with the dead letters, and then the record was
    # purged, or its replay window ended. Seen to fail with op.answer in the error of _repeat: the message was acknowledged.
    def test_a_failure_whose_answer_is_not_kept(self):
        for _ in range(2):
            self.send("refused", "4")
            self.consume(1)
            self.admin.execute("DELETE FROM retrysafe.results")
        self.assertEqual(self.outcome("refused"), [("dead", "failed")] * 2)
        self.assertEqual(self.seen["refused"], 1)

    def test_an_option_that_does_not_exist(self):
        self.send("one", None)
        self.assertRaisesRegex(TypeError, "colour", self.consume, 1, colour="red")


class DeadLetters(unittest.TestCase):
    """DeadLetters has the calls of SQS that its stand-in does not refuse and SQS does."""

    MESSAGE = {"Body": "x", "MessageId": "m-1", "Attributes": {"MessageGroupId": "tenant-1"}, "MessageAttributes": {}}

    def sent(self, queue_url, message, refuse=lambda letter: False):
        letters = []

        class Client:
            def send_message(self, **letter):
                if refuse(letter):
                    raise botocore.exceptions.ClientError({"Error": {"Code": "InvalidParameterValue"}}, "SendMessage")
                letters.append(letter)

        queues._send_dead(Client(), queue_url, message, "failed")
        self.assertEqual(len(letters), 1)
        return letters[0]

    # Messages of a standard queue may have a group (fair queues), and SQS refuses a deduplication ID there: the loop would
    # end with each such message that is dead. Seen to fail with the ID made wherever there is a group.
    def test_a_group_in_a_standard_queue(self):
        letter = self.sent("https://sqs/dead", self.MESSAGE)
        self.assertNotIn("MessageDeduplicationId", letter)
        letter = self.sent("https://sqs/dead.fifo", self.MESSAGE)
        self.assertEqual((letter["MessageGroupId"], letter["MessageDeduplicationId"]), ("tenant-1", "m-1"))
        letter = self.sent("https://sqs/dead.fifo", {**self.MESSAGE, "Attributes": {}})
        self.assertEqual((letter["MessageGroupId"], letter["MessageDeduplicationId"]), ("m-1", "m-1"))

    # A message of the largest size is too large with a reason: without one it is no dead letter, and the loop would end
    # with it each time it is started. Seen to fail with the error passed on.
    def test_a_message_that_is_too_large_with_its_reason(self):
        letter = self.sent("https://sqs/dead", self.MESSAGE, lambda letter: letter["MessageAttributes"])
        self.assertEqual((letter["MessageBody"], letter["MessageAttributes"]), ("x", {}))


class Keys(unittest.TestCase):
    # A copy that the producer has sent again is recognised however it spells the name. Seen to fail with KEY compared as it
    # is written: each copy had a key of its own.
    def test_the_case_of_the_name(self):
        kafka = mock.Mock(**{"topic.return_value": "t", "partition.return_value": 1, "offset.return_value": 7})
        for headers, key in (
            (None, "t/1/7"), ([("idempotency-key", b"k")], "k"), ([("IDEMPOTENCY-KEY", b"k"), ("x", b"y")], "k"),
            ([("Idempotency-Key", None)], "t/1/7"),
        ):
            kafka.headers.return_value = headers
            self.assertEqual(queues._key_in_kafka(kafka), key)
        kafka.headers.return_value = [("Idempotency-Key", b"k"), ("idempotency-key", b"l")]
        self.assertRaises(ValueError, queues._key_in_kafka, kafka)
        for attributes, key in (
            ({}, "m"), ({"idempotency-key": {"DataType": "String", "StringValue": "k"}}, "k"),
            ({"Idempotency-Key": {"DataType": "Binary", "BinaryValue": b"k"}}, "m"),
        ):
            self.assertEqual(queues._key_in_sqs({"MessageId": "m", "MessageAttributes": attributes}), key)


class Settings(unittest.TestCase):
    # Without these the first dead letter ends the loop, and each later start ends with the same message. Seen to fail with
    # _PRODUCING empty, and with "broker" taken out of _CONNECTING.
    def test_what_the_producer_of_dead_letters_gets(self):
        config = {
            "bootstrap.servers": "b", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": print,
            "ssl.ca.location": "ca", "enable.ssl.certificate.verification": False, "broker.address.family": "v4",
            "message.max.bytes": 5_000_000,
        }
        with mock.patch.object(confluent_kafka, "Producer") as producer, mock.patch.object(confluent_kafka, "Consumer"):
            stop = threading.Event()
            stop.set()
            queues.kafka({**config, "group.id": "g"}, ["t"], None, None, scope="s", dead_letters="t.dead", stop=stop)
        producer.assert_called_once_with(config)


class Kafka(Queues):
    def setUp(self):
        super().setUp()
        self.topic, self.group = f"t-{uuid.uuid4()}", str(uuid.uuid4())
        self.dead = self.topic + ".dead"
        self.config = {"bootstrap.servers": os.environ["RETRYSAFE_TEST_KAFKA"], "group.id": self.group, "client.id": "test"}
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.config["bootstrap.servers"]})
        made = admin.create_topics([
            confluent_kafka.admin.NewTopic(self.topic, 2, 1), confluent_kafka.admin.NewTopic(self.dead, 1, 1)])
        for future in made.values():
            future.result()

    def body(self, message):
        return message.value().decode()

    def send(self, messages):
        producer = confluent_kafka.Producer({"bootstrap.servers": self.config["bootstrap.servers"]})
        for n, (body, key) in enumerate(messages):
            headers = [("Idempotency-Key", key.encode())] if key else []
            producer.produce(self.topic, body.encode(), headers=headers, partition=n % 2)
        self.assertEqual(producer.flush(30), 0)

    def consume(self, ended, **options):
        self.until(ended, queues.kafka, self.config, [self.topic], dead_letters=self.dead, **options)

    def committed(self):
        with contextlib.closing(confluent_kafka.Consumer(self.config)) as consumer:
            places = [confluent_kafka.TopicPartition(self.topic, n) for n in range(2)]
            return [max(place.offset, 0) for place in consumer.committed(places, timeout=30)]

    def dead_letters(self, count):
        found = []
        with contextlib.closing(confluent_kafka.Consumer({**self.config, "group.id": "dead"})) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(self.dead, 0, 0)])
            while len(found) < count:
                message = consumer.poll(10)
                if message is None:
                    break
                if not message.error():
                    found.append((self.body(message), dict(message.headers() or []).get(queues.REASON, b"").decode()))
        return found

    # Seen to fail with seek left out: a message that is to come later does not, and the loop waits for it for ever. Also
    # with dead letters that are not produced, and with the body left out of the call of run.
    def test_what_becomes_of_messages(self):
        self.send(self.MESSAGES)
        self.consume(len(self.MESSAGES), max_deliveries=4)
        self.check(self.dead_letters(4))
        self.assertEqual(self.committed(), [4, 3])

    # Nothing is committed of a message whose key has not ended. Seen to fail with the offset stored before the work.
    def test_a_crash(self):
        self.send([("one", None), ("two", None), ("crash", None), ("four", None)])
        self.assertRaises(Crash, self.consume, 4)
        self.assertLess(self.committed()[0], 2)
        self.stop.clear()
        self.consume(4 - sum(self.committed()))
        self.assertEqual((self.committed(), self.seen["crash"], self.charges("crash")), ([2, 2], 2, 1))
        self.assertEqual([self.charges(body) for body in ("one", "two", "four")], [1, 1, 1])

    # A message of the largest size is too large with a reason: without one it is no dead letter, and the loop would end
    # with it each time it is started. Seen to fail with the failure passed on.
    def test_a_message_that_is_too_large_with_its_reason(self):
        self.config["message.max.bytes"] = 2000
        producer = confluent_kafka.Producer({name: self.config[name] for name in ("bootstrap.servers", "message.max.bytes")})
        for size in range(2000, 0, -1):
            with contextlib.suppress(confluent_kafka.KafkaException):  # it is too large
                producer.produce(self.topic, b"x" * size)
                break
        self.assertEqual(producer.flush(30), 0)

        def handle(op, message):
            raise retrysafe.Failed("refused")

        self.consume(1, handle=handle)
        self.assertEqual(self.dead_letters(1), [("x" * size, "")])


if __name__ == "__main__":
    unittest.main()
