//go:build unix && languages

package exactlyonce

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func moreLanguages() []language {
	return []language{
		{name: "Ruby, pg", command: func(t *testing.T) []string {
			return []string{servers.Ruby(t), program("service.rb")}
		}, forks: true},
		{name: "PHP, PDO", command: func(t *testing.T) []string {
			return []string{servers.PHP(t), program("service.php")}
		}, forks: true},
		{name: "Java, JDBC", command: java, slow: 10},
	}
}

// java compiles the service. Each process is a virtual machine of its own, with what makes its start cheap.
func java(t *testing.T) []string {
	path, driver := servers.Java(t)
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(filepath.Join(folder, "Service.class")); err != nil {
		compile := exec.Command("javac", "-d", folder, program("Service.java"))
		if out, err := compile.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return []string{
		path, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx64m",
		"-cp", folder + string(filepath.ListSeparator) + driver, "Service",
	}
}
