package shardstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

func TestMain(m *testing.M) { torture.Main(m, tortured()) }

// What they would see: TestSoakMutants.
func TestSoakTorture(t *testing.T) { tortured().Torture(t, soak.Times(t, 12)) }
func TestSoakRace(t *testing.T)    { tortured().Race(t, soak.Times(t, 250)) }
func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }

// tortured is a store over three in memory, which several processes share. They are not moving: while keys move, no
// racer may win, and the fences of two stores are shown.
func tortured() torture.Subject {
	return torture.Subject{
		Place: func(t *testing.T) string { return places(t, 3) },
		Open: func(_ context.Context, place, mutant string) (retrysafe.Store, error) {
			shards, err := remote(place)
			if err != nil {
				return nil, err
			}
			right, err := shardstore.New(shards, shardstore.Options{})
			if err != nil {
				return nil, err
			}
			switch mutant {
			case "":
				return right, nil
			case "shards with other names":
				shards[0].Name, shards[1].Name = shards[1].Name, shards[0].Name
			case "a shard that some do not know":
				shards = shards[:2]
			}
			wrong, err := shardstore.New(shards, shardstore.Options{})
			return torn{right, wrong}, err
		},
		Mutants:        []string{"shards with other names", "a shard that some do not know"},
		RaceMutants:    []string{"shards with other names"},
		FencesAreClock: true,
	}
}

// torn makes half of its claims with another set of shards.
type torn struct {
	retrysafe.Store
	wrong retrysafe.Store
}

func (s torn) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if rand.IntN(2) == 0 {
		return s.wrong.Claim(ctx, p)
	}
	return s.Store.Claim(ctx, p)
}

// places starts so many stores in memory.
func places(t *testing.T, n int) string {
	t.Helper()
	all := make([]string, n)
	for i := range all {
		all[i] = torture.Memory(t)
	}
	return strings.Join(all, " ")
}

// remote returns the stores at places as shards.
func remote(places string) (shards []shardstore.Shard, err error) {
	for i, place := range strings.Fields(places) {
		s, err := torture.OpenMemory(place)
		if err != nil {
			return nil, err
		}
		shards = append(shards, shardstore.Shard{Name: fmt.Sprint("shard ", i), Store: s})
	}
	return shards, nil
}
