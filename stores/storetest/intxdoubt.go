package storetest

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
)

// doubtRules are about transactions whose end gets no answer, and which cannot be looked up either.
func doubtRules() (rules []txRule) {
	for name, carriedOut := range map[string]bool{"carried out": true, "not carried out": false} {
		rules = append(rules, txRule{
			"intx-in-doubt/" + name,
			"if the answer to the end of the transaction is lost, and then the store fails, the first caller is told " +
				"what a retry is told, or that the outcome is unknown",
			func(k *txKit) {
				if k.store.LoseEnd != nil {
					k.inDoubt(carriedOut)
				}
			},
		})
	}
	return rules
}

func (k *txKit) inDoubt(carriedOut bool) {
	k.Helper()
	heal := k.store.LoseEnd(k.T, carriedOut)
	_, first := k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
		defer heal()
		return k.store.InTx(ctx, write)
	})
	if rows := k.store.Rows(k.T); (rows == 1) != carriedOut {
		k.Fatalf("got %d rows; want that the end was carried out: %v", rows, carriedOut)
	}
	ran, again := k.do("k", func(context.Context, *retrysafe.Attempt) error {
		return retrysafe.Retryable(errors.New("look only"))
	})
	var told, replayed *retrysafe.Failure
	switch {
	case ran:
		k.Error("the work runs again")
	case first == nil:
		if again != nil || !carriedOut {
			k.Errorf("the first caller got the answer, a retry got %v", again)
		}
	case errors.As(first, &told) && (carriedOut || !errors.As(again, &replayed)):
		k.Errorf("the first caller was told %v, a retry got %v", first, again)
	}
}
