module github.com/retrysafe/retrysafe/internal/release

go 1.26.0

require (
	github.com/google/rpmpack v0.7.1
	github.com/klauspost/compress v1.18.0
	github.com/retrysafe/retrysafe v0.0.0
	golang.org/x/mod v0.42.0
)

require (
	github.com/cavaliergopher/cpio v1.0.1 // indirect
	github.com/klauspost/pgzip v1.2.6 // indirect
	github.com/ulikunitz/xz v0.5.12 // indirect
)

replace github.com/retrysafe/retrysafe => ../..
