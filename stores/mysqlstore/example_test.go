package mysqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	_ "github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
)

// The business write and the saved answer are one transaction: after a crash both are there, or neither is.
func ExampleStore_InTx() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "app:secret@tcp(db.internal:3306)/shop")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := mysqlstore.Migrate(ctx, db, mysqlstore.MigrateOptions{}); err != nil {
		log.Fatal(err)
	}
	store, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	guard := retrysafe.New(store, retrysafe.Options{})

	request := retrysafe.Request{Key: retrysafe.Key{Scope: "customer-17", ID: "order-4711"}}
	answer, err := retrysafe.Do(ctx, guard, request, func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
		if err := retrysafe.SetResult(ctx, "charged"); err != nil {
			return "", err
		}
		return "charged", store.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO charges (customer, amount) VALUES (?, ?)", 17, 4200)
			return err
		})
	})
	fmt.Println(answer, err)
}

// A warning for each setting of the server that may lose what it has acknowledged.
func ExampleStore_Risks() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "app:secret@tcp(db.internal:3306)/shop")
	if err != nil {
		log.Fatal(err)
	}
	store, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	risks, err := store.Risks(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range risks {
		log.Print(r)
	}
}

// The statements for an administrator who lets no program change tables.
func ExampleGrants() {
	text, err := mysqlstore.Grants("shop", "app@10.0.0.%")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}
