package dynamostore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// shared is the server of all tests that do not harm it.
var shared servers.SharedDynalite

// tables numbers the tables, so that each test has its own.
var tables atomic.Int64

// connect returns a client of a server.
func connect(url string, options ...func(*dynamodb.Options)) *dynamodb.Client {
	o := dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
	return dynamodb.New(o, options...)
}

// newTable creates a table, and returns its name.
func newTable(t testing.TB, client *dynamodb.Client) string {
	t.Helper()
	name := fmt.Sprint("table-", tables.Add(1))
	err := CreateTable(t.Context(), client, CreateTableOptions{Table: name, WithoutTimeToLive: true})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// sharedClock is the clock of the stores on the shared server. Each Store that New returns has its own; one who makes a
// table anew within MaxSkew of the last one's end may then see smaller fences.
var sharedClock = newClock(DefaultMaxSkew/2, machineTime())

// openOn returns a store on a table of the shared server.
func openOn(t testing.TB, client Client, table string) *Store {
	t.Helper()
	s, err := open(t.Context(), client, Options{Table: table}, sharedClock)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openTest returns a store on a table of its own.
func openTest(t testing.TB) *Store {
	t.Helper()
	client := connect(shared.Get(t).URL())
	return openOn(t, client, newTable(t, client))
}

// allItems returns what is in the table.
func allItems(t testing.TB, s *Store) []item {
	t.Helper()
	var all []item
	in := &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: aws.Bool(true)}
	for {
		out, err := s.client.Scan(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out.Items...)
		if len(out.LastEvaluatedKey) == 0 {
			return all
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// age moves all instants in the table back.
func age(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	for _, i := range allItems(t, s) {
		sets := []string{"expires_at = expires_at - :seconds"}
		for _, name := range []string{"ca", "en", "ex", "au"} {
			if i[name] != nil {
				sets = append(sets, name+" = "+name+" - :micros")
			}
		}
		values := item{":seconds": number(int64(d.Seconds()))}
		if len(sets) > 1 {
			values[":micros"] = number(d.Microseconds())
		}
		_, err := s.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: itemKey(textOf(i[attrKey]), textOf(i[attrPart])),
			UpdateExpression:          aws.String("SET " + strings.Join(sets, ", ")),
			ExpressionAttributeValues: values,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

const week = 7 * 24 * time.Hour

// claim claims a key by a new owner, for a minute and a day.
func claim(t testing.TB, s *Store, id string) retrysafe.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), retrysafe.ClaimParams{
		Key: retrysafe.Key{Scope: "tenant", ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
		Keep: retrysafe.Retention{Replay: time.Hour, Key: 24 * time.Hour, Audit: 24 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// take claims a key that is free.
func take(t testing.TB, s *Store, id string) retrysafe.Lease {
	t.Helper()
	c := claim(t, s, id)
	if c.Verdict != retrysafe.Acquired {
		t.Fatalf("claim: got %v", c.Verdict)
	}
	return c.Lease
}
