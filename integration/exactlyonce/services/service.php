<?php
// A service that charges exactly once, with PDO. It forks a process for each connection. Each process tells the test at
// which boundary it is, and waits until the test lets it continue, so that the test can kill it there.
declare(strict_types=1);

define('APART', getenv('COMPLETE') === 'apart'); // the control: complete in a transaction of its own

// The connection to the test.
class Boundaries
{
    private $socket;

    public function __construct(private string $order)
    {
        $this->socket = stream_socket_client('tcp://' . getenv('BOUNDARIES'));
    }

    public function reach(string $boundary): void
    {
        fwrite($this->socket, "$this->order " . getmypid() . " $boundary\n");
        if (fgets($this->socket) !== "go\n") {
            exit(1); // the test has ended
        }
    }
}

function respond($client, int $code, string $body): void
{
    // an error means that the client has gone
    @fwrite($client, "HTTP/1.1 $code -\r\nContent-Type: application/json\r\nContent-Length: " . strlen($body)
        . "\r\nConnection: close\r\n\r\n$body");
}

// Does without the proxy what the proxy does: claims the key, or answers with what the record says.
function claim(PDO $db, string $order, Boundaries $test, $client): ?string
{
    $test->reach('unclaimed');
    $query = $db->prepare("SELECT verdict, lease, code, convert_from(body, 'UTF8') AS body,
            (extract(epoch FROM lease_left) * 1000)::integer AS left
        FROM retrysafe.claim('charges', ?, lease_for => ?, take_over => true)");
    $query->execute([$order, getenv('LEASE')]);
    $got = $query->fetch(PDO::FETCH_ASSOC);
    if ($got['verdict'] === 'done') {
        respond($client, $got['code'], $got['body']);
    } elseif ($got['verdict'] !== 'acquired') {
        respond($client, 409, json_encode(['verdict' => $got['verdict'], 'retry_after_ms' => $got['left']]));
    }
    return $got['lease'];
}

function charge(PDO $db, string $lease, string $order, Boundaries $test): string
{
    $db->beginTransaction();
    if (!APART) {
        $db->prepare('SELECT retrysafe.hold(?)')->execute([$lease]);
    }
    $amount = $db->query("SELECT amount FROM prices WHERE article = 'book'")->fetchColumn();
    $test->reach('begun');
    $insert = $db->prepare('INSERT INTO charges (order_id, amount) VALUES (?, ?) RETURNING id');
    $insert->execute([$order, $amount]);
    $answer = json_encode(['charge' => $insert->fetchColumn(), 'order' => $order]);
    if (APART) {
        $db->commit();
        $db->beginTransaction();
        $db->prepare('SELECT retrysafe.hold(?)')->execute([$lease]);
    }
    $test->reach('written');
    $db->prepare('SELECT retrysafe.complete(?, ?, 201)')->execute([$lease, $answer]);
    $test->reach('completed');
    $db->commit();
    return $answer;
}

function serve($client): void
{
    fgets($client);
    $headers = [];
    while (($line = rtrim(fgets($client))) !== '') {
        [$name, $value] = explode(': ', $line, 2);
        $headers[strtolower($name)] = $value;
    }
    $order = json_decode(stream_get_contents($client, (int) $headers['content-length']), true)['order'];
    $test = new Boundaries($order);
    try {
        $url = parse_url(getenv('DATABASE'));
        $db = new PDO("pgsql:host={$url['host']};port={$url['port']};dbname=" . ltrim($url['path'], '/'), $url['user']);
        $lease = $headers['retrysafe-lease'] ?? claim($db, $order, $test, $client);
        if ($lease !== null) {
            $test->reach('claimed');
            $answer = charge($db, $lease, $order, $test);
            $test->reach('committed');
            respond($client, 201, $answer);
        }
    } catch (PDOException $error) {
        respond($client, 500, json_encode(['error' => $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE));
    }
    $test->reach('responded');
}

pcntl_signal(SIGCHLD, SIG_IGN);
$server = stream_socket_server('tcp://127.0.0.1:0', context: stream_context_create(['socket' => ['backlog' => 1000]]));
echo substr(strrchr(stream_socket_get_name($server, false), ':'), 1), "\n";
while (true) {
    $ready = [$server, STDIN];
    $none = null;
    stream_select($ready, $none, $none, null);
    if (in_array(STDIN, $ready, true)) {
        exit(0); // the test has ended
    }
    $client = stream_socket_accept($server, -1);
    if (pcntl_fork() === 0) {
        fclose($server);
        serve($client);
        exit(0);
    }
    fclose($client);
}
