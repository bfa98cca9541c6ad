// Rueidislock at its fastest over one server: one key a lock instead of the majority of three, and
// no messages about its own changes (servers from 7.0.5 on).
package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"lockkeeper.bench/peers/measure"
)

const (
	prefix = "bench-rueidislock"
	// By default it gives an acquire 20 ms, and then waits for a message that does not come to the
	// only client; a busy machine takes longer.
	answerLimit = time.Second
)

type peer struct {
	rueidislock.Locker
}

func (p peer) Worker(name string) measure.Turn {
	return func(ctx context.Context, granted func()) error {
		_, release, err := p.WithContext(ctx, name)
		if err != nil {
			return err
		}
		granted()
		release()
		return nil
	}
}

func (p peer) Clients() (string, error) {
	client := p.Client()
	return client.Do(context.Background(), client.B().ClientList().Build()).ToString()
}

func (p peer) Forget(name string) error {
	client := p.Client()
	key := prefix + ":0:" + name
	return client.Do(context.Background(), client.B().Del().Key(key).Build()).Error()
}

func main() {
	measure.Main(func(url string, _ bool) (measure.Peer, error) {
		options, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		options.ClientName = measure.ClientName
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: options, KeyPrefix: prefix, KeyMajority: 1, NoLoopTracking: true,
			KeyValidity: measure.Lease, TryNextAfter: answerLimit})
		return peer{locker}, err
	})
}
