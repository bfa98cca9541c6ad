// Redsync in the hands of a Python program: reads commands from stdin and runs each on the named
// goroutine, made at first use ("-" is the reading one), as tests/system/driver does for C.
package main

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type command struct {
	id           int64
	thread, verb string
	arguments    map[string]string
}

func parse(line string) command {
	words := strings.Fields(line)
	id, _ := strconv.ParseInt(words[0], 10, 64)
	made := command{id, words[1], words[2], map[string]string{}}
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		made.arguments[key], _ = url.PathUnescape(value)
	}
	return made
}

func (c command) text(key, otherwise string) string {
	if value, there := c.arguments[key]; there {
		return value
	}
	return otherwise
}

func (c command) number(key string, otherwise int64) int64 {
	value, err := strconv.ParseInt(c.text(key, ""), 10, 64)
	if err != nil {
		return otherwise
	}
	return value
}

func (c command) ms(key string, otherwise int64) time.Duration {
	return time.Duration(c.number(key, otherwise)) * time.Millisecond
}

type answer map[string]any

var output sync.Mutex

func (a answer) send() {
	line, _ := json.Marshal(a)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func nowNs() int64 {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano()
}

func run(c command) {
	made := answer{"id": c.id, "start_ns": nowNs(), "code": "OK", "result": 0}
	call(c, made)
	made["end_ns"] = nowNs()
	made.send()
}

func main() {
	threads := map[string]chan command{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		c := parse(lines.Text())
		if c.verb == "quit" {
			return
		}
		if c.thread == "-" {
			run(c)
			continue
		}
		queue, there := threads[c.thread]
		if !there {
			queue = make(chan command, 1000)
			threads[c.thread] = queue
			go func() {
				for c := range queue {
					run(c)
				}
			}()
		}
		queue <- c
	}
}
