package around

type Payments interface {
	InTx(ctx context.Context, f func(ctx context.Context) error) error
	Insert(ctx context.Context, amount int64) error
}

type fakePayments struct {
	*retrysafetest.Store
	rows []int64
}

func (p *fakePayments) Insert(ctx context.Context, amount int64) error

func newHandler(guard *retrysafe.Guard, payments Payments) http.Handler
