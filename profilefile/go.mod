module github.com/retrysafe/retrysafe/profilefile

go 1.26.0

require (
	github.com/retrysafe/retrysafe v0.0.0
	github.com/retrysafe/retrysafe/internal/yamlfile v0.0.0
)

require github.com/goccy/go-yaml v1.19.2 // indirect

replace github.com/retrysafe/retrysafe => ..

replace github.com/retrysafe/retrysafe/internal/yamlfile => ../internal/yamlfile
