package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	pools "github.com/go-redsync/redsync/v4/redis"
)

const retryDelay = 20 * time.Millisecond

var (
	locks   *redsync.Redsync
	mutex   sync.Mutex
	mutexes = map[string]*redsync.Mutex{} // by thread and name
)

// One server, or several (separated by commas) for a quorum.
func open(c command) {
	var made []pools.Pool
	for _, address := range strings.Split(c.text("url", ""), ",") {
		options, err := redis.ParseURL(address)
		if err != nil {
			panic(err)
		}
		made = append(made, goredis.NewPool(redis.NewClient(options)))
	}
	locks = redsync.New(made...)
}

// A new value for each acquire, as redsync makes it.
func newMutex(c command) *redsync.Mutex {
	tries := 1
	if waitMs := c.number("wait", 0); waitMs != 0 {
		tries = 1 << 20 // until the context ends
	}
	return locks.NewMutex(c.text("name", ""), redsync.WithExpiry(c.ms("lease", 30000)),
		redsync.WithTries(tries), redsync.WithRetryDelay(retryDelay))
}

func acquire(c command) (*redsync.Mutex, error) {
	limit := c.ms("wait", 0)
	if limit <= 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	m := newMutex(c)
	return m, m.LockContext(ctx)
}

// Its error does not tell why it gave up: a wait limit that is reached says as little as a try.
func refused(c command, err error) string {
	var taken *redsync.ErrTaken
	if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &taken) &&
		!errors.Is(err, redsync.ErrFailed) {
		return "EXCEPTION"
	}
	if c.number("wait", 0) > 0 {
		return "LK_ETIMEDOUT"
	}
	return "LK_EBUSY"
}

func call(c command, made answer) {
	key := c.thread + " " + c.text("name", "")
	mutex.Lock()
	held := mutexes[key]
	mutex.Unlock()
	var done = true
	var err error
	switch c.verb {
	case "open":
		open(c)
	case "clock":
		made["value"] = nowNs()
	case "stress":
		stress(c, made)
	case "stop":
		stopAll()
	case "acquire", "within", "try":
		if c.verb == "acquire" {
			c.arguments["wait"] = "-1"
		}
		if held, err = acquire(c); err == nil {
			made["token"] = held.Value()
			made["left_ms"] = time.Until(held.Until()).Milliseconds()
		}
		mutex.Lock()
		mutexes[key] = held
		mutex.Unlock()
	case "release":
		done, err = held.Unlock()
	case "extend":
		done, err = held.Extend()
	default:
		err = errors.New("unknown verb")
	}
	switch {
	case c.verb == "release" && (err != nil || !done), c.verb == "extend" && (err != nil || !done):
		made["code"] = "LK_ENOTOWNER"
	case err != nil:
		made["code"] = refused(c, err)
	}
	if err != nil {
		made["message"] = err.Error()
	}
}
