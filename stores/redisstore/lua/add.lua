#!lua flags=allow-oom
-- Adds a record to the index in a cluster, where it is on another server than the record. The second key is the bucket.
-- ARGV: 1 class, 2 first fence as it is in a record, 3 digest, 4 and on: by what the record is found.
local t = redis.call('TIME')
index(KEYS[1], tonumber(ARGV[1]), struct.unpack('>I8', ARGV[2]), t[1] * 1000000 + t[2], ARGV[3], ARGV, 4)
return 1
