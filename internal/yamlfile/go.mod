module github.com/retrysafe/retrysafe/internal/yamlfile

go 1.26.0

require github.com/goccy/go-yaml v1.19.2

require github.com/retrysafe/retrysafe v0.0.0

replace github.com/retrysafe/retrysafe => ../..
