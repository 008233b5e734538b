package around

type Charge struct{}

type provider interface {
	Charge(ctx context.Context, key string, amount int64) (Charge, error)
}

var bank provider
var store *sqlitestore.Store
