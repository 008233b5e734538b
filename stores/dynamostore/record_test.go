package dynamostore

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// itemOf is a record as a Store writes it, with a step and an answer in parts, and with what is wrong with it.
func itemOf(n [9]int64, p parts, tags, name string, data []byte) item {
	i := item{
		"ve": number(n[0]), "st": number(n[1]), "fe": number(n[2]), "ow": bytesOf(make([]byte, 16)), "ff": number(n[3]),
		"nr": number(n[4]), "ca": number(n[5]), "en": number(n[6]), "kr": number(n[7]), "kk": number(n[8]),
		"ka":     number(n[8]),
		attrPart: text(partRecord), "pa": p.encode(),
		"sp": encodeSteps([]savedStep{{StepResult: retrysafe.StepResult{Name: name}, parts: &p}, {
			StepResult: retrysafe.StepResult{Name: name + "2", Data: data},
		}}),
	}
	addBytes(i, "ta", []byte(tags))
	return i
}

// A record that was damaged, or that another program has written, is ErrUnreadable, and asks neither for much memory
// nor for parts of an answer that are not there. What is read is what was written. Seen to fail with "valid" taken out
// of decodeParts, and with the type of sp not checked in decodeSteps.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 3}, int64(10), int64(4), "part/7/ab/", "a=1", "step", []byte("data"), uint8(0), "")
	f.Add([]byte{0, 1}, int64(-1), int64(0), "part/", "", "", []byte{}, uint8(3), "pa")
	f.Add([]byte{0, 3}, int64(1<<62), int64(-4), "", "a", "\xff", []byte{0}, uint8(1), "sp")
	f.Add([]byte{0, 3}, int64(10), int64(4), "part/7/ab/", "", "x", []byte{0}, uint8(2), "sp")
	f.Add([]byte{0, 3}, int64(10), int64(4), "part/7/ab/", "", "x", []byte{0}, uint8(2), "pa")
	f.Add([]byte{0, 3}, int64(4), int64(10), "part/7/ab/", "", "x", []byte{0}, uint8(2), "ow")
	f.Fuzz(func(
		t *testing.T, numbers []byte, bytes, meta int64, prefix, tags, name string, data []byte, damage uint8, attr string,
	) {
		var n [9]int64
		for i := range n {
			if i < len(numbers) {
				n[i] = int64(int8(numbers[i]))
			}
		}
		p := parts{prefix: prefix, bytes: bytes, meta: meta, until: n[6]}
		from := itemOf(n, p, tags, name, data)
		if _, there := from[attr]; there {
			switch damage % 4 {
			case 1:
				delete(from, attr)
			case 2:
				from[attr] = text("x")
			case 3:
				from[attr] = &types.AttributeValueMemberL{Value: []types.AttributeValue{number(1)}}
			}
		}
		r, err := decode(from, 1)
		if err != nil {
			if !errors.Is(err, retrysafe.ErrUnreadable) {
				t.Errorf("%v", err)
			}
			return
		}
		if r.State == free {
			return
		}
		if (attr == "pa" || attr == "sp") && damage%4 > 1 {
			t.Fatalf("%s of another type was read", attr)
		}
		for _, named := range []*parts{r.content, firstParts(r.steps)} {
			if named == nil {
				continue
			}
			if named.count() > MaxBytes/partBytes+1 || named.meta > named.bytes {
				t.Fatalf("%+v", named)
			}
			if data, err := named.join(map[string]item{}); err == nil && len(data) > 0 || err != nil && !errors.Is(err,
				ErrPartMissing) {
				t.Errorf("%d bytes, %v", len(data), err)
			}
			if again, err := decodeParts(named.encode()); err != nil || *again != *named {
				t.Errorf("%+v became %+v, %v", named, again, err)
			}
		}
		if _, err := r.forPeople(map[string]item{}, 1); err != nil && !errors.Is(err, ErrPartMissing) {
			t.Error(err)
		}
		if from["sp"] != nil {
			again := new(record)
			if err := again.decodeSteps(encodeSteps(r.steps)); err != nil || !reflect.DeepEqual(again.steps, r.steps) {
				t.Errorf("%+v became %+v, %v", r.steps, again.steps, err)
			}
		}
	})
}

func firstParts(steps []savedStep) *parts {
	if len(steps) == 0 {
		return nil
	}
	return steps[0].parts
}

// A record that no Store of this version has written hides no other one. Seen to fail with scanReadable returning the
// error of decode: nothing was shown.
func TestRecordThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	take(t, s, "known")
	d := take(t, s, "later").Key.Digest().String()
	_, err := s.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: itemKey(d, partRecord), UpdateExpression: aws.String("SET ve = :text"),
		ExpressionAttributeValues: item{":text": text("later")},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.LeavesOut(t, s, "known", d)
}

// A record of which a part is lost can be seen, with what is there of it, and what people decide makes its key usable.
// Seen to fail with ErrUnreadable taken out of inspect, and with forPeople returning when an answer is missing: the
// step was left out.
func TestLostPart(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for name, decide := range map[string]func(context.Context, retrysafe.Digest, int64, retrysafe.StepResult) error{
		"purge": s.Purge, "reopen": s.Reopen,
	} {
		l := take(t, s, name)
		d := l.Key.Digest()
		err := s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: "charge", Data: []byte("1")})
		if err == nil {
			err = s.Complete(t.Context(), l, retrysafe.Result{Body: make([]byte, maxInlineResult+1)}, retrysafe.Retention{})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range allItems(t, s) {
			if part := textOf(i[attrPart]); strings.HasPrefix(part, prefixParts) {
				if _, err := s.delete(t.Context(), itemKey(textOf(i[attrKey]), part), "", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		found, err := s.Inspect(t.Context(), d)
		if !errors.Is(err, retrysafe.ErrUnreadable) || len(found) != 1 || found[0].Fence != l.Fence ||
			len(found[0].Steps) != 1 {
			t.Errorf("%s: Inspect = %+v, %v; want the record without its answer, and ErrUnreadable", name, found, err)
		}
		if err := decide(t.Context(), d, l.Fence, retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "1"}); err != nil {
			t.Errorf("%s = %v", name, err)
		}
		want := map[string]retrysafe.Verdict{"purge": retrysafe.Done, "reopen": retrysafe.Acquired}[name]
		if c := claim(t, s, name); c.Verdict != want || c.Record.ReplayLeft != 0 {
			t.Errorf("%s: then Claim = %v with %v of Replay, want %v", name, c.Verdict, c.Record.ReplayLeft, want)
		}
	}
}
