package around

var pool *pgxpool.Pool
var store *pgstore.Store
var queries *Queries

// Queries are as sqlc generates them.
type Queries struct{}

func (q *Queries) WithTx(tx pgx.Tx) *Queries

func (q *Queries) InsertOrder(ctx context.Context, order []byte) error
