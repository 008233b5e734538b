import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.net.URI;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

// A service that charges exactly once, with JDBC. It serves one connection, which is its standard input. It tells the
// test at which boundary it is, and waits until the test lets it continue, so that the test can kill it there.
public class Service {
    // The control: complete in a transaction of its own.
    static final boolean APART = System.getenv("COMPLETE").equals("apart");

    static OutputStream client;
    static String order;
    static Socket test;
    static BufferedReader fromTest;

    public static void main(String[] args) throws Exception {
        SocketChannel channel = (SocketChannel) System.inheritedChannel();
        client = Channels.newOutputStream(channel);
        String lease = readRequest(Channels.newInputStream(channel));
        String[] address = System.getenv("BOUNDARIES").split(":");
        test = new Socket(address[0], Integer.parseInt(address[1]));
        fromTest = new BufferedReader(new InputStreamReader(test.getInputStream()));
        URI url = URI.create(System.getenv("DATABASE"));
        try (Connection db = DriverManager.getConnection(
                "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath(), url.getUserInfo(), "")) {
            if (lease == null) lease = claim(db);
            if (lease != null) {
                reach("claimed");
                String answer = charge(db, lease);
                reach("committed");
                respond(201, answer);
            }
        } catch (SQLException error) {
            respond(500, "{\"error\": \"SQLSTATE " + error.getSQLState() + "\"}");
        }
        reach("responded");
        System.exit(0);
    }

    // Reads the order, and returns the lease.
    static String readRequest(InputStream in) throws IOException {
        String lease = null;
        int length = 0;
        for (String line = readLine(in); !line.isEmpty(); line = readLine(in)) {
            String lower = line.toLowerCase();
            String value = line.substring(line.indexOf(':') + 1).trim();
            if (lower.startsWith("retrysafe-lease:")) lease = value;
            if (lower.startsWith("content-length:")) length = Integer.parseInt(value);
        }
        order = new String(in.readNBytes(length), StandardCharsets.UTF_8).split("\"")[3];
        return lease;
    }

    static String readLine(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\n' && c >= 0; c = in.read()) {
            if (c != '\r') line.append((char) c);
        }
        return line.toString();
    }

    static void reach(String boundary) throws IOException {
        test.getOutputStream().write((order + " " + ProcessHandle.current().pid() + " " + boundary + "\n").getBytes());
        if (!"go".equals(fromTest.readLine())) System.exit(1); // the test has ended
    }

    // Does without the proxy what the proxy does: claims the key, or answers with what the record says.
    static String claim(Connection db) throws IOException, SQLException {
        reach("unclaimed");
        try (var query = db.prepareStatement("SELECT verdict, lease, code, convert_from(body, 'UTF8'),"
                + " (extract(epoch FROM lease_left) * 1000)::integer"
                + " FROM retrysafe.claim('charges', ?, lease_for => ?::interval, take_over => true)")) {
            query.setString(1, order);
            query.setString(2, System.getenv("LEASE"));
            ResultSet got = query.executeQuery();
            got.next();
            String verdict = got.getString(1);
            if (verdict.equals("acquired")) return got.getString(2);
            if (verdict.equals("done")) {
                respond(got.getInt(3), got.getString(4));
            } else {
                respond(409, "{\"verdict\": \"" + verdict + "\", \"retry_after_ms\": " + got.getInt(5) + "}");
            }
            return null;
        }
    }

    static String charge(Connection db, String lease) throws IOException, SQLException {
        db.setAutoCommit(false);
        int amount;
        try (var prices = db.createStatement().executeQuery("SELECT amount FROM prices WHERE article = 'book'")) {
            prices.next();
            amount = prices.getInt(1);
        }
        reach("begun");
        String answer;
        try (var insert = db.prepareStatement("INSERT INTO charges (order_id, amount) VALUES (?, ?) RETURNING id")) {
            insert.setString(1, order);
            insert.setInt(2, amount);
            ResultSet charge = insert.executeQuery();
            charge.next();
            answer = "{\"charge\": " + charge.getInt(1) + ", \"order\": \"" + order + "\"}";
        }
        if (APART) db.commit();
        reach("written");
        try (var complete = db.prepareStatement("SELECT retrysafe.complete(?, ?, 201)")) {
            complete.setString(1, lease);
            complete.setString(2, answer);
            complete.execute();
        }
        reach("completed");
        db.commit();
        return answer;
    }

    static void respond(int code, String body) {
        String head = "HTTP/1.1 " + code + " -\r\nContent-Type: application/json\r\nContent-Length: " + body.length()
            + "\r\nConnection: close\r\n\r\n";
        try {
            client.write((head + body).getBytes(StandardCharsets.UTF_8));
        } catch (IOException gone) {
            // the client has gone
        }
    }
}
