package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/dynamostore"
)

// dynamoTable is a table of DynamoDB. Region and credentials come from where the SDK of AWS finds them, unless the URL
// has them: it never has credentials.
type dynamoTable struct {
	url      *serverURL
	text     string
	table    string
	region   string
	endpoint string
	skew     time.Duration
	noTTL    bool
}

// parseDynamoDB reads the URL of a table: dynamodb://TABLE.
func parseDynamoDB(text string) (Ref, error) {
	u, err := readURL(text, "dynamodb://TABLE?region=REGION", "")
	if err != nil {
		return Ref{}, err
	}
	table := strings.TrimSuffix(strings.TrimPrefix(u.front, "dynamodb://"), "/")
	if strings.ContainsAny(table, "/@:") {
		return Ref{}, u.refusef("write dynamodb://TABLE?region=REGION; credentials come from the environment or from " +
			"the files of the AWS command line, and an endpoint from endpoint=URL")
	}
	d := &dynamoTable{
		url: u, text: text, table: cmp.Or(table, dynamostore.DefaultTable), region: u.take("region", ""),
		endpoint: u.take("endpoint", ""),
	}
	if d.skew, err = u.takeDuration("max_skew", dynamostore.DefaultMaxSkew); err != nil {
		return Ref{}, err
	}
	switch ttl := u.take("ttl", "on"); ttl {
	case "on", "off":
		d.noTTL = ttl == "off"
	default:
		return Ref{}, u.refusef("ttl=%s: write on, or off for a stand-in of DynamoDB that has no time to live", ttl)
	}
	if err := u.refuseOthers(); err != nil {
		return Ref{}, err
	}
	return Ref{Name: u.name, URL: text, Place: d}, nil
}

func (d *dynamoTable) client(ctx context.Context) (*dynamodb.Client, error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.url.name, err)
	}
	settings.Region = cmp.Or(d.region, settings.Region)
	if settings.Region == "" {
		return nil, d.url.refusef("no region: add ?region=REGION to the URL, or set AWS_REGION")
	}
	return dynamodb.NewFromConfig(settings, func(o *dynamodb.Options) {
		if d.endpoint != "" {
			o.BaseEndpoint = aws.String(d.endpoint)
		}
	}), nil
}

// Open implements Place.
func (d *dynamoTable) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	client, err := d.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := dynamostore.New(ctx, client, dynamostore.Options{Table: d.table, MaxSkew: d.skew})
	if err != nil {
		return nil, nil, d.explain(err)
	}
	return s, func() error { return nil }, nil
}

func (d *dynamoTable) explain(err error) error {
	if missing := new(types.ResourceNotFoundException); errors.As(err, &missing) {
		return fmt.Errorf("store %s: table %s does not exist; create it with the definitions in deploy/dynamodb, or run: "+
			"retrysafe migrate up --store '%s'", d.url.name, d.table, d.url.name)
	}
	return fmt.Errorf("store %s: %w", d.url.name, err)
}

// Prepare implements Place: it creates the table.
func (d *dynamoTable) Prepare(ctx context.Context) ([]string, error) {
	client, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	err = dynamostore.CreateTable(ctx, client, dynamostore.CreateTableOptions{Table: d.table, WithoutTimeToLive: d.noTTL})
	exists := new(types.ResourceInUseException)
	switch {
	case errors.As(err, &exists):
		return nil, nil
	case err != nil:
		return nil, d.explain(err)
	}
	return []string{fmt.Sprintf("table %s: created, billed per request", d.table)}, nil
}

// Beside implements Place: the name is that of a table.
func (d *dynamoTable) Beside(name string) (Ref, error) {
	_, query, hasQuery := strings.Cut(d.text, "?")
	text := "dynamodb://" + name
	if hasQuery {
		text += "?" + query
	}
	return parseDynamoDB(text)
}

// Drop implements Place.
func (d *dynamoTable) Drop() error {
	ctx, stop := context.WithTimeout(context.Background(), dropPatience)
	defer stop()
	client, err := d.client(ctx)
	if err == nil {
		_, err = client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &d.table})
	}
	if err != nil {
		return fmt.Errorf("delete table %s: %w; do it by hand", d.table, err)
	}
	return nil
}
