// Package measure runs another library's locks the way bench/pairs.c and bench/hot.c run ours: the
// same arguments, the same warm-up, and one line of JSON with the same figures.
//
// usage: PROGRAM URL WORKERS MS [hot]
//
// Each worker is a goroutine that acquires and releases, a name of its own; with hot, all of them
// the same name, held for no time. Whatever goes wrong ends the program with a message.
package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// ClientName is what a library calls its connections, by which they are counted.
	ClientName = "lockkeeper-peer"
	// Lease is that of the C programs.
	Lease = 30 * time.Second

	workersMax = 4096
	warmPairs  = 8000            // of all workers together
	samplesMax = 1 << 21         // of all workers together
	limit      = 5 * time.Minute // for all but the measured time
)

// ErrBusy is the answer of a library that has given up waiting for a lock that another has.
var ErrBusy = errors.New("the lock is busy")

// Turn acquires the lock, calls granted while it is held, and releases it. Where it has to wait, it
// ends with the context at the latest.
type Turn func(ctx context.Context, granted func()) error

// Peer is a library that is connected to the server.
type Peer interface {
	// Worker makes what one worker uses for a name: what can be made in advance.
	Worker(name string) Turn
	// Clients is the server's answer to CLIENT LIST.
	Clients() (string, error)
	// Forget deletes the key of a name.
	Forget(name string) error
}

func die(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", arguments...)
	os.Exit(1)
}

func number(text string, least, most int) int {
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		die("not a number from %d to %d: %s", least, most, text)
	}
	return value
}

// Main is the whole program but for the library. With hot, the library may have to be told, or is
// used in another way.
func Main(open func(url string, hot bool) (Peer, error)) {
	hot := len(os.Args) == 5 && os.Args[4] == "hot"
	if len(os.Args) != 4 && !hot {
		die("usage: %s URL WORKERS MS [hot]", os.Args[0])
	}
	workers := number(os.Args[2], 1, workersMax)
	length := time.Duration(number(os.Args[3], 10, 600000)) * time.Millisecond
	time.AfterFunc(limit+length, func() { die("not done within %v", limit+length) })
	peer, err := open(os.Args[1], hot)
	if err != nil {
		die("%s: %v", os.Args[1], err)
	}
	if hot {
		runHot(peer, workers, length)
	} else {
		runPairs(peer, workers, length)
	}
}

// cost is the user and system time of this process in us, and how often its threads have given up
// their core to wait.
func cost() (cpuUs float64, switches int64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		die("getrusage: %v", err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e3, int64(usage.Nvcsw)
}

type worker struct {
	pairs   int
	samples []uint32 // ns
}

func (w *worker) pair(turn Turn) {
	if err := turn(context.Background(), func() {}); err != nil {
		die("%v", err)
	}
}

func (w *worker) run(turn Turn, until time.Time) {
	for begun := time.Now(); begun.Before(until); {
		w.pair(turn)
		now := time.Now()
		if len(w.samples) < cap(w.samples) {
			w.samples = append(w.samples, uint32(min(now.Sub(begun), 1<<32-1)))
		}
		w.pairs++
		begun = now
	}
}

func runPairs(peer Peer, count int, length time.Duration) {
	workers := make([]worker, count)
	var warm, done sync.WaitGroup
	var until time.Time
	goes := make(chan struct{})
	warm.Add(count)
	for i := range workers {
		w := &workers[i]
		w.samples = make([]uint32, 0, samplesMax/2/count)
		done.Go(func() {
			turn := peer.Worker(fmt.Sprintf("bench:peer:%d", i))
			for range 1 + warmPairs/count {
				w.pair(turn)
			}
			warm.Done()
			<-goes
			w.run(turn, until)
		})
	}
	warm.Wait()
	cpuBefore, switchesBefore := cost()
	begun := time.Now()
	until = begun.Add(length)
	close(goes)
	done.Wait()
	seconds := time.Since(begun).Seconds()
	cpuUs, switches := cost()
	printPairs(peer, workers, seconds, cpuUs-cpuBefore, switches-switchesBefore)
}

func printPairs(peer Peer, workers []worker, seconds, cpuUs float64, switches int64) {
	var all []uint32
	pairs := 0
	for _, w := range workers {
		pairs += w.pairs
		all = append(all, w.samples...)
	}
	slices.Sort(all)
	list, err := peer.Clients()
	if err != nil || pairs == 0 {
		die("%d pairs; CLIENT LIST: %v", pairs, err)
	}
	us := func(part float64) float64 {
		return float64(all[min(int(part*float64(len(all))), len(all)-1)]) / 1e3
	}
	fmt.Printf("{\"pairs_s\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"cpu_us\": %.3f, "+
		"\"switches\": %.3f, \"connections\": %d}\n",
		float64(pairs)/seconds, us(0.5), us(0.99), cpuUs/float64(pairs),
		float64(switches)/float64(pairs), strings.Count(list, " name="+ClientName+" "))
}
