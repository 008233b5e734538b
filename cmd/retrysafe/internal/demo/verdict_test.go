package demo

import (
	"io"
	"strings"
	"testing"
)

// Seen to fail, case by case, with each comparison of judge and close taken out.
func TestVerdictComesFromRows(t *testing.T) {
	alices := row{Customer: "alice", Order: "coffee", Amount: 300}
	bobs := row{Customer: "bob", Order: "coffee", Amount: 300}
	dear := row{Customer: "alice", Order: "coffee", Amount: 999}
	for _, tc := range []struct {
		name  string
		rows  []row
		wrong []string // parts of the complaints
	}{
		{"one charge is right", []row{alices}, nil},
		{"none is wrong", nil, []string{"0 charges; expected 1"}},
		{"two are wrong", []row{alices, alices}, []string{"order coffee of alice: 2 charges; expected 1"}},
		{"another amount is wrong", []row{dear}, []string{"amount 999; expected 300"}},
		{"another customer's charge is not counted", []row{alices, bobs}, []string{"1 charge that no client sent"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _ := newBankForTest(t)
			for _, r := range tc.rows {
				if _, err := b.ledger.charge(r, ""); err != nil {
					t.Fatal(err)
				}
			}
			a := &act{stage: &stage{bank: b}}
			a.intend(coffee())
			counted, wrong, err := a.judge(t.Context(), "coffee")
			if err != nil {
				t.Fatal(err)
			}
			r := &Report{}
			r.add(counted, wrong)
			r.close(len(tc.rows))
			if r.Right != (tc.wrong == nil) || len(r.Wrong) != len(tc.wrong) {
				t.Fatalf("right: %v, complaints %q; want %q", r.Right, r.Wrong, tc.wrong)
			}
			for i, want := range tc.wrong {
				if !strings.Contains(r.Wrong[i], want) {
					t.Errorf("complaint %q, want %q", r.Wrong[i], want)
				}
			}
		})
	}
}

// Seen to fail with the answers left out of the verdict.
func TestWrongAnswersAreWrong(t *testing.T) {
	b, _ := newBankForTest(t)
	if _, err := b.ledger.charge(row{Customer: "alice", Order: "coffee", Amount: 300}, ""); err != nil {
		t.Fatal(err)
	}
	a := &act{stage: &stage{bank: b}}
	a.intend(coffee())
	a.expect(reply{status: 201}, 201, replayed)
	counted, wrong, err := a.judge(t.Context(), "coffee")
	if err != nil || counted.Right || len(wrong) != 1 || !strings.Contains(wrong[0], "expected 201, replayed") {
		t.Errorf("right: %v, complaints %q, error %v; want one complaint of the answer", counted.Right, wrong, err)
	}
}

// Seen to fail with the bodies not compared.
func TestReplaysAreComparedByteForByte(t *testing.T) {
	first := reply{status: 201, body: []byte("1")}
	again := reply{status: 201, body: []byte("2"), header: map[string][]string{"Idempotent-Replayed": {"true"}}}
	a := &act{}
	a.expectSame(first, again)
	if len(a.wrong) != 1 {
		t.Errorf("complaints %q, want one", a.wrong)
	}
}

// Seen to fail with sendBehind waiting for the bank alone: it waits for ever.
func TestChargeThatDoesNotGetToTheBank(t *testing.T) {
	b, _ := newBankForTest(t)
	a := &act{stage: &stage{bank: b, client: newClient("127.0.0.1:1"), screen: &screen{w: io.Discard}}}
	r := <-a.sendBehind(t.Context(), coffee())
	if r.kind() != lost || len(a.wrong) != 1 || !strings.Contains(a.wrong[0], "no server listens there") {
		t.Errorf("got %d, complaints %q; want one that says why", r.status, a.wrong)
	}
}
