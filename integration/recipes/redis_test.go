package recipes

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

var redisBlock = regexp.MustCompile("(?s)```redis run=[a-z-]+\n(.*?)```")

// The page's commands of Redis have the answers that it shows. Seen to fail with an answer of the page edited, and with
// "NX" taken out of its second command.
func TestPageSaysWhatRedisAnswers(t *testing.T) {
	text, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	blocks := redisBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 || len(blocks) != strings.Count(string(text), "```redis") {
		t.Fatalf("%d blocks with commands of Redis, and others that nothing would run", len(blocks))
	}
	redis := servers.StartRedis(t, servers.RedisOptions{})
	for _, block := range blocks {
		redis.Flush(t)
		var command, answer string
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if said, ok := strings.CutPrefix(line, "--> "); ok && said != answer {
				t.Errorf("%s: Redis answers %s, the page says %s", command, answer, said)
			} else if !ok && line != "" && !strings.HasPrefix(line, "#") {
				command = line
				answer = redis.Command(t, append([]string{"--no-raw"}, strings.Fields(line)...)...)
			}
		}
	}
}
