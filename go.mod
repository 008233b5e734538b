module github.com/retrysafe/retrysafe

go 1.25.0
