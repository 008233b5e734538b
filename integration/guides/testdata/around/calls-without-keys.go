package around

type transaction struct{ ID, Status string }

var provider interface {
	find(ctx context.Context, orderID string) (transaction, error)
	charge(ctx context.Context, orderID, amount string) (transaction, error)
}

var authToken string

func verifyTwilio(token, address string) httpsafe.VerifyFunc
