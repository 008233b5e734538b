package dynamostore

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// ticks is a reading of this machine's clocks. Only differences of mono count. wall serves to notice that the machine
// was suspended, which stops mono.
type ticks struct{ mono, wall time.Duration }

func machineTime() func() ticks {
	start := time.Now()
	return func() ticks {
		now := time.Now()
		return ticks{mono: now.Sub(start), wall: time.Duration(now.UnixNano())}
	}
}

// clock tells DynamoDB's time: the monotonic clock of this process plus an offset, which the Date of each answer
// bounds from both sides. Date has whole seconds; but an answer that was asked for shortly before a second begins, and
// one that comes shortly after, bound the offset to milliseconds. So a few answers are enough to know the time much
// more exactly than one of them tells it.
type clock struct {
	tolerance time.Duration // how exact now must be
	local     func() ticks

	mu     sync.Mutex
	known  bool
	agreed bool          // the last two answers tell the same offset: one of them may be wrong
	lo, hi time.Duration // the offset from mono to the time since 1970 is between them
	at     ticks         // when that was so
	told   time.Duration // the last time that was told
}

func newClock(tolerance time.Duration, local func() ticks) *clock {
	return &clock{tolerance: tolerance, local: local}
}

// drift is how much two clocks may diverge in a time: 200 ppm, several times what crystals do.
func drift(d time.Duration) time.Duration { return d / 5000 }

// maxAsked is how often DynamoDB is asked for the time before the time counts as unknown.
const maxAsked = 10

// now returns DynamoDB's time. It calls ask, which makes DynamoDB answer, only if the last answers are too long ago, or
// were too slow.
func (c *clock) now(ctx context.Context, ask func(context.Context) error) (storekit.Instant, error) {
	for range maxAsked {
		if t, ok := c.tell(); ok {
			return t, nil
		}
		if err := ask(ctx); err != nil {
			return 0, err
		}
	}
	if t, ok := c.tell(); ok {
		return t, nil
	}
	return 0, fmt.Errorf("%w: after %d answers it is not known to %v", ErrClockSkew, maxAsked, c.tolerance)
}

// tell returns the time; ok is false if it is not exact enough. It crawls rather than goes back as the offset is
// known better, so that what a process does in an order has that order in the table.
func (c *clock) tell() (t storekit.Instant, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.local()
	since := c.lo + (c.hi-c.lo)/2 + now.mono
	if step := c.told + time.Microsecond; since > step || step-since > c.tolerance {
		c.told = since
	} else {
		c.told = step
	}
	inexact := (c.hi-c.lo)/2 + drift(now.mono-c.at.mono)
	return c.told.Microseconds(), c.known && c.agreed && inexact <= c.tolerance && !c.stood(now)
}

// stood reports whether the monotonic clock stood still, or the wall clock was set, since the last answer. Then the
// offset is not to be relied on.
func (c *clock) stood(now ticks) bool {
	return ((now.wall - now.mono) - (c.at.wall - c.at.mono)).Abs() > c.tolerance
}

// offset is what the clock adds to the monotonic one.
func (c *clock) offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lo + (c.hi-c.lo)/2
}

// was reports whether a time that was told with this offset is right by what has been learned since.
func (c *clock) was(offset time.Duration) bool {
	now := c.offset()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agreed && (now-offset).Abs() <= c.tolerance
}

// observe takes note of an answer whose Date is date, and which was asked for and came at these times.
func (c *clock) observe(date time.Time, asked, came ticks) {
	server := time.Duration(date.UnixNano())
	lo, hi := server-came.mono, server+time.Second-asked.mono
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.stood(came) {
		c.known, c.agreed, c.lo, c.hi, c.at = true, false, lo, hi, came
		return
	}
	wider := max(0, drift(came.mono-c.at.mono))
	c.lo, c.hi, c.at = max(lo, c.lo-wider), min(hi, c.hi+wider), came
	gap := c.lo - c.hi
	c.agreed = gap <= c.tolerance
	switch {
	case !c.agreed:
		c.lo, c.hi = lo, hi // one of the clocks has been set, or one answer is wrong: the next one says which
	case gap > 0:
		c.lo, c.hi = c.hi, c.lo // the servers disagree a little, and the time is between theirs
	}
}

// measured makes a call's answers tell the time.
func (c *clock) measured(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("RetrysafeClock", c.deserialize), middleware.After)
	})
}

func (c *clock) deserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	asked := c.local()
	out, metadata, err = next.HandleDeserialize(ctx, in)
	came := c.local()
	response, ok := out.RawResponse.(*smithyhttp.Response)
	// Answers without a request ID come from something in between, whose clock is not DynamoDB's.
	if !ok || response == nil || response.Header.Get("X-Amzn-Requestid") == "" {
		return out, metadata, err
	}
	if date, parseErr := http.ParseTime(response.Header.Get("Date")); parseErr == nil {
		c.observe(date, asked, came)
	}
	return out, metadata, err
}
