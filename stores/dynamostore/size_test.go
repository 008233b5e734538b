package dynamostore

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// counted is a table whose description has counts, as DynamoDB makes them every six hours. The stand-in leaves them 0.
type counted struct{ Client }

func (d counted) DescribeTable(
	ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options),
) (*dynamodb.DescribeTableOutput, error) {
	out, err := d.Client.DescribeTable(ctx, in, o...)
	if err == nil {
		out.Table.ItemCount, out.Table.TableSizeBytes = aws.Int64(20), aws.Int64(30_000)
	}
	return out, err
}

// Size is what the table's description says, and 0 if that has no counts yet.
func TestSize(t *testing.T) {
	t.Parallel()
	client := connect(shared.Get(t).URL())
	table := newTable(t, client)
	for _, c := range []struct {
		client         Client
		entries, bytes int64
	}{{client, 0, 0}, {counted{client}, 20, 30_000}} {
		entries, bytes, err := openOn(t, c.client, table).Size(t.Context())
		if err != nil || entries != c.entries || bytes != c.bytes {
			t.Errorf("Size = %d entries of %d bytes, %v; want %d and %d", entries, bytes, err, c.entries, c.bytes)
		}
	}
}
