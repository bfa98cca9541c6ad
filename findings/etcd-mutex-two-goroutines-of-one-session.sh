#!/usr/bin/env bash
# etcd's Go client 3.6.16, concurrency.Mutex: two goroutines that share a session both have the lock.
# The key of a mutex is its prefix and the session's lease. So a second Lock() of that session, through
# a mutex of its own, finds "its" key there and returns at once; and the first Unlock() deletes the key,
# so that a third, of another session, comes in while the second is still at work.
# A good guess is that two mutexes of one name exclude each other, as sync.Mutex does; each goroutine
# needs a session of its own.
# Versions: go.etcd.io/etcd/client/v3 3.6.16, etcd 3.4.23 (Debian 12), Go 1.26.
set -eu

dir=$(mktemp -d)
pids=
finish() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	chmod -R u+w "$dir" 2>/dev/null || :
	rm -rf "$dir"
}
trap finish EXIT
free_port() { # sets $port
	port=$((${port:-20000 + RANDOM % 12000} + 1))
	while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
}

free_port
peer=http://127.0.0.1:$port
free_port
url=http://127.0.0.1:$port
etcd --version | head -1
etcd --data-dir "$dir/data" --listen-client-urls "$url" --advertise-client-urls "$url" \
	--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" \
	>"$dir/etcd.log" 2>&1 &
pids="$pids $!"
cd "$dir"
export GOMODCACHE="$dir/mod" GOFLAGS='-mod=mod -modcacherw -trimpath'
go mod init example.org/finding 2>/dev/null
go get go.etcd.io/etcd/client/v3@v3.6.16 2>/dev/null
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var wrong bool

func expect(what string, is bool) {
	word := "seen     "
	if !is {
		word, wrong = "NOT SEEN ", true
	}
	fmt.Println(word + what)
}

func session(client *clientv3.Client) *concurrency.Session {
	made, err := concurrency.NewSession(client)
	if err != nil {
		panic(err)
	}
	return made
}

// taken: whether a mutex of that session has the lock within 2 s.
func taken(mutex *concurrency.Mutex) bool {
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return mutex.Lock(limited) == nil
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	shared, other := session(client), session(client)
	a, b := concurrency.NewMutex(shared, "/orders"), concurrency.NewMutex(shared, "/orders")
	c := concurrency.NewMutex(other, "/orders")
	expect("A has the lock", taken(a))
	expect("another session has to wait", !taken(c))
	done := make(chan bool)
	go func() { done <- taken(b) }()
	expect("B, in a goroutine of A's session, has it too", <-done)
	fmt.Println("A.Unlock():", a.Unlock(context.Background()))
	expect("then another session has it beside B", taken(c))
	fmt.Println("B.Unlock():", b.Unlock(context.Background()))
	if wrong {
		os.Exit(1)
	}
}
GO
go build -o finding . 2>build.log || { cat build.log; exit 1; }
go list -m go.etcd.io/etcd/client/v3
timeout 120 ./finding "$url" 2>error.log || { cat error.log; exit 1; }
echo "as stated"
