package dynamostore

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestMain(m *testing.M) {
	endTime = time.Minute // all tests load the one process that stands in for DynamoDB
	torture.Main(m, tortured(), withServersTime())
}

// What they would see: TestSoakMutants.
func TestSoakTorture(t *testing.T) { tortured().Torture(t, soak.Times(t, 10)) }
func TestSoakRace(t *testing.T)    { tortured().Race(t, soak.Times(t, 96)) }
func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }

// The traces of the model see what breaks the protocol. What they cannot see is for Torture and Race.
func TestSoakTracesSeeMutants(t *testing.T) {
	t.Parallel()
	torture.TracesSee(t, soak.Times(t, 1), storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
	}, torture.Names(mutations()), map[string]string{
		"claim of what has changed": "it takes calls at the same time",
		"expiry too early":          "it is wrong by two seconds",
	}, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		broken := s.(*Store)
		broken.client = &mutated{broken.client, mutations()[mutant]}
		return broken, nil
	})
}

// tortured is this store on the shared server. Its processes take the time from this machine, and leases are not
// lengthened, so that leases of a fraction of a second can be tested exactly. A fence is the time before the request of
// its claim: the record of which the claim found nothing may have been swept since then.
func tortured() torture.Subject {
	return torture.Subject{
		Name:  "conditions",
		Place: newPlace,
		Open: func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
			s, err := openPlace(ctx, place, mutant, exactClock())
			if err != nil {
				return nil, err
			}
			s.skew = 0
			return s, nil
		},
		Mutants:     torture.Names(mutations()),
		RaceMutants: []string{"claim of a new key without condition"},
		Lease:       250 * time.Millisecond,
		Tolerance:   10 * time.Millisecond,
	}
}

func newPlace(t *testing.T) string {
	d := shared.Get(t)
	return d.URL() + " " + newTable(t, connect(d.URL()))
}

func openPlace(ctx context.Context, place, mutant string, c *clock) (*Store, error) {
	url, table, _ := strings.Cut(place, " ")
	transport := &http.Transport{MaxIdleConnsPerHost: 32, MaxConnsPerHost: 32}
	var client Client = connect(url, func(o *dynamodb.Options) {
		o.HTTPClient = &http.Client{Transport: &timeless{transport, c.at != ticks{}}}
	})
	if mutant != "" {
		m, ok := mutations()[mutant]
		if !ok {
			return nil, fmt.Errorf("no mutant %q", mutant)
		}
		client = &mutated{client, m}
	}
	return open(ctx, client, Options{Table: table}, c)
}

// exactClock is a clock that knows its offset, because the server is on the same machine.
func exactClock() *clock {
	c := newClock(time.Hour, machineTime())
	c.known, c.agreed, c.at = true, true, c.local()
	c.lo = c.at.wall - c.at.mono
	c.hi = c.lo
	return c
}

// timeless makes answers that do not tell the time, if it is on.
type timeless struct {
	http.RoundTripper
	on bool
}

func (t *timeless) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil && t.on {
		response.Header.Del("X-Amzn-Requestid")
	}
	return response, err
}

// mutation changes what the server is asked, or what it answers. Each value of an expression must be used, so a
// condition is not taken out but made to hold always.
type mutation struct {
	in           string // a part of the requests that it changes
	old, instead string
	read         func(item) // changes records that are read
}

const (
	anyLease = "(ow = :owner OR ow <> :owner) AND (fe = :fence OR fe <> :fence)"
	myLease  = "ow = :owner AND fe = :fence"
)

func mutations() map[string]mutation {
	return map[string]mutation{
		"claim of a new key without condition": {
			in: noRecord, old: "st = :free AND fe < :fence", instead: "st >= :free AND fe < :fence",
		},
		"claim despite a running lease": {read: earlier("en", time.Hour)},
		"claim of what has changed": {
			in: sameVersion, old: sameVersion,
			instead: "(fe = :seenfence OR fe <> :seenfence) AND (ve = :seen OR ve <> :seen)",
		},
		"expiry too early":                 {read: earlier("kk", 2*time.Second)},
		"extend without fence and owner":   {in: "SET en = :end", old: myLease, instead: anyLease},
		"checkpoint overwrites the first":  {in: ":names", old: "if_not_exists(sp, :none)", instead: ":none"},
		"complete without fence and owner": {in: "st = :state", old: myLease, instead: anyLease},
		"complete of an ended key":         {in: "st = :state", old: "st = :pending", instead: "st >= :pending"},
	}
}

// earlier makes an instant or a duration of a record smaller.
func earlier(name string, by time.Duration) func(item) {
	return func(i item) {
		if n, err := numberIn(i[name]); err == nil {
			i[name] = number(n - by.Microseconds())
		}
	}
}

// mutated is a client with a mutation.
type mutated struct {
	Client
	m mutation
}

func (c *mutated) change(update, condition *string) {
	if c.m.in == "" || !strings.Contains(aws.ToString(update)+aws.ToString(condition), c.m.in) {
		return
	}
	for _, text := range []*string{update, condition} {
		if text != nil {
			*text = strings.ReplaceAll(*text, c.m.old, c.m.instead)
		}
	}
}

func (c *mutated) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	changed := *in
	changed.ConditionExpression = aws.String(aws.ToString(in.ConditionExpression))
	c.change(nil, changed.ConditionExpression)
	return c.Client.PutItem(ctx, &changed, o...)
}

func (c *mutated) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options),
) (*dynamodb.UpdateItemOutput, error) {
	changed := *in
	changed.UpdateExpression = aws.String(aws.ToString(in.UpdateExpression))
	changed.ConditionExpression = aws.String(aws.ToString(in.ConditionExpression))
	c.change(changed.UpdateExpression, changed.ConditionExpression)
	return c.Client.UpdateItem(ctx, &changed, o...)
}

func (c *mutated) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	out, err := c.Client.GetItem(ctx, in, o...)
	if err == nil && c.m.read != nil {
		c.m.read(out.Item)
	}
	return out, err
}

// withServersTime is this store as programs use it: its processes take the time from the server's answers.
func withServersTime() torture.Subject {
	s := tortured()
	s.Name = "servers time"
	s.Open = func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
		return openPlace(ctx, place, mutant, newClock(DefaultMaxSkew/2, machineTime()))
	}
	s.Lease, s.Tolerance = time.Second, 2*DefaultMaxSkew
	s.Now = func() time.Time { return time.Now() }
	return s
}

// Seen to fail with the machine's clock in place of the one that the answers tell.
func TestSoakTortureWithWrongClocks(t *testing.T) {
	withServersTime().TortureWithWrongClocks(t, soak.Times(t, 1))
}
