<?php
// The program of docs/frameworks/laravel.md: a Laravel service behind `retrysafe proxy`. PHP's web server runs it for
// each request.

require '/usr/share/php/Illuminate/autoload.php';

use Illuminate\Http\Request;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\Facades\Route;

$app = new Illuminate\Foundation\Application(sys_get_temp_dir());
Facade::setFacadeApplication($app);
$app->instance('config', new Illuminate\Config\Repository([
    'view' => ['paths' => []],
    'database' => ['default' => 'pgsql', 'connections' => ['pgsql' => ['url' => getenv('DATABASE_URL')]]],
]));
$app->register(Illuminate\Database\DatabaseServiceProvider::class);
$app->register(Illuminate\Filesystem\FilesystemServiceProvider::class);
$app->register(Illuminate\View\ViewServiceProvider::class);

// page: begin
Route::post('/charges', function (Request $request) {
    if ($request->input('amount') <= 0) {
        return response()->json(['error' => 'amount must be positive'], 400);
    }
    $answer = DB::transaction(function () use ($request) {
        $lease = $request->header('Retrysafe-Lease');
        DB::select('SELECT retrysafe.hold(?)', [$lease]); // nothing commits without complete
        $amount = $request->input('amount');
        $id = DB::table('charges')->insertGetId(['customer' => $request->input('customer'), 'amount' => $amount]);
        $answer = json_encode(['id' => $id, 'amount' => $amount]);
        DB::select('SELECT retrysafe.complete(?, ?, 201)', [$lease, $answer]);

        return $answer;
    });
    // The transaction is committed: charge and answer are saved together.
    return response($answer, 201, ['Content-Type' => 'application/json']);
});
// page: end

$request = Request::capture();
$app->instance('request', $request);
try {
    $response = $app['router']->dispatch($request);
} catch (Throwable $e) {
    error_log($e->getMessage());
    $response = new Illuminate\Http\Response('the service failed', 500);
}
$response->send();
