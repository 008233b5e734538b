//go:build unix && languages

package exactlyonce

import (
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
	}
}
