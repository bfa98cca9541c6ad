// Package turns is turns.c for Go: the same arguments, the same lines, the same figures.
package turns

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	failedPause = 100 * time.Millisecond
	clockMono   = 1
)

// Lock is one worker's session.
type Lock interface {
	Lock(name string) error
	// Unlock answers whether the lock was still held.
	Unlock(name string) (held bool, err error)
}

type run struct {
	name                                string
	threads, ms, turns, holdUs, pauseUs int
	same, twice, live                   bool
	history                             *bufio.Writer
	mutex                               sync.Mutex
	over                                atomic.Bool
}

func die(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", arguments...)
	os.Exit(1)
}

// Now is CLOCK_MONOTONIC, which all programs of the comparison share.
func now() int64 {
	var time syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMono, uintptr(unsafe.Pointer(&time)), 0)
	return time.Nano()
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil || value < 0 {
		die("not a number: %s", text)
	}
	return value
}

func (r *run) read(word string) {
	numbers := map[string]*int{"threads": &r.threads, "ms": &r.ms, "turns": &r.turns,
		"hold_us": &r.holdUs, "pause_us": &r.pauseUs}
	key, value, given := strings.Cut(word, "=")
	switch {
	case given && numbers[key] != nil:
		*numbers[key] = number(value)
	case key == "name" && given:
		r.name = value
	case word == "same":
		r.same = true
	case word == "twice":
		r.twice = true
	case word == "live":
		r.live = true
	default:
		die("unknown word: %s", word)
	}
}

var running atomic.Pointer[run]

// Told writes what a library tells of its own accord while the lock is held.
func Told(text string) {
	if r := running.Load(); r != nil {
		r.tell("T %d - - %d %s", os.Getpid(), now(), text)
	}
}

func (r *run) tell(format string, arguments ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Fprintf(r.history, format+"\n", arguments...)
	if r.live {
		r.history.Flush()
	}
}

// again: the holder takes what it has once more, and gives it back once.
func again(lock Lock, name string) {
	if err := lock.Lock(name); err != nil {
		Told(err.Error())
		return
	}
	Told("entered again")
	lock.Unlock(name)
	Told("gave it back once")
}

// turn is one pair; 0: the lock could not be taken.
func (r *run) turn(lock Lock, index int, name string) time.Duration {
	begun := now()
	if err := lock.Lock(name); err != nil {
		r.tell("E %d %d %s %d %v", os.Getpid(), index, name, now(), err)
		time.Sleep(failedPause)
		return 0
	}
	granted := now()
	r.tell("G %d %d %s %d %d", os.Getpid(), index, name, begun, granted)
	if r.twice {
		again(lock, name)
	}
	time.Sleep(time.Duration(r.holdUs) * time.Microsecond)
	release := now()
	held, err := lock.Unlock(name)
	done := now()
	outcome := "ok"
	if err != nil {
		outcome = err.Error()
	} else if !held {
		outcome = "lost"
	}
	r.tell("R %d %d %s %d %d %s", os.Getpid(), index, name, release, done, outcome)
	return time.Duration(granted - begun + done - release)
}

func (r *run) worker(lock Lock, index int) (samples []time.Duration) {
	name := fmt.Sprintf("%s-%d", r.name, index)
	if r.same {
		name = r.name + "-0"
	}
	for !r.over.Load() && (r.turns == 0 || len(samples) < r.turns) {
		if took := r.turn(lock, index, name); took > 0 {
			samples = append(samples, took)
		}
		time.Sleep(time.Duration(r.pauseUs) * time.Microsecond)
	}
	return samples
}

func cpu() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (r *run) all(open func() (Lock, error)) {
	locks := make([]Lock, r.threads)
	for i := range locks {
		var err error
		if locks[i], err = open(); err != nil {
			die("%v", err)
		}
	}
	var all []time.Duration
	var mutex sync.Mutex
	var workers sync.WaitGroup
	cpuBefore, begun := cpu(), time.Now()
	for i, lock := range locks {
		workers.Go(func() {
			samples := r.worker(lock, i)
			mutex.Lock()
			defer mutex.Unlock()
			all = append(all, samples...)
		})
	}
	if r.turns == 0 {
		time.Sleep(time.Duration(r.ms) * time.Millisecond)
		r.over.Store(true)
	}
	workers.Wait()
	seconds, pairs := time.Since(begun).Seconds(), len(all)
	if pairs == 0 {
		die("no turn was taken")
	}
	slices.Sort(all)
	us := func(one time.Duration) float64 { return float64(one) / 1e3 }
	fmt.Printf(`{"pairs": %d, "pairs_s": %.1f, "p50_us": %.1f, "p99_us": %.1f, "cpu_us": %.2f}`+"\n",
		pairs, float64(pairs)/seconds, us(all[pairs/2]), us(all[pairs*99/100]),
		us(cpu()-cpuBefore)/float64(pairs))
}

func keep(lock Lock, count int) {
	for i := range count {
		if err := lock.Lock(fmt.Sprintf("kept-%d", i)); err != nil {
			die("%v", err)
		}
	}
	fmt.Println("kept")
	io.Copy(io.Discard, os.Stdin)
}

// Main is the whole program but for the system: open connects once, and its answer makes a worker's
// session.
func Main(open func(url, kind string) (func() (Lock, error), error)) {
	if len(os.Args) < 4 {
		die("usage: %s URL KIND HISTORY|keep …, see turns.h", os.Args[0])
	}
	session, err := open(os.Args[1], os.Args[2])
	if err != nil {
		die("%v", err)
	}
	if os.Args[3] == "keep" {
		lock, err := session()
		if err != nil {
			die("%v", err)
		}
		keep(lock, number(os.Args[4]))
		return
	}
	file, err := os.OpenFile(os.Args[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		die("%v", err)
	}
	r := run{name: "turns", threads: 1, ms: 1000, history: bufio.NewWriter(file)}
	for _, word := range os.Args[4:] {
		r.read(word)
	}
	running.Store(&r)
	r.all(session)
	r.history.Flush()
}
