package settings_test

import (
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Mirror is a server of pages.
type Mirror struct {
	// Path is where pages are found.
	Path settings.Setting[string] `yaml:"path" form:"pointer"`
	// Wait is how long a page may take. After that the next server is asked.
	Wait settings.Setting[time.Duration] `yaml:"wait" default:"5s" sets:"Timeout"`
	// Cache: what is kept.
	Cache Cache `yaml:"cache" sets:"Cache"`
}

// Cache says what is kept.
type Cache struct {
	// Size is for all pages together.
	Size settings.Setting[int64] `yaml:"size" default:"64KiB" sets:"Bytes"`
}

// options are those of the program.
type options struct {
	Timeout time.Duration
	Cache   struct{ Bytes int64 }
}

//go:embed example_test.go
var source embed.FS

func Example() {
	kind := settings.Kind{Sources: []fs.FS{source}}
	var m Mirror
	text := "path: /pages\ncache: {size: 1MiB}\n"
	if err := yamlfile.Read("mirror.yaml", []byte(text), "the mirror", kind.Readers(&m), nil); err != nil {
		fmt.Println(err) // with the line of each mistake
	}
	if err := kind.FillIn(&m); err != nil {
		fmt.Println(err)
	}
	fmt.Print(settings.Show(&m))
	var o options
	settings.Apply(&m, &o)
	fmt.Println(o.Timeout, o.Cache.Bytes)
	fmt.Println(settings.Help(kind.Describe(&m), "wait"))
	// Output:
	// path: '/pages'
	// wait: 5s
	// cache:
	//   size: 1048576
	// 5s 1048576
	// How long a page may take. Default 5s.
}
