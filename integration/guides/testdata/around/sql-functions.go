package around

var pool *pgxpool.Pool
var lease, customer string
