package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	hotName   = "bench:peer:hot"
	lineLimit = 20 * time.Second
)

type seat struct {
	grants atomic.Int64
	before int64
}

// runHot counts once each worker has had a grant, as bench/hot.c does.
func runHot(peer Peer, count int, length time.Duration) {
	if err := peer.Forget(hotName); err != nil {
		die("%v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	seats := make([]seat, count)
	var inside atomic.Int64
	var done sync.WaitGroup
	for i := range seats {
		turn := peer.Worker(hotName)
		granted := func() {
			if inside.Add(1) != 1 {
				die("two holders")
			}
			seats[i].grants.Add(1)
			inside.Add(-1)
		}
		done.Go(func() {
			for ctx.Err() == nil {
				err := turn(ctx, granted)
				if err != nil && !errors.Is(err, ErrBusy) && ctx.Err() == nil {
					die("%v", err)
				}
			}
		})
	}
	waitForLine(seats)
	measureHot(seats, length)
	stop()
	done.Wait()
}

func waitForLine(seats []seat) {
	limit := time.Now().Add(lineLimit)
	for i := range seats {
		for seats[i].grants.Load() == 0 {
			if time.Now().After(limit) {
				die("worker %d had no grant in %v", i, lineLimit)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func measureHot(seats []seat, length time.Duration) {
	cpuBefore, _ := cost()
	begun := time.Now()
	for i := range seats {
		seats[i].before = seats[i].grants.Load()
	}
	time.Sleep(length)
	var sum, most int64
	fewest := int64(1<<63 - 1)
	for i := range seats {
		grants := seats[i].grants.Load() - seats[i].before
		sum += grants
		fewest, most = min(fewest, grants), max(most, grants)
	}
	seconds := time.Since(begun).Seconds()
	cpuUs, _ := cost()
	if sum == 0 {
		die("no grants")
	}
	fmt.Printf("{\"grants_s\": %.1f, \"fewest\": %d, \"most\": %d, \"spread\": %.4f, "+
		"\"cpu_us\": %.3f}\n",
		float64(sum)/seconds, fewest, most,
		float64(most-fewest)*float64(len(seats))/float64(sum), (cpuUs-cpuBefore)/float64(sum))
}
