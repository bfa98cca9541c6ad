package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	phaseInvoke = iota + 1
	phaseGranted
	phaseFailed
	phaseRelease
	phaseReleased
)

var stops atomic.Int64

func stopAll() {
	stops.Add(1)
}

// A history: one JSON object a line, read by tests/interop/mixed.py.
type history struct {
	mutex sync.Mutex
	out   *bufio.Writer
}

func (h *history) add(phase int, timeNs, deadlineNs int64, thread, attempt int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	fmt.Fprintf(h.out, "{\"phase\":%d,\"time_ns\":%d,\"deadline_ns\":%d,\"thread\":%d,\"attempt\":%d}\n",
		phase, timeNs, deadlineNs, thread, attempt)
}

func stress(c command, made answer) {
	file, err := os.Create(c.text("history", "/dev/null"))
	if err != nil {
		panic(err)
	}
	defer file.Close()
	kept := &history{out: bufio.NewWriter(file)}
	defer kept.out.Flush()
	if c.number("wait", -1) < 0 {
		c.arguments["wait"] = "-1"
	}
	var threads sync.WaitGroup
	var grants, failures atomic.Int64
	begun := stops.Load()
	for thread := 0; thread < int(c.number("threads", 1)); thread++ {
		threads.Add(1)
		go func(thread int) {
			defer threads.Done()
			for i := 0; i < int(c.number("pairs", 1)) && stops.Load() == begun; i++ {
				if pair(c, kept, thread, i) {
					grants.Add(1)
				} else {
					failures.Add(1)
				}
				time.Sleep(time.Duration(c.number("pause_us", 0)) * time.Microsecond)
			}
		}(thread)
	}
	threads.Wait()
	made["grants"], made["failures"] = grants.Load(), failures.Load()
}

func pair(c command, kept *history, thread, attempt int) bool {
	kept.add(phaseInvoke, nowNs(), 0, thread, attempt)
	m, err := acquire(c)
	now := nowNs()
	if err != nil {
		kept.add(phaseFailed, now, 0, thread, attempt)
		return false
	}
	// Until() is of the wall clock, less the drift that redsync allows.
	deadline := now + time.Until(m.Until()).Nanoseconds()
	kept.add(phaseGranted, now, deadline, thread, attempt)
	time.Sleep(time.Duration(c.number("hold_us", 0)) * time.Microsecond)
	kept.add(phaseRelease, nowNs(), deadline, thread, attempt)
	m.Unlock()
	kept.add(phaseReleased, nowNs(), deadline, thread, attempt)
	return true
}
