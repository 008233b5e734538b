-- The index, for scripts that are put behind this text. A bucket of it is a sorted set of records that were first
-- claimed within one window of time, and that are kept for about as long as each other, which is their class. See
-- index.go.

-- Returns the name of the bucket of a record in the index at, and when it expires (in ms) unless it is kept for longer.
-- class n has the records that are kept for up to 2^n half-hours; a window is an eighth of that.
local function bucket(at, class, first)
	local width = 225000000 * 2 ^ class
	local window = math.floor(first / width)
	return string.format('%s%d:%d', at, class, window), math.floor((window + 9) * width / 1000) + 600000
end

-- Enters a bucket with its expiry into the list of all buckets, and leaves those out that have expired.
local function register(at, name, till, now)
	redis.pcall('ZADD', at, 'GT', till, name:sub(#at + 1))
	redis.pcall('ZREMRANGEBYSCORE', at, '-inf', math.floor(now / 1000))
	redis.pcall('PEXPIREAT', at, till, 'NX')
	redis.pcall('PEXPIREAT', at, till, 'GT')
end

-- Adds a record. digest is that of its key, and kinds[from] and what follows it is by what it is found. Errors count
-- for nothing here and below: a key is claimed although its user may not write the index.
local function index(at, class, first, now, digest, kinds, from)
	local name, till = bucket(at, class, first)
	local entry = struct.pack('>I8', first) .. digest
	local add = {}
	for i = from, #kinds do
		add[#add + 1] = 0
		add[#add + 1] = kinds[i] .. entry
	end
	redis.pcall('ZADD', name, unpack(add))
	if redis.pcall('PEXPIREAT', name, till, 'NX') == 1 then register(at, name, till, now) end
end

-- Keeps the bucket of a record until the record expires, at till.
local function keep(at, flags, first, now, till)
	local class = math.floor(flags / 4)
	if class == 0 or at == '' then return end
	local name, usual = bucket(at, class, first)
	if till > usual and redis.pcall('PEXPIREAT', name, till, 'GT') == 1 then register(at, name, till, now) end
end

-- Drops the entries of a record. id is by what its key's ID is found, and found has the digests of its tags.
local function drop(at, flags, first, digest, id, found)
	local class = math.floor(flags / 4)
	if class == 0 or at == '' then return end
	local entry = struct.pack('>I8', first) .. digest
	local all = {'a' .. entry, id .. entry}
	for i = 1, #found, 8 do all[#all + 1] = 't' .. found:sub(i, i + 7) .. entry end
	redis.pcall('ZREM', (bucket(at, class, first)), unpack(all))
end

-- Returns how many bytes of the steps at this place of a record are its tags, and the digests of the tags. get returns
-- bytes of the record, of which the first one is number 1.
local function tags(get, at)
	local h = get(at, at + 28)
	if h:sub(9, 28) ~= 'retrysafe.audit/tags' then return 0, '' end
	local _, data = struct.unpack('>I4I4', h)
	return 28 + data, get(at + 29, at + 28 + 8 * (h:byte(29) or 0))
end
