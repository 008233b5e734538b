package around

type Charge struct{}

type provider interface {
	Charge(ctx context.Context, order []byte) (Charge, error)
}

var bank provider
