// The program of docs/frameworks/spring-jdbc.md: a service with Spring JDBC behind `retrysafe proxy`. The JDK's own
// server takes the requests.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

public class ChargeService {
    final JdbcTemplate jdbc;
    final TransactionTemplate transaction;

    ChargeService(javax.sql.DataSource database) {
        jdbc = new JdbcTemplate(database);
        transaction = new TransactionTemplate(new DataSourceTransactionManager(database));
    }

    // page: begin
    String charge(String lease, String customer, long amount) {
        return transaction.execute(status -> {
            jdbc.queryForList("SELECT retrysafe.hold(?)", lease); // nothing commits without complete
            long id = jdbc.queryForObject(
                "INSERT INTO charges (customer, amount) VALUES (?, ?) RETURNING id", Long.class, customer, amount);
            String answer = String.format("{\"id\": %d, \"amount\": %d}", id, amount);
            jdbc.queryForList("SELECT retrysafe.complete(?, ?, 201)", lease, answer);
            return answer;
        });
        // execute has returned: charge and answer are committed together.
    }
    // page: end

    private static final Pattern ORDER = Pattern.compile("\"customer\": \"([^\"]*)\", \"amount\": (\\d+)");

    public static void main(String[] args) throws Exception {
        URI url = new URI(System.getenv("DATABASE_URL"));
        PGSimpleDataSource database = new PGSimpleDataSource();
        database.setUrl("jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath());
        database.setUser(url.getUserInfo());
        ChargeService service = new ChargeService(database);

        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/charges", exchange -> {
            int status = 500;
            String answer = "{\"error\": \"the service failed\"}";
            try {
                Matcher order = ORDER.matcher(new String(exchange.getRequestBody().readAllBytes(), "UTF-8"));
                if (!order.find() || Long.parseLong(order.group(2)) <= 0) {
                    status = 400;
                    answer = "{\"error\": \"amount must be positive\"}";
                } else {
                    answer = service.charge(exchange.getRequestHeaders().getFirst("Retrysafe-Lease"), order.group(1), Long.parseLong(order.group(2)));
                    status = 201;
                }
            } catch (Exception e) {
                e.printStackTrace();
            }
            byte[] body = answer.getBytes("UTF-8");
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
