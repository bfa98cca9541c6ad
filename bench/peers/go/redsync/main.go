// Redsync over one server, as its documentation shows it; its own retries.
package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"lockkeeper.bench/peers/goredis"
	"lockkeeper.bench/peers/measure"
)

type peer struct {
	goredis.Client
	locks *redsync.Redsync
}

func (p peer) Worker(name string) measure.Turn {
	mutex := p.locks.NewMutex(name, redsync.WithExpiry(measure.Lease))
	return func(ctx context.Context, granted func()) error {
		if err := mutex.LockContext(ctx); err != nil {
			return refused(err)
		}
		granted()
		// Not the context's: a lock that is held goes back when the run is over, too.
		released, err := mutex.Unlock()
		if err == nil && !released {
			err = errors.New("not released")
		}
		return err
	}
}

func refused(err error) error {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return measure.ErrBusy
	}
	return err
}

func main() {
	measure.Main(func(url string, _ bool) (measure.Peer, error) {
		client, err := goredis.Open(url)
		return peer{client, redsync.New(pools.NewPool(client.Client))}, err
	})
}
