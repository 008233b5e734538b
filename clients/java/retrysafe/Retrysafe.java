package retrysafe;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import javax.sql.DataSource;

/**
 * Runs an operation exactly once, in the PostgreSQL database that your tables are in. A key is claimed in a
 * transaction of its own. Then the work and its answer commit together in one transaction, so that after a crash both
 * are there or neither is. The functions of the schema retrysafe decide everything; this class calls them in the
 * right order. It needs Java 11 and the JDBC driver of PostgreSQL.
 */
public final class Retrysafe {
    private static final int TRIES = 10;
    private static final Duration ASK_FOR = Duration.ofSeconds(15); // the record, what became of a COMMIT

    private Retrysafe() {}

    /** Work does an operation in the transaction tx, which once commits, and returns the answer: a String or bytes. */
    public interface Work {
        Object run(Connection tx, Operation op) throws Exception;
    }

    /** Key names an operation, with its options. */
    public static final class Key {
        private final byte[] scope;
        private final byte[] id;
        private byte[] fingerprint = {};
        private Duration lease = Duration.ofSeconds(30);
        private Duration keep = Duration.ofDays(1);
        private Duration wait = Duration.ZERO;
        private boolean takeOver = true;

        /** The scope is the kind of operation, and the caller if callers choose keys. */
        public Key(String scope, String id) {
            this.scope = scope.getBytes(StandardCharsets.UTF_8);
            this.id = id.getBytes(StandardCharsets.UTF_8);
        }

        /** What is asked. The same key with another request throws Mismatch. Only its SHA-256 is stored. */
        public Key request(String request) {
            try {
                fingerprint = MessageDigest.getInstance("SHA-256").digest(request.getBytes(StandardCharsets.UTF_8));
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException(e); // each JDK has it
            }
            return this;
        }

        /** How long other calls get InFlight if this process dies. Default 30 s. */
        public Key lease(Duration lease) {
            this.lease = lease;
            return this;
        }

        /** How long later calls get the answer. Default: a day. */
        public Key keep(Duration keep) {
            this.keep = keep;
            return this;
        }

        /** How long to wait for an attempt that runs, before InFlight is thrown. Default: not at all. */
        public Key waitFor(Duration wait) {
            this.wait = wait;
            return this;
        }

        /**
         * Whether to run if an earlier attempt began and did not end. Default true, because the work is in the
         * transaction. With false, the work is called a single time: after a crash and after an exception other than
         * Retryable, later calls throw Abandoned, because an effect outside of the transaction may have happened.
         */
        public Key takeOver(boolean takeOver) {
            this.takeOver = takeOver;
            return this;
        }
    }

    /** Answer is the answer of an operation: the same for the first call and for each later one. */
    public static final class Answer {
        public final byte[] body;
        public final int code;
        public final String contentType;
        /** The attempt that did the work; 1 is the first. */
        public final int attempt;
        /** Whether an earlier call did the work. */
        public final boolean replayed;

        private Answer(byte[] body, int code, String contentType, int attempt, boolean replayed) {
            this.body = body;
            this.code = code;
            this.contentType = contentType;
            this.attempt = attempt;
            this.replayed = replayed;
        }

        /** The body in UTF-8. */
        @Override
        public String toString() {
            return new String(body, StandardCharsets.UTF_8);
        }
    }

    /** Operation is what the work does with its key. */
    public static final class Operation {
        private final Connection tx;
        private final Row held;
        private final String transaction; // that must end the attempt
        private Answer answer;

        private Operation(Connection tx, Row held) throws SQLException {
            this.tx = tx;
            this.held = held;
            this.transaction = call(tx, "hold", "lease => ?", held.lease);
        }

        /** The attempt; 1 is the first. */
        public int attempt() {
            return held.attempt;
        }

        /**
         * Returns the idempotency key for a call to another system: the same in each attempt at the operation.
         * Without it, such a call may be made again after a crash.
         */
        public String childKey(String name) throws SQLException {
            return rows(tx, "SELECT retrysafe.child_key(lease => ?, name => ?)", held.lease, name);
        }

        /**
         * Stores the answer with a code from 200 to 399 and a content type. Without this call, what the work returns
         * is it.
         */
        public void complete(Object body, int code, String contentType) throws SQLException {
            end("complete", body, code, contentType);
        }

        private void end(String verb, Object body, int code, String contentType) throws SQLException {
            byte[] bytes = bytes(body);
            String by = call(tx, verb, "lease => ?, body => ?::bytea, code => ?, content_type => ?",
                held.lease, bytes, code, contentType);
            refuseUnlessHeldBy(by);
            answer = new Answer(bytes, code, contentType, held.attempt, false);
        }

        private void refuseUnlessHeldBy(String by) { // what the work wrote before may be gone, and so may the answer
            if (!transaction.equals(by)) {
                throw new Misuse("the work has ended its transaction itself: leave commit and rollback to once");
            }
        }
    }

    /**
     * Runs the work in one transaction with the completion of its key, or returns the answer that is stored. An
     * exception of the work rolls back, releases the key, and is thrown; with takeOver(false), and if it is Unknown,
     * the key is left abandoned. The work runs again if the database refuses the transaction with 40001 or 40P01, or
     * the lease was lost.
     */
    public static Answer once(DataSource database, Key key, Work work) throws Exception {
        UUID owner = UUID.randomUUID();
        for (int left = TRIES; ; left--) {
            Row held = take(database, key, owner);
            if (held.answer != null) {
                return held.last();
            }
            boolean[] committing = {false};
            Exception error;
            try {
                return attempt(database, held, work, committing);
            } catch (Exception e) {
                error = e;
            } catch (Error e) { // such as a failed assertion
                giveUp(database, held, key, e);
                throw e;
            }
            boolean again = error instanceof LeaseLost || isConflict(error);
            if (committing[0] && !isRefusal(error)) {
                Row now = whatBecame(database, key, owner, error);
                if (now.answer != null) {
                    return now.last();
                }
                again = true;
            }
            if (left <= 1 || !again || !key.takeOver || error instanceof Unknown) {
                giveUp(database, held, key, error);
                throw error;
            }
            Thread.sleep(ThreadLocalRandom.current().nextInt(50));
        }
    }

    private static Answer attempt(DataSource database, Row held, Work work, boolean[] committing) throws Exception {
        try (Connection tx = database.getConnection()) {
            tx.setAutoCommit(false);
            try {
                Operation op = new Operation(tx, held);
                Failed failure = null;
                try {
                    held.began = true;
                    Object answer = work.run(tx, op);
                    if (op.answer == null) {
                        op.end("complete", answer, 200, "application/json");
                    } else {
                        op.refuseUnlessHeldBy(rows(tx, "SELECT pg_current_xact_id_if_assigned()::text"));
                    }
                } catch (Failed e) {
                    failure = e;
                    tx.rollback();
                    op = new Operation(tx, held);
                    op.end("fail", e.answer.body, e.answer.code, e.answer.contentType);
                }
                committing[0] = true;
                tx.commit();
                if (failure != null) {
                    throw failure;
                }
                return op.answer;
            } catch (Throwable e) {
                if (!(e instanceof Failed)) {
                    rollback(tx, e);
                }
                throw e;
            }
        }
    }

    private static void rollback(Connection tx, Throwable cause) {
        try {
            tx.rollback();
            tx.setAutoCommit(true);
        } catch (SQLException e) {
            cause.addSuppressed(e);
        }
    }

    /**
     * Releases the key, or ends its lease, so that it is abandoned: what is outside of the transaction may have
     * happened.
     */
    private static void giveUp(DataSource database, Row held, Key key, Throwable cause) {
        boolean keep = cause instanceof Unknown || held.began && !key.takeOver && !(cause instanceof Retryable);
        try (Connection conn = database.getConnection()) {
            conn.setAutoCommit(true); // some pools hand out connections without it
            if (keep) {
                call(conn, "extend", "lease => ?, lease_for => interval '0'", held.lease);
            } else {
                call(conn, "release", "lease => ?", held.lease);
            }
        } catch (SQLException | LeaseLost e) { // the lease runs out in any case
            cause.addSuppressed(e);
        }
    }

    /**
     * Asks the record what became of a COMMIT whose answer was lost. A claim of the same owner gets the same lease
     * again.
     */
    private static Row whatBecame(DataSource database, Key key, UUID owner, Exception cause)
            throws InterruptedException {
        for (long until = System.nanoTime() + ASK_FOR.toNanos(); System.nanoTime() < until;
                Thread.sleep(100 + ThreadLocalRandom.current().nextInt(200))) {
            try {
                Row row = claim(database, key, owner, false);
                if (!row.verdict.equals("in_flight") || row.attempt > 0) { // without an attempt, the row is locked
                    return row;
                }
            } catch (SQLException e) {
                cause.addSuppressed(e);
            }
        }
        throw new OutcomeUnknown(
            "the answer to COMMIT was lost, and the record cannot be asked: call again with the same key", cause);
    }

    private static Row take(DataSource database, Key key, UUID owner) throws SQLException, InterruptedException {
        long until = System.nanoTime() + key.wait.toNanos();
        for (int tries = TRIES; ; ) {
            Row row;
            try {
                row = claim(database, key, owner, key.takeOver);
            } catch (SQLException e) {
                if (--tries < 1 || !isConflict(e) && !isLost(e)) {
                    throw e;
                }
                continue;
            }
            switch (row.verdict) {
                case "acquired":
                case "done":
                    return row;
                case "mismatch":
                    throw new Mismatch("the key was first used for another request: use a new key for a new operation");
                case "abandoned":
                    throw new Abandoned(
                        "an earlier attempt began and did not end: find out what it has done, or set takeOver");
                default:
            }
            if (System.nanoTime() >= until) {
                throw new InFlight(row.left);
            }
            Thread.sleep(25 + ThreadLocalRandom.current().nextInt(200));
        }
    }

    private static Row claim(DataSource database, Key key, UUID owner, boolean takeOver) throws SQLException {
        try (Connection conn = database.getConnection()) {
            conn.setAutoCommit(true);
            try (PreparedStatement s = conn.prepareStatement(
                    "SELECT verdict, lease, attempt, code, content_type, body, failed,"
                    + " ceil(extract(epoch FROM lease_left))::bigint FROM retrysafe.claim("
                    + "scope => ?::bytea, id => ?::bytea, fingerprint => ?::bytea,"
                    + " lease_for => make_interval(secs => ?), keep => make_interval(secs => ?),"
                    + " take_over => ?, owner => ?)")) {
                set(s, key.scope, key.id, key.fingerprint, key.lease.toMillis() / 1000.0, key.keep.toMillis() / 1000.0,
                    takeOver, owner);
                try (ResultSet r = s.executeQuery()) {
                    r.next();
                    return new Row(r);
                }
            }
        }
    }

    /** Row is what claim has returned. */
    private static final class Row {
        private static final byte[] ENCRYPTED = "\u00f5retrysafe\u0001".getBytes(StandardCharsets.ISO_8859_1);

        final String verdict;
        final String lease; // a secret: keep it out of logs
        final int attempt;
        final Answer answer; // its body is null if it is not kept any more
        final boolean failed;
        final long left;
        boolean began; // whether the work may have done something

        Row(ResultSet r) throws SQLException {
            verdict = r.getString(1);
            lease = r.getString(2);
            attempt = r.getInt(3);
            answer = !verdict.equals("done") ? null
                : new Answer(r.getBytes(6), r.getInt(4), r.getString(5), attempt, true);
            failed = r.getBoolean(7);
            left = r.getLong(8);
        }

        Answer last() {
            byte[] start = answer.body == null ? new byte[0] : Arrays.copyOf(answer.body, ENCRYPTED.length);
            if (Arrays.equals(start, ENCRYPTED)) {
                throw new Unreadable("the answer was encrypted by another program, and this class has no keyset");
            } else if (failed) {
                throw new Failed(answer);
            } else if (answer.body == null) {
                throw new AnswerGone("the operation has completed, and its answer is not kept any more");
            }
            return answer;
        }
    }

    /** Calls a function of the schema, and returns the ID of the transaction. */
    private static String call(Connection conn, String function, String names, Object... values) throws SQLException {
        return rows(conn, "SELECT pg_current_xact_id_if_assigned()::text"
            + " FROM retrysafe." + function + "(" + names + ")", values);
    }

    private static String rows(Connection conn, String sql, Object... values) throws SQLException {
        try (PreparedStatement s = conn.prepareStatement(sql)) {
            set(s, values);
            try (ResultSet r = s.executeQuery()) {
                r.next();
                return r.getString(1);
            }
        } catch (SQLException e) {
            if ("RS001".equals(e.getSQLState())) {
                throw new LeaseLost(e);
            }
            throw e;
        }
    }

    private static void set(PreparedStatement s, Object... values) throws SQLException {
        for (int i = 0; i < values.length; i++) {
            s.setObject(i + 1, values[i]);
        }
    }

    private static byte[] bytes(Object answer) {
        return answer instanceof byte[] ? (byte[]) answer : String.valueOf(answer).getBytes(StandardCharsets.UTF_8);
    }

    /** The SQLSTATEs of an exception and of its causes, which frameworks wrap. */
    private static List<String> states(Throwable e) {
        List<String> states = new ArrayList<>();
        for (Throwable t = e; t != null && states.size() < 16; t = t.getCause()) {
            states.add(t instanceof SQLException ? String.valueOf(((SQLException) t).getSQLState()) : "");
        }
        return states;
    }

    private static boolean isConflict(Throwable e) {
        List<String> states = states(e);
        return states.contains("40001") || states.contains("40P01");
    }

    /**
     * Whether the connection broke, so that the claim may have been made: the same owner gets the same lease again.
     * Without that the key would be in flight, and then abandoned, although the work was never called.
     */
    private static boolean isLost(SQLException e) {
        return String.valueOf(e.getSQLState()).matches("(08|57P0).*");
    }

    /** Whether the server has refused a COMMIT. Of a server or a pooler that is going away, nothing is known. */
    private static boolean isRefusal(Throwable e) {
        return e instanceof RetrysafeException
            || e instanceof SQLException && !states(e).get(0).matches("(08|57|58|XX).*|null");
    }

    /** The base of all exceptions of this class. */
    public static class RetrysafeException extends RuntimeException {
        RetrysafeException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** Another attempt is running. Its lease ends in retryAfter seconds at most. */
    public static final class InFlight extends RetrysafeException {
        public final long retryAfter;

        InFlight(long left) {
            super("another attempt at this operation is running: try again in " + Math.max(1, left) + " s", null);
            retryAfter = Math.max(1, left);
        }
    }

    /** The key was first used for a different request. */
    public static final class Mismatch extends RetrysafeException {
        Mismatch(String message) {
            super(message, null);
        }
    }

    /** An earlier attempt began and did not end, or its work threw, and takeOver is off. */
    public static final class Abandoned extends RetrysafeException {
        Abandoned(String message) {
            super(message, null);
        }
    }

    /** Thrown in the work, it says that nothing happened: the key is released, also with takeOver(false). */
    public static final class Retryable extends RetrysafeException {
        public Retryable(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /**
     * Thrown in the work, it says that it is not known what happened: the key is left abandoned, and never released.
     */
    public static class Unknown extends RetrysafeException {
        public Unknown(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** The answer to COMMIT was lost and the record could not be asked. Call again with the same key. */
    public static final class OutcomeUnknown extends Unknown {
        OutcomeUnknown(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** The operation has completed, and its answer is not kept any more. */
    public static final class AnswerGone extends RetrysafeException {
        AnswerGone(String message) {
            super(message, null);
        }
    }

    /** The answer is encrypted. Programs that have the keyset can read it. */
    public static final class Unreadable extends RetrysafeException {
        Unreadable(String message) {
            super(message, null);
        }
    }

    /** A final failure. Thrown in the work, it rolls the work back and is stored; every later call throws it again. */
    public static final class Failed extends RetrysafeException {
        public final transient Answer answer;

        /** The code is a status from 400 to 599. */
        public Failed(Object body, int code, String contentType) {
            this(new Answer(bytes(body), code, contentType, 0, false));
        }

        private Failed(Answer answer) {
            super("the operation has failed for good, with the code " + answer.code, null);
            this.answer = answer;
        }
    }

    /** Another attempt has taken the key over, or this one has ended. */
    public static final class LeaseLost extends RetrysafeException {
        LeaseLost(SQLException cause) {
            super("the lease is lost: nothing of the transaction may remain", cause);
        }
    }

    /** The work has done what cannot be exactly once. Nothing was committed. */
    public static final class Misuse extends RetrysafeException {
        Misuse(String message) {
            super(message, null);
        }
    }
}
