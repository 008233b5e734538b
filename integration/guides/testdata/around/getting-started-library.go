package around

var orderID string
var amount string
var algorithm *fingerprint.Algorithm

type Receipt struct{}

func charge(ctx context.Context, key, amount string) (Receipt, error)

func askTheBank(ctx context.Context, a *retrysafe.Attempt, abandoned retrysafe.Record) (*retrysafe.Result, error)
