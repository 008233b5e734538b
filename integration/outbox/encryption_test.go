package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// hush is what no table may have.
const hush = "card 4242"

// boxSecret is Options.Secret of the tests.
var boxSecret = []byte("sixteen bytes or more")

// newKeyset returns a keyset with one key.
func newKeyset(t testing.TB) *cryptstore.Keyset {
	t.Helper()
	k, err := cryptstore.NewKeyset()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// encrypt gives the kit an outbox over the same table with keys, and returns them.
func (k *kit) encrypt(keyset *cryptstore.Keyset) *cryptstore.Keyring {
	k.Helper()
	ring := cryptstore.NewKeyring(keyset)
	k.box = k.newBox(outbox.Options{Keys: ring, Secret: boxSecret})
	return ring
}

// columns returns the bytes of a column of all messages, in their order.
func (k *kit) columns(name string) (all [][]byte) {
	k.Helper()
	rows, err := k.db.Query("SELECT " + name + " FROM outbox ORDER BY id")
	if err != nil {
		k.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one []byte
		if err := rows.Scan(&one); err != nil {
			k.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		k.Fatal(err)
	}
	return all
}

// key is the name of the column, which MySQL reserves.
func (k *kit) key() string {
	if k.dialect == outbox.MySQL {
		return "`key`"
	}
	return "key"
}

func hushed(key string) outbox.Message {
	return outbox.Message{
		Key: key, Topic: "paid", Aggregate: "order " + key, Header: map[string]string{"Card": hush + key}, Body: []byte(hush + key),
	}
}

// Messages of before encryption was switched on, of an old key and of the present one are sent as they were saved. The
// table has none of their headers and bodies, and has the columns that docs/encryption.md calls readable.
//
// Seen to fail with seal returning the header as it is, with unseal returning no header, and with Keyset.Promote
// removing all keys but the one.
func TestEncryptedMessagesAreSent(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(hushed("1"))
		first := newKeyset(t)
		ring := k.encrypt(first)
		k.save(hushed("2"), outbox.Message{Key: "empty", Topic: "paid"})
		both, id, err := first.Add()
		if err != nil {
			k.Fatal(err)
		}
		promoted, err := both.Promote(id)
		if err != nil {
			k.Fatal(err)
		}
		ring.Use(promoted)
		k.save(hushed("3"))
		for _, column := range []string{"header", "body", "digest"} {
			for i, content := range k.columns(column) {
				if has := bytes.Contains(content, []byte(hush)); has != (i == 0 && column != "digest") {
					k.Errorf("%s of message %d is %q", column, i+1, content)
				}
			}
		}
		for _, column := range []string{k.key(), "topic", "aggregate"} {
			if got := k.columns(column)[3]; !strings.Contains("3 paid order 3", string(got)) || len(got) == 0 {
				k.Errorf("%s of message 4 is %q, and should be readable", column, got)
			}
		}
		sink := &recorder{}
		told, stop := k.relay(sink, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 4)
		stop()
		got := map[string]outbox.Delivery{}
		for _, d := range sink.all {
			got[d.Key] = d
		}
		for _, want := range []outbox.Message{hushed("1"), hushed("2"), hushed("3"), {Key: "empty"}} {
			d := got[want.Key]
			if !bytes.Equal(d.Body, want.Body) || fmt.Sprint(d.Header) != fmt.Sprint(want.Header) || d.Unreadable != nil ||
				d.Encrypted != (want.Key != "1") {
				k.Errorf("message %s: got %+v", want.Key, d)
			}
		}
	})
}

// Keys that only decrypt are for the first step of switching encryption on: what is saved is readable, and what others have
// encrypted is sent. Seen to fail with DecryptOnly left out of New.
func TestKeysThatOnlyDecrypt(t *testing.T) {
	everywhere(t, func(k *kit) {
		ring := k.encrypt(newKeyset(k))
		k.save(hushed("1"))
		k.box = k.newBox(outbox.Options{Keys: ring, DecryptOnly: true})
		k.save(hushed("2"))
		if all := k.columns("body"); bytes.Contains(all[0], []byte(hush)) || !bytes.Equal(all[1], hushed("2").Body) {
			k.Errorf("the bodies are %q", all)
		}
		sink := &recorder{}
		told, stop := k.relay(sink, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 2)
		stop()
		wantEqual(k, "bodies", sink.bodies(), []string{hush + "1", hush + "2"})
	})
}

// A message that no relay can decrypt is retried and becomes a dead letter that says why. It holds up its aggregate and
// nothing else, the sink gets nothing of it, and with the key back it is redelivered in its order.
//
// Seen to fail with Unreadable not looked at by unfit, which sent messages without bodies, with errors of unseal wrapped by
// Permanent, and with that done in stream.go.
func TestAMessageWithoutItsKeyIsKept(t *testing.T) {
	noKeys := func(k *kit) { k.box = k.newBox(outbox.Options{}) }
	otherKeys := func(k *kit) { k.encrypt(newKeyset(k)) }
	inBatches := func(s *recorder) outbox.Sink { return s }
	each := func(s *recorder) outbox.Sink {
		return outbox.Each(2, func(ctx context.Context, d outbox.Delivery) error { return s.Send(ctx, []outbox.Delivery{d})[0] })
	}
	for name, c := range map[string]struct {
		other func(k *kit)
		sink  func(*recorder) outbox.Sink
	}{
		"no keys":                  {noKeys, inBatches},
		"other keys":               {otherKeys, inBatches},
		"other keys, sent by Each": {otherKeys, each},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(k *kit) {
				k.encrypt(newKeyset(k))
				mine := k.box
				k.save(hushed("lost"))
				k.box = k.newBox(outbox.Options{})
				behind := outbox.Message{Key: "behind", Aggregate: "order lost", Body: []byte("behind")}
				k.save(behind, outbox.Message{Key: "other", Aggregate: "other", Body: []byte("other")}, outbox.Message{Key: "free", Body: []byte("free")})
				c.other(k)
				sink := &recorder{}
				told, stop := k.relay(c.sink(sink), outbox.RelayOptions{MaxTries: 2, FirstDelay: 1, MaxDelay: 1})
				told.await(k, outbox.MessageDead, 1)
				k.until(func() bool { return k.stats().Pending == 1 })
				stop()
				if failed := told.of(outbox.MessageFailed); len(failed) != 1 || failed[0].Key != "lost" {
					k.Errorf("failed tries: %v, want the first of lost", failed)
				}
				bodies := sink.bodies()
				if len(bodies) != 2 || strings.Contains(strings.Join(bodies, " "), "behind") {
					k.Errorf("sent %q, want other and free", bodies)
				}
				letters := k.dead()
				if len(letters) != 1 || !strings.Contains(letters[0].Error, "cannot be decrypted") || letters[0].Unreadable == nil ||
					!letters[0].Encrypted || letters[0].Body != nil || letters[0].Header != nil {
					k.Fatalf("dead letters: %+v", letters)
				}
				peeked, err := k.box.PeekDead(k.Context(), 0, 1)
				if err != nil || !peeked[0].Encrypted || peeked[0].Unreadable != nil {
					k.Errorf("PeekDead: %+v, %v", peeked, err)
				}

				k.box = mine // with its keyset again
				if l, _, err := k.box.Letter(k.Context(), "lost"); err != nil || string(l.Body) != hush+"lost" {
					k.Errorf("with the key the letter is %+v, %v", l, err)
				}
				if n, err := k.box.Redeliver(k.Context(), "lost"); n != 1 || err != nil {
					k.Fatal(n, err)
				}
				told, stop = k.relay(c.sink(sink), outbox.RelayOptions{})
				told.await(k, outbox.MessageSent, 2)
				stop()
				wantEqual(k, "sent then", sink.bodies()[2:], []string{hush + "lost", "behind"})
			})
		})
	}
}

// A ciphertext is good under its key, topic and aggregate in its outbox only.
//
// Seen to fail with the table, the topic, the aggregate and the key taken out of place, and with the header of the row
// used if it is not the marker.
func TestAnEncryptedMessageCannotBeMoved(t *testing.T) {
	everywhere(t, func(k *kit) {
		keyset := newKeyset(k)
		k.encrypt(keyset)
		changes := []string{
			"topic = 'refunds'", "aggregate = 'order 9'", k.key() + " = 'msg_9'",
			"body = (SELECT body FROM (SELECT body, id FROM outbox) AS o WHERE o.id = 1)",
			`header = '{"Card": "made up"}'`,
		}
		k.save(hushed("donor"))
		k.exec("UPDATE outbox SET due_at = due_at + 3600000000") // not due: it stays as it is
		for i, set := range changes {
			k.save(hushed(fmt.Sprint("message", i)))
			k.exec(fmt.Sprintf("UPDATE outbox SET %s WHERE id = %d", set, i+2))
		}
		other := k.newBox(outbox.Options{Table: "other", Keys: cryptstore.NewKeyring(keyset), Secret: boxSecret})

		sink := &recorder{}
		told, stop := k.relay(sink, outbox.RelayOptions{MaxTries: 1})
		k.until(func() bool { return k.stats().Pending == 1 })
		stop()
		if len(told.of(outbox.MessageDead)) != 4 || len(sink.all) != 1 || sink.all[0].Header["Card"] != hush+"message4" {
			k.Errorf("sent %+v, want the one whose header does not count", sink.all)
		}
		for _, l := range k.dead() {
			if !strings.Contains(l.Error, "it was changed, or belongs elsewhere") {
				k.Errorf("%s: %s", l.Key, l.Error)
			}
		}

		columns := "topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error, " + k.key()
		if k.dialect == outbox.MySQL {
			columns += ", ordered, clashes"
		}
		k.exec("INSERT INTO other (" + columns + ") SELECT " + columns + " FROM outbox WHERE id = 1")
		k.exec("UPDATE other SET due_at = 0")
		k.box = other
		told, stop = k.relay(sink, outbox.RelayOptions{MaxTries: 1})
		told.await(k, outbox.MessageDead, 1)
		stop()
	})
}

// A message is recognised when it is saved again, although each time its ciphertext is another one, and nothing that the
// table has of it can be had without the secret.
//
// Seen to fail with the digest of the ciphertext saved, with the secret left out of it, and with Save taking keys without
// a secret.
func TestAnEncryptedMessageIsSavedOnce(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(hushed("1"))
		unkeyed := k.columns("digest")[0]
		k.exec("DELETE FROM outbox")
		keyset := newKeyset(k)
		k.encrypt(keyset)
		k.save(hushed("1"))
		k.save(hushed("1"))
		if n := k.count("SELECT count(*) FROM outbox"); n != 1 {
			k.Errorf("%d messages, want 1", n)
		}
		if bytes.Equal(k.columns("digest")[0], unkeyed) {
			k.Error("the digest can be made without the secret")
		}
		another := hushed("1")
		another.Body = []byte("another")
		if err := k.trySave(k.Context(), another); !errors.Is(err, outbox.ErrKeyTaken) {
			k.Errorf("another message under the key: %v", err)
		}
		k.box = k.newBox(outbox.Options{Keys: cryptstore.NewKeyring(keyset)})
		if err := k.trySave(k.Context(), hushed("2")); err == nil || !strings.Contains(err.Error(), "Options.Secret") {
			k.Errorf("without a secret: %v", err)
		}
	})
}
