// Bsm/redislock, as its documentation shows it. It waits for a busy lock only when told how: as its
// example does, by a try each 100 ms.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"lockkeeper.bench/peers/goredis"
	"lockkeeper.bench/peers/measure"
)

const retryDelay = 100 * time.Millisecond

type peer struct {
	goredis.Client
	locks   *redislock.Client
	options *redislock.Options
}

func (p peer) Worker(name string) measure.Turn {
	return func(ctx context.Context, granted func()) error {
		lock, err := p.locks.Obtain(ctx, name, measure.Lease, p.options)
		if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
			return measure.ErrBusy
		}
		if err != nil {
			return err
		}
		granted()
		return lock.Release(context.Background())
	}
}

func main() {
	measure.Main(func(url string, hot bool) (measure.Peer, error) {
		client, err := goredis.Open(url)
		var options *redislock.Options
		if hot {
			options = &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryDelay)}
		}
		return peer{client, redislock.New(client.Client), options}, err
	})
}
