import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;
import retrysafe.Retrysafe;
import retrysafe.Retrysafe.Key;

/** The tests of Retrysafe.java, which a Go test in integration/languages starts with a database. */
public final class RetrysafeTest {
    static final URI URL = URI.create(System.getenv("DATABASE_URL"));
    static DataSource database;

    interface Test {
        void run() throws Exception;
    }

    interface Call {
        Object call() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        database = connectTo(URL.getPort());
        sql("CREATE TABLE paid (id text NOT NULL)");
        run("the second call gets the answer", RetrysafeTest::replay);
        run("an answer that another program has encrypted", RetrysafeTest::encrypted);
        run("exceptions", RetrysafeTest::exceptions);
        run("a pool without autocommit", RetrysafeTest::pool);
        run("a pool without a free connection", RetrysafeTest::exhausted);
        run("final failures", RetrysafeTest::failures);
        run("many at once", RetrysafeTest::many);
        run("a lease that is lost", RetrysafeTest::lost);
        run("a transaction that the work ends", RetrysafeTest::ended);
        run("a COMMIT whose answer is lost", RetrysafeTest::commit);
        run("a claim whose answer is lost", RetrysafeTest::claim);
        run("the transaction runs again", RetrysafeTest::conflict);
        System.out.println("ok");
    }

    static void run(String name, Test test) throws Exception {
        try {
            test.run();
        } catch (Exception | AssertionError e) {
            throw new AssertionError(name, e);
        }
    }

    static Key key(String id) {
        return new Key("payments", id);
    }

    static Retrysafe.Work pay(String id) {
        return (tx, op) -> {
            insert(tx, id);
            return "paid by attempt " + op.attempt();
        };
    }

    // Seen to fail with the fingerprint left out of the claim.
    static void replay() throws Exception {
        Retrysafe.Answer first = Retrysafe.once(database, key("replay").request("1"), pay("replay"));
        Retrysafe.Answer again = Retrysafe.once(database, key("replay").request("1"), pay("replay"));
        equal("paid by attempt 1 false", first + " " + first.replayed);
        equal("paid by attempt 1 true 200", again + " " + again.replayed + " " + again.code);
        equal(1, charges("replay"));
        raises(Retrysafe.Mismatch.class, () -> Retrysafe.once(database, key("replay").request("2"), pay("replay")));
        byte[] bytes = {0, -1};
        for (int i = 0; i < 2; i++) {
            Retrysafe.Answer created = Retrysafe.once(database, key("bytes"), (tx, op) -> {
                op.complete(bytes, 201, "image/png");
                return null;
            });
            equal("true 201 image/png", Arrays.equals(bytes, created.body) + " " + created.code + " " + created.contentType);
        }
    }

    // Seen to fail without the look at how the answer begins: it was returned as it is stored.
    static void encrypted() throws Exception {
        byte[] stored = "\u00f5retrysafe\u0001and more".getBytes(StandardCharsets.ISO_8859_1);
        for (String id : new String[] {"encrypted", "failed and encrypted"}) {
            Retrysafe.Work work = (tx, op) -> {
                if (id.startsWith("failed")) {
                    throw new Retrysafe.Failed(stored, 402, null);
                }
                op.complete(stored, 201, null);
                return null;
            };
            try {
                Retrysafe.once(database, key(id), work);
            } catch (Retrysafe.Failed failed) {
                equal(402, failed.answer.code);
            }
            raises(Retrysafe.Unreadable.class, () -> Retrysafe.once(database, key(id), work));
        }
    }

    // Seen to fail with the key released after each exception, with Retryable not looked for, with Unknown tried again, and
    // without "catch (Error e)": the key was in flight.
    static void exceptions() throws Exception {
        Exception conflict = new SQLException("conflict", "40001");
        Object[][] cases = {
            {new IOException("mine"), true, "", 1}, {new IOException("mine"), false, "abandoned", 1},
            {new Retrysafe.Retryable("refused", null), false, "", 1},
            {new Retrysafe.Unknown("no answer", conflict), true, "abandoned", 1},
            {new RuntimeException(conflict), false, "abandoned", 1}, {new RuntimeException(conflict), true, "", 10},
        };
        for (int i = 0; i < cases.length; i++) {
            Exception error = (Exception) cases[i][0];
            String id = "exception " + i;
            AtomicInteger runs = new AtomicInteger();
            Key key = key(id).takeOver((boolean) cases[i][1]);
            Exception thrown = raises(error.getClass(), () -> Retrysafe.once(database, key, (tx, op) -> {
                insert(tx, id);
                runs.incrementAndGet();
                throw error;
            }));
            equal(true, thrown == error);
            equal(cases[i][2] + " 0 " + cases[i][3], state(id) + " " + charges(id) + " " + runs);
            if (cases[i][2].equals("abandoned")) {
                raises(Retrysafe.Abandoned.class, () -> Retrysafe.once(database, key(id).takeOver(false), pay(id)));
                equal("paid by attempt 2", Retrysafe.once(database, key(id), pay(id)).toString());
            }
        }
        try {
            Retrysafe.once(database, key("error"), (tx, op) -> {
                insert(tx, "error");
                throw new StackOverflowError("mine");
            });
        } catch (StackOverflowError e) {
            equal("mine", e.getMessage());
        }
        equal("paid by attempt 1", Retrysafe.once(database, key("error"), pay("error")).toString());
    }

    // Seen to fail with setAutoCommit left out of giveUp: the release was rolled back, and the key stayed in flight until
    // its lease ended. So was the end of the lease with Unknown.
    static void pool() throws Exception {
        DataSource pool = connectTo(URL.getPort(), false);
        for (Exception error : new Exception[] {new IOException("mine"), new Retrysafe.Unknown("no answer", null)}) {
            String id = "pool " + error.getMessage();
            raises(error.getClass(), () -> Retrysafe.once(pool, key(id), (tx, op) -> {
                throw error;
            }));
            equal("paid by attempt " + (error instanceof IOException ? 1 : 2), Retrysafe.once(pool, key(id), pay(id)).toString());
            equal(1, charges(id));
        }
    }

    // A pool that has no connection left for the work: nothing has happened, also with takeOver(false).
    // Seen to fail with began left out of giveUp: the next call threw Abandoned, although the work had never been called.
    static void exhausted() throws Exception {
        AtomicInteger connections = new AtomicInteger();
        DataSource pool = new PGSimpleDataSource() {
            @Override
            public Connection getConnection() throws SQLException {
                if (connections.incrementAndGet() == 2) {
                    throw new SQLException("no connection is free", "08001");
                }
                return database.getConnection();
            }
        };
        Key key = key("exhausted").takeOver(false);
        raises(SQLException.class, () -> Retrysafe.once(pool, key, pay("exhausted")));
        equal("paid by attempt 1", Retrysafe.once(pool, key, pay("exhausted")).toString());
        equal(1, charges("exhausted"));
    }

    // Seen to fail with the rollback before fail left out.
    static void failures() throws Exception {
        for (int i = 0; i < 2; i++) {
            Retrysafe.Failed failed = raises(Retrysafe.Failed.class, () -> Retrysafe.once(database, key("failed"), (tx, op) -> {
                insert(tx, "failed");
                throw new Retrysafe.Failed("no money", 402, "text/plain");
            }));
            equal("no money 402 text/plain", failed.answer + " " + failed.answer.code + " " + failed.answer.contentType);
        }
        equal(0, charges("failed"));
    }

    static void many() throws Exception {
        Set<String> answers = ConcurrentHashMap.newKeySet();
        CompletableFuture<?>[] calls = new CompletableFuture<?>[8];
        AtomicInteger runs = new AtomicInteger();
        for (int i = 0; i < calls.length; i++) {
            int n = i;
            calls[i] = CompletableFuture.runAsync(() -> {
                try {
                    Key key = key("many").waitFor(Duration.ofSeconds(60));
                    answers.add(Retrysafe.once(database, key, (tx, op) -> {
                        insert(tx, "many");
                        runs.incrementAndGet();
                        return n;
                    }).toString());
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
        }
        CompletableFuture.allOf(calls).join();
        equal("1 1 1", answers.size() + " " + charges("many") + " " + runs);
        Retrysafe.once(database, key("in flight"), (tx, op) -> {
            raises(Retrysafe.InFlight.class, () -> Retrysafe.once(database, key("in flight"), pay("in flight")));
            return "";
        });
    }

    // An attempt that is so slow that another takes the key over commits nothing. Seen to fail with LeaseLost not tried again.
    static void lost() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        Retrysafe.Answer answer = Retrysafe.once(database, key("lost"), (tx, op) -> {
            insert(tx, "lost");
            if (runs.incrementAndGet() == 1) {
                sql("UPDATE retrysafe.claims SET ends_at = retrysafe.clock() WHERE id = 'lost'");
                Retrysafe.once(database, key("lost"), pay("lost"));
            }
            return "slow";
        });
        equal("paid by attempt 2 true 1", answer + " " + answer.replayed + " " + charges("lost"));
        equal(1, runs.get());
    }

    // Seen to fail with hold left out of Operation, and with the transactions not compared.
    static void ended() throws Exception {
        SQLException refused = raises(SQLException.class, () -> Retrysafe.once(database, key("ended"), (tx, op) -> {
            insert(tx, "ended");
            tx.commit();
            return "";
        }));
        equal("RS008", refused.getSQLState());
        raises(Retrysafe.Misuse.class, () -> Retrysafe.once(database, key("ended"), (tx, op) -> {
            tx.rollback();
            insert(tx, "ended");
            return "";
        }));
        raises(Retrysafe.Misuse.class, () -> Retrysafe.once(database, key("ended"), (tx, op) -> {
            op.complete("", 200, "text/plain");
            tx.rollback();
            insert(tx, "ended");
            return "";
        }));
        equal(" 0", state("ended") + " " + charges("ended"));
        String[] keys = new String[2];
        for (int i = 0; i < 2; i++) {
            int n = i;
            raises(IOException.class, () -> Retrysafe.once(database, key("child"), (tx, op) -> {
                keys[n] = op.childKey("call");
                throw new IOException();
            }));
        }
        equal(keys[0], keys[1]);
    }

    // Seen to fail with the record not asked: the call throws although the charge is made.
    static void commit() throws Exception {
        for (boolean before : new boolean[] {false, true}) {
            String id = "commit " + before;
            try (Cut network = new Cut(before, "COMMIT")) {
                AtomicInteger runs = new AtomicInteger();
                Retrysafe.Answer answer = Retrysafe.once(connectTo(network.port()), key(id), (tx, op) -> {
                    insert(tx, id);
                    network.armed.set(runs.incrementAndGet() == 1);
                    return "first";
                });
                equal("first 1 " + (before ? 2 : 1) + " 1", answer + " " + charges(id) + " " + runs + " " + network.cut);
            }
        }
    }

    // Seen to fail with isLost left out of take: once threw, and the key stayed taken although the work was never called.
    static void claim() throws Exception {
        try (Cut network = new Cut(false, "retrysafe.claim(")) {
            network.armed.set(true);
            Key key = key("claim").takeOver(false);
            Retrysafe.Answer answer = Retrysafe.once(connectTo(network.port()), key, pay("claim"));
            equal("paid by attempt 1 1 1", answer + " " + charges("claim") + " " + network.cut);
        }
    }

    // Seen to fail with isConflict left out of once.
    static void conflict() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        Retrysafe.once(database, key("conflict"), (tx, op) -> {
            insert(tx, "conflict");
            if (runs.incrementAndGet() < 3) {
                throw new RuntimeException(new SQLException("again", "40P01"));
            }
            return "";
        });
        equal("3 1", runs + " " + charges("conflict"));
    }

    static DataSource connectTo(int port) {
        return connectTo(port, true);
    }

    static DataSource connectTo(int port, boolean autoCommit) {
        PGSimpleDataSource source = new PGSimpleDataSource() {
            @Override
            public Connection getConnection() throws SQLException {
                Connection conn = super.getConnection();
                conn.setAutoCommit(autoCommit);
                return conn;
            }
        };
        source.setUrl("jdbc:postgresql://127.0.0.1:" + port + URL.getPath() + "?sslmode=disable&gssEncMode=disable");
        source.setUser(URL.getUserInfo().split(":")[0]);
        return source;
    }

    static void sql(String statement) throws SQLException {
        try (Connection conn = database.getConnection()) {
            conn.createStatement().execute(statement);
        }
    }

    static void insert(Connection conn, String id) throws SQLException {
        try (PreparedStatement s = conn.prepareStatement("INSERT INTO paid VALUES (?)")) {
            s.setString(1, id);
            s.executeUpdate();
        }
    }

    static int charges(String id) throws SQLException {
        return Integer.parseInt(value("SELECT count(*)::text FROM paid WHERE id = ?", id));
    }

    static String state(String id) throws SQLException {
        return value("SELECT coalesce(max(state), '') FROM retrysafe.records WHERE id = ?", id);
    }

    static String value(String query, String id) throws SQLException {
        try (Connection conn = database.getConnection(); PreparedStatement s = conn.prepareStatement(query)) {
            s.setString(1, id);
            try (ResultSet r = s.executeQuery()) {
                r.next();
                return r.getString(1);
            }
        }
    }

    static void equal(Object want, Object got) {
        if (!want.equals(got)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    static <T extends Exception> T raises(Class<T> kind, Call call) throws Exception {
        try {
            call.call();
        } catch (Exception e) {
            if (kind.isInstance(e)) {
                return kind.cast(e);
            }
            throw e;
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    /** Cut is a network in front of the database. Once armed, it breaks the next connection that sends the statement. */
    static final class Cut implements AutoCloseable {
        final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        final AtomicBoolean armed = new AtomicBoolean();
        final AtomicInteger cut = new AtomicInteger();
        final boolean before; // the server gets it
        final String statement;

        Cut(boolean before, String statement) throws IOException {
            this.before = before;
            this.statement = statement;
            start(() -> {
                while (true) {
                    Socket client = listener.accept();
                    Socket server = new Socket(URL.getHost(), URL.getPort());
                    AtomicBoolean lost = new AtomicBoolean();
                    start(() -> copy(client, server, true, lost));
                    start(() -> copy(server, client, false, lost));
                }
            });
        }

        int port() {
            return listener.getLocalPort();
        }

        private void copy(Socket from, Socket to, boolean up, AtomicBoolean lost) throws IOException {
            try (from; to) {
                InputStream in = from.getInputStream();
                OutputStream out = to.getOutputStream();
                byte[] data = new byte[65536];
                for (int n; (n = in.read(data)) > 0; out.write(data, 0, n)) {
                    String text = new String(data, 0, n, StandardCharsets.ISO_8859_1);
                    if (up && text.contains(statement) && armed.compareAndSet(true, false)) {
                        lost.set(true);
                        cut.incrementAndGet();
                        if (before) {
                            return;
                        }
                    } else if (!up && lost.get()) { // the answer
                        return;
                    }
                }
            }
        }

        private static void start(Test work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (Exception e) {
                    // a connection that was closed
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }
}
