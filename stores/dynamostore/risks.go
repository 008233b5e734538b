package dynamostore

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
)

// Risks reads the description of the table and of its time to live. It reports a global table whose regions agree only
// eventually, because two regions can then both claim one key; and a time to live that is off or is another attribute,
// because records then stay for ever.
func (s *Store) Risks(ctx context.Context) ([]retrysafe.Risk, error) {
	table, err := s.describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("dynamostore: risks of table %q: %w", s.table, explain(err))
	}
	ttl, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table}, s.clock.measured)
	if err != nil {
		return nil, fmt.Errorf("dynamostore: risks of table %q: %w", s.table, explain(err))
	}
	return append(regionRisks(table), ttlRisks(ttl.TimeToLiveDescription)...), nil
}

func regionRisks(table *types.TableDescription) []retrysafe.Risk {
	if len(table.Replicas) == 0 || table.MultiRegionConsistency == types.MultiRegionConsistencyStrong {
		return nil
	}
	var regions []string
	for _, r := range table.Replicas {
		regions = append(regions, aws.ToString(r.RegionName))
	}
	return []retrysafe.Risk{{
		Setting: "global table with replicas in " + strings.Join(regions, ", ") + ", eventually consistent",
		Loses: "Conditions are checked in one region alone, so two regions can claim one key at once, and a region that " +
			"fails takes the claims of its last seconds along.",
		Remedy: "Send all requests to the table in one region, or make a global table with strong consistency.",
	}}
}

func ttlRisks(d *types.TimeToLiveDescription) []retrysafe.Risk {
	risk := retrysafe.Risk{
		Loses: "No claim is lost, but records past their retention stay, and the table grows for ever unless Sweep is " +
			"called.",
		Remedy: "Turn the time to live on for the attribute " + attrTTL + ".",
	}
	switch {
	case d == nil || d.TimeToLiveStatus == types.TimeToLiveStatusDisabled || d.TimeToLiveStatus == "":
		risk.Setting = "time to live off"
	case d.TimeToLiveStatus == types.TimeToLiveStatusDisabling:
		risk.Setting = "time to live being turned off"
	case aws.ToString(d.AttributeName) != attrTTL:
		risk.Setting = "time to live by the attribute " + aws.ToString(d.AttributeName)
	default:
		return nil
	}
	return []retrysafe.Risk{risk}
}
