<?php
// Runs the job of docs/php.md for the order on the command line, and prints its answer.
declare(strict_types=1);

// page: begin
// Charges an order once. Every call with the same order returns the same answer.
function chargeOnce(PDO $db, array $order): string
{
    $claim = $db->prepare("SELECT verdict, lease, convert_from(body, 'UTF8') AS body
        FROM retrysafe.claim('charges', ?, sha256(convert_to(?, 'UTF8')), take_over => true)");
    $claim->execute([$order['id'], json_encode($order)]);
    $got = $claim->fetch(PDO::FETCH_ASSOC);
    if ($got['verdict'] === 'done') {
        return $got['body'];
    }
    if ($got['verdict'] !== 'acquired') {
        throw new RuntimeException("order {$order['id']}: {$got['verdict']}");
    }
    $db->beginTransaction();
    try {
        $db->prepare('SELECT retrysafe.hold(?)')->execute([$got['lease']]); // nothing commits without complete
        $insert = $db->prepare('INSERT INTO charges (customer, amount) VALUES (?, ?) RETURNING id');
        $insert->execute([$order['customer'], $order['amount']]);
        $answer = json_encode(['id' => $insert->fetchColumn(), 'amount' => $order['amount']]);
        $db->prepare('SELECT retrysafe.complete(?, ?)')->execute([$got['lease'], $answer]);
        $db->commit();
        return $answer;
    } catch (Throwable $error) {
        if ($db->inTransaction()) {
            $db->rollBack();
        }
        throw $error;
    }
}
// page: end

$url = parse_url(getenv('DATABASE_URL'));
parse_str($url['query'] ?? '', $settings);
$dsn = sprintf('pgsql:host=%s;port=%d;dbname=%s', $settings['host'] ?? $url['host'], $url['port'] ?? 5432, ltrim($url['path'], '/'));
$db = new PDO($dsn, $url['user'], $url['pass'] ?? null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
echo chargeOnce($db, json_decode($argv[1], true)), "\n";
