// Package cryptstore encrypts what a store keeps: a reader of the database, of its disk or of a backup sees which keys
// were used and how their work ended, and not what was answered.
//
//	keyset, err := cryptstore.ParseKeyset(text) // a file that "retrysafe keyset new" has made
//	if err != nil {
//		return err
//	}
//	store := cryptstore.New(inner, cryptstore.NewKeyring(keyset), cryptstore.Options{})
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # What is encrypted
//
//   - the answer: Result.Meta (over HTTP: the header) and Result.Body
//   - the data of steps
//
// # What is not
//
//   - the key: its scope, its ID and its fingerprint. Claims look for them. Options.Secret of httpsafe keeps readers from
//     guessing requests by their fingerprints.
//   - how the work ended: the state, Result.Code, whether the answer was omitted, attempts, times, sizes
//   - names of steps
//   - the trail: what people have decided about the key, and why. Purge and support tools work without the encryption
//     key, and a decision must stay readable when that key is lost.
//   - messages of an outbox, and journals of clients, which no Store keeps: outbox.Options.Keys and cryptjournal encrypt
//     those, with the same keysets
//   - what a service writes itself, by the SQL functions of pgstore and mysqlstore, unless it encrypts: see
//     PlaintextAccepted. The clients for Python and Node can encrypt, in the format of this package.
//
// # What a change is noticed by
//
// Each ciphertext is bound to the digest of its key and to its place: meta, body, or the step of a name; that of an
// answer also to the code, to whether the work failed, and to whether there is both meta and body. An account that can
// write to the database and has no encryption key cannot make up an answer, move one to another key, or turn a failure
// into a success. It can still delete a record, put an earlier answer of the same key back, change what is not
// encrypted of a record that has no content, and drop all content of an answer.
//
// A record that was changed, or that was encrypted with a key which the keyset lacks, is an error that wraps
// [retrysafe.ErrUnreadable]: nothing runs again, nothing is answered, and once the key is back the answer is too.
//
// # Transactions of the work
//
// InTx and CompleteTx of the inner store encrypt too: the Guard finds the Store by [retrysafe.Sealer]. A wrapper of
// your own around the Store must have a method Unwrap() retrysafe.Store, or what a transaction completes is stored as
// plaintext, which a Store then refuses to read.
//
// # Keys
//
// New takes any AEAD of Tink. A [Keyring] is one whose keyset can be replaced while it is in use. Rotation adds a key
// to the keyset of every process, then makes it the primary one, with which all of them encrypt, and removes the old
// one after the longest retention: docs/encryption.md has the commands. A keyset that a key management service encrypts
// is decrypted by the program before ParseKeyset; aead.NewKMSEnvelopeAEAD2 of Tink has a key for each value instead, at
// the price of a call for each.
//
// design.md in the folder of this package says why it is built so and what its files are.
package cryptstore
