package redisstore

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// shared is the server of all tests that do not harm it. It syncs nothing: no test here takes the power away.
var shared = servers.SharedRedis{Options: servers.RedisOptions{Settings: map[string]string{"appendfsync": "no"}}}

// Words that the tests of several stores share.
var (
	params, acquire, together, eventually = testkit.Params, testkit.Acquire, testkit.Together, testkit.Eventually
	tagsOf, claimTagged, findIDs          = testkit.TagsOf, testkit.AcquireTagged, testkit.FindIDs
)

// connect returns a client for as long as the test runs. It does not ping a server that it has not used for a second:
// some tests count the answers.
func connect(t testing.TB, address string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, DisableCache: true, Dialer: net.Dialer{KeepAlive: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// openOn returns a store that no other test sees, unless o has a prefix.
func openOn(t testing.TB, c rueidis.Client, o Options) *Store {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = retrysafe.NewOwner().String() + ":"
	}
	s, err := New(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openTest returns a store on the shared server.
func openTest(t testing.TB) *Store {
	t.Helper()
	return openOn(t, connect(t, shared.Get(t).Address()), Options{Index: true})
}

// ageScript moves the instants of all records and sightings under a prefix, and the ends of their lifetimes, back by
// ARGV[2] microseconds. The index has no instants but first fences, which do not move:
// TestIndexLivesAsLongAsItsRecords.
const ageScript = `
local d = tonumber(ARGV[2])
local function aged(v)
	if #v < 97 then return v end
	local ends, claimed = struct.unpack('>I8', v, 28), struct.unpack('>I8', v, 68)
	return v:sub(1, 27) .. struct.pack('>I8', math.max(ends - d, 0)) .. v:sub(36, 67)
		.. struct.pack('>I8', math.max(claimed - d, 0)) .. v:sub(76)
end
for _, k in ipairs(redis.call('KEYS', ARGV[1] .. '{*')) do
	local expires = redis.call('PEXPIRETIME', k)
	if redis.call('TYPE', k).ok == 'list' then
		for i, v in ipairs(redis.call('LRANGE', k, 0, -1)) do redis.call('LSET', k, i - 1, aged(v)) end
	else
		redis.call('SET', k, aged(redis.call('GET', k)), 'KEEPTTL')
	end
	redis.call('PEXPIREAT', k, math.floor(math.max(expires - d / 1000, 1)))
end
for _, k in ipairs(redis.call('KEYS', ARGV[1] .. '+{*')) do
	if redis.call('TYPE', k).ok == 'hash' then
		local expires = redis.call('PEXPIRETIME', k)
		local all = redis.call('HGETALL', k)
		for i = 1, #all, 2 do
			local n, first, last, code = struct.unpack('>I8I8I8i4', all[i + 1])
			redis.call('HSET', k, all[i], struct.pack('>I8I8I8i4', n, first - d, last - d, code))
		end
		redis.call('PEXPIREAT', k, math.floor(math.max(expires - d / 1000, 1)))
	end
end
return 1`

// age lets time pass by moving everything that is stored into the past, lifetimes of keys included: so a key that
// expires too early is missed by the contract's tests.
func age(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	script := rueidis.NewLuaScript(ageScript)
	args := []string{s.options.Prefix, micros(d.Microseconds())}
	if err := script.Exec(context.Background(), s.client, nil, args).Error(); err != nil {
		t.Fatal(err)
	}
}
